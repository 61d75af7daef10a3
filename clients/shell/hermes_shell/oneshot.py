"""`hermes chat -q`: one question, its answer on standard output, everything else on standard error.

A small synchronous client over the standard library: asyncio alone would take longer than the whole command.
"""

from __future__ import annotations

import os
import sys
import time

# The module without the underscore imports enum: 3 ms.
from _signal import SIG_DFL, SIGHUP, SIGTERM, getsignal, signal  # type: ignore[import-not-found]

from hermes_local import connection as wire
from hermes_local import spawn
from hermes_local.address import resolve
from hermes_local.codec import encode
from hermes_local.environment import session_environment
from hermes_shell.answer import STDERR, STDOUT, Answer, write_all
from hermes_shell.turn import INTERRUPT_S, Turn, TurnLost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from hermes_local.address import Address
    from hermes_local.connection import Connection
    from hermes_shell.options import ChatOptions

NAME = "hermes chat -q"
REQUEST_S = 30.0
INTERRUPTED, FAILED, BROKEN_PIPE = 130, 1, 141
TOLD = ".local-model-told"


def run(options: ChatOptions) -> int:
    """Ask once and print the answer; the exit code: 0, 1 turn failed, 130 interrupted, else as main's."""
    text = _question(options)
    address = resolve(profile=options.profile)
    client_id = wire.new_id()
    connection = spawn.connect_or_start(address, NAME, client_id=client_id)
    chat = OneShot(address, options)
    try:
        return chat.ask(connection, client_id, text)
    finally:
        chat.close()


class OneShot:
    """One question to one session."""

    def __init__(self, address: Address, options: ChatOptions) -> None:
        self.address = address
        self.options = options
        err_tty = os.isatty(STDERR)
        self.answer = Answer(self._write, tty=(os.isatty(STDOUT), err_tty and not os.environ.get("NO_COLOR")))
        self.turn: Turn | None = None
        self._restore: dict[str, Any] = {}
        self._muted = False

    def ask(self, connection: Connection, client_id: str, text: str) -> int:
        """Submit and follow to the end; the exit code."""
        try:
            session_id, cursor = self._session(connection)
        except BaseException:
            connection.close()
            raise
        self.turn = turn = Turn(self.address, connection, client_id, session_id, self._see, self.answer.say)
        turn_options = {"model": self.options.model} if self.options.model and cursor is None else {}
        _end_by_signals()
        deadline = None if self.options.timeout is None else time.monotonic() + self.options.timeout
        try:
            receipt = turn.submit(text, turn_options, cursor)
            if receipt.get("disposition") == "queued":
                self.answer.say("the session is busy: waiting for the turns before this one")
            turn.follow(None if deadline is None else max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            return self._give_up("the time given with --timeout is over", FAILED)
        except KeyboardInterrupt as signalled:
            number = signalled.args[0] if signalled.args else 0
            self._muted = self._muted or number == SIGHUP  # the terminal is gone
            return self._give_up("interrupted", 128 + number if number else INTERRUPTED)
        except BrokenPipeError:
            self._muted = True
            return self._give_up("the reader of the answer is gone", BROKEN_PIPE)
        except TurnLost as error:
            self.answer.failed = str(error)
        return self._result()

    def close(self) -> None:
        """Give back what was changed on an existing session, and detach."""
        if self.turn is None:
            return
        try:
            for option, value in self._restore.items():
                self._set(self.turn.connection, self.turn.session_id, option, value)
        except (wire.RpcError, OSError):
            pass  # the answer is what counts; the daemon may be gone
        self.turn.connection.close()

    def _session(self, connection: Connection) -> tuple[str, tuple[str, int] | None]:
        """The session to ask in; with a cursor when it was made for this question."""
        options = self.options
        cwd = options.folder()
        found = options.session
        if options.continue_:
            found = _latest(connection, cwd)
        elif found is not None:
            from hermes_shell.session_ids import find

            found = find(connection, found)
        if found is not None:
            self._adopt(connection, found)
            return found, None
        wanted: dict[str, Any] = {"unattended": "deny"}
        if options.yolo:
            wanted["mode"] = "off"
        if options.toolsets is not None:
            wanted["toolsets"] = list(options.toolsets)
        env = session_environment()
        params: dict[str, Any] = {"cwd": cwd, "options": wanted, "env": env, "key": wire.new_id()}
        if options.model:
            params["model"] = options.model
        made = connection.request("hermes/session/create", params, REQUEST_S)
        return made["session"]["sessionId"], (made["epoch"], made["seq"])

    def _adopt(self, connection: Connection, session_id: str) -> None:
        """An existing session, for this one question: nobody may be waited for. What was set before comes back."""
        before = connection.request("hermes/session/get", {"sessionId": session_id}, REQUEST_S)["options"]
        wanted: dict[str, Any] = {"unattended": "deny"}
        if self.options.yolo:
            wanted["mode"] = "off"
        if self.options.toolsets is not None:
            wanted["toolsets"] = list(self.options.toolsets)
        defaults = {"unattended": "wait"}
        for option, value in wanted.items():
            old = before.get(option, defaults.get(option))
            if old != value:
                self._set(connection, session_id, option, value)
                self._restore[option] = old

    def _set(self, connection: Connection, session_id: str, option: str, value: Any) -> None:
        params = {"sessionId": session_id, "id": option, "value": value}
        connection.request("hermes/session/setOption", params, REQUEST_S)

    def _see(self, event: dict[str, Any]) -> None:
        if self.options.json and "seq" in event and not self._muted:
            write_all(STDOUT, encode(event) + "\n")
        turn = self.turn
        theirs = event.get("turnId")
        if turn is None or (theirs and turn.turn_id and theirs != turn.turn_id):
            return
        self.answer.feed(event["kind"], event["data"], event.get("itemId"))

    def _write(self, fd: int, text: str) -> None:
        if not self.options.json and not self._muted:
            write_all(fd, text)

    def _give_up(self, reason: str, code: int) -> int:
        """End the turn and wait for its end. A second Ctrl-C leaves at once; the daemon ends the turn by itself."""
        if self.turn is not None:
            try:
                self.turn.interrupt(reason)
            except (KeyboardInterrupt, OSError, wire.RpcError, spawn.DaemonUnavailable, TurnLost):
                self._error(f"{reason}; the daemon was asked to end the turn (not seen within {INTERRUPT_S:g} s)")
                return code
        self._error(reason)
        return code

    def _result(self) -> int:
        if self.answer.failed:
            self._error(self.answer.failed)
            return FAILED
        if self.answer.model.startswith("local/"):
            self._tell_about_the_local_model()
        return 0

    def _error(self, text: str) -> None:
        if not self._muted:
            write_all(STDERR, f"hermes: {text}\n")

    def _tell_about_the_local_model(self) -> None:
        """Once for each home: who has answered and how to get a better one."""
        marker = f"{self.address.home}/{TOLD}"
        if os.path.exists(marker):
            return
        self._error(
            f"{self.answer.model} answered, a tiny model on this machine: good to see that everything works, not to "
            "code with. For a better one: `hermes config set model.default PROVIDER/MODEL` (docs/howto/models.md)"
        )
        try:  # noqa: SIM105 (contextlib is not imported on this path)
            os.close(os.open(marker, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        except OSError:
            pass  # said again next time


def _end_by_signals() -> None:
    """Let SIGTERM and SIGHUP end the turn like Ctrl-C: what was asked for must not go on after its asker.

    The exit code is then 128 and the signal's number. What the caller ignores (nohup) stays ignored.
    """
    for number in (SIGTERM, SIGHUP):
        if getsignal(number) == SIG_DFL:
            signal(number, _signalled)


def _signalled(number: int, _frame: object) -> None:
    raise KeyboardInterrupt(number)


def _question(options: ChatOptions) -> str:
    from_stdin = options.query in (None, "-")
    if from_stdin and os.isatty(0):
        write_all(STDERR, "hermes: reading the question from the terminal; Ctrl-D ends it\n")
    if from_stdin:
        text = sys.stdin.buffer.read().decode("utf-8", "replace")
    else:  # where the locale is not UTF-8, its letters came as escaped bytes
        text = str(options.query).encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if not text.strip():
        from hermes_local.arguments import UsageError

        where = "standard input" if from_stdin else "-q"
        raise UsageError(f"the question is empty: expected text from {where}")
    return text


def _latest(connection: Connection, cwd: str) -> str:
    rows = connection.request("hermes/session/list", {"cwd": cwd, "limit": 1}, REQUEST_S)["sessions"]
    if not rows:
        from hermes_shell.failures import Failed

        raise Failed(f"no session to continue in {cwd}; leave --continue away to begin one", 5)
    return str(rows[0]["sessionId"])
