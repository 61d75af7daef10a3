"""The chat itself, without a terminal: sends what is typed, follows the session, asks, answers, survives restarts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from hermes_client import Change, Changes, Connection, Disconnected, Session, View
from hermes_protocol import events as e
from hermes_protocol import methods as m
from hermes_protocol.content import input_text
from hermes_protocol.errors import ProtocolError
from hermes_shell.interactive.asking import Asking
from hermes_shell.interactive.face import Face
from hermes_shell.interactive.first_use import FirstUse
from hermes_shell.interactive.painter import Painter
from hermes_shell.interactive.printable import one_line
from hermes_shell.interactive.refusals import sentence
from hermes_shell.interactive.status import Situation
from hermes_shell.interactive.transcript import Transcript

_decode_state = msgspec.json.Decoder(m.DaemonStateParams).decode
_decode_changed = msgspec.json.Decoder(m.SessionChangedParams).decode
_decode_log = msgspec.json.Decoder(m.LogMessageParams).decode
_decode_lag = msgspec.json.Decoder(m.LagParams).decode
_decode_desync = msgspec.json.Decoder(m.DesyncParams).decode

LOG_LEVELS = {1: "error", 2: "warning", 3: "info"}
"""Of window/logMessage. Type 4 is for logs, not for people."""

BREATH = 50
"""Changes between two looks at keys and screen: a long replay waits in memory and would never let go by itself."""


class Chat:
    """One person at one terminal; `session` may be exchanged for another while it lives."""

    def __init__(self, connection: Connection, painter: Painter, first_use: FirstUse) -> None:
        self.connection = connection
        self.painter = painter
        self.asking = Asking(painter, self.start)
        self.expanded = False
        self.sending: list[str] = []
        self.hint = ""
        self.daemon_state = "ready"
        self.older_cursor: str | None = None
        """The item before which /older goes on."""
        self._handed_over = False
        self.session: Session
        self.view: View
        """The session as far as the transcript was fed: what is shown. The session itself may be ahead."""
        self.transcript = Transcript(painter)
        self._first_use = first_use
        self._face: Face
        self._boot_id = ""
        self._made: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._following: asyncio.Task[None] | None = None
        # With the session it was typed in: it goes there, also when another one is shown by then.
        self._outbox: asyncio.Queue[tuple[Session, str]] = asyncio.Queue()
        self._clients = 0
        self._unhook: list[Callable[[], None]] = []

    # --- life ---------------------------------------------------------------------------------------------------------

    async def begin(self, face: Face, session: Session, *, made: bool) -> None:
        """Show `session` on `face`. `made` = this chat created it and may delete it again while it is empty."""
        self._face = face
        self._boot_id = self.connection.welcome.boot_id if self.connection.welcome else ""
        self._unhook = [self.connection.on_state(self._connection_state), self.connection.on_note(self._note)]
        self.show(session, made=made)
        self.start(self._send_all())

    def show(self, session: Session, *, made: bool = False) -> None:
        """Follow this session from now on."""
        if made:
            self._made.add(session.session_id)
        if self._following is not None:
            self._following.cancel()
        self.session, self.transcript = session, Transcript(self.painter)
        self.asking.show(self._face, session)
        self._clients = 0
        self.older_cursor = session.view.older_cursor
        stream = session.changes()
        self._changed(Change(session.view))
        self._following = self.start(self._follow(stream))

    async def end(self) -> None:
        """Detach and disconnect; a session of ours in which nothing was said is removed."""
        await self.detach()
        with contextlib.suppress(ProtocolError, Disconnected, TimeoutError):
            async with asyncio.timeout(2):
                await self._forget_if_empty()
        await self.connection.close()

    async def detach(self) -> None:
        """Stop following and sending; what could not be sent is shown."""
        for stop in self._unhook:
            stop()
        self._unhook = []
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for text in self.sending:
            self._face.print(self.painter.note(f"not sent: {text}", "warning"))

    async def _forget_if_empty(self) -> None:
        view = self.view
        spoken = view.items or view.queue or view.turn or self.sending
        if self.session.session_id in self._made and not spoken and self.connection.state == "ready":
            params = m.DeleteParams(self.session.session_id)
            await self.connection.request("hermes/session/delete", params, m.Empty)

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a coroutine beside everything else; an error it ends with becomes a line."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        match error:
            case None:
                return
            case ProtocolError():
                self.say(sentence(error), "error")
            case Disconnected():
                self.say(f"not done: {error}", "error")
            case OSError():
                self.say(f"{error.filename or ''}: {error.strerror or error}".lstrip(": "), "error")
            case _:
                # A bug of ours: the chat lives on, and whoever reports it has something to report.
                self.say(f"unexpected: {type(error).__name__}: {error}", "error")

    # --- what the person does -----------------------------------------------------------------------------------------

    def submit(self, text: str) -> None:
        """Send a message; while a turn runs it is queued by the daemon."""
        self.hint = ""
        self.sending.append(text)
        self._outbox.put_nowait((self.session, text))
        self._face.redraw()

    async def _send_all(self) -> None:
        """One after the other, so that the order typed is the order sent, also over a lost connection."""
        while True:
            session, text = await self._outbox.get()
            try:
                await session.submit(text)
                self._first_use.spoken()
            except (ProtocolError, Disconnected) as refused:
                self.say(sentence(refused) if isinstance(refused, ProtocolError) else str(refused), "error")
                self._face.restore(text)
            self.sending.remove(text)
            self._face.redraw()

    def press_interrupt(self) -> None:
        """Ctrl-C: ends the running turn; when it was pressed before, or nothing runs, the second time leaves."""
        if self.hint:
            self._face.leave(0)
            return
        self.hint = "Ctrl-C again leaves"
        turn = self.view.turn
        if turn is not None:
            self.start(self._interrupt(turn.turn_id))
        self._face.redraw()

    async def _interrupt(self, turn_id: str) -> None:
        await self.session.interrupt(turn_id, reason="interrupted by the user")

    def typed(self) -> None:
        """The person went on typing: a Ctrl-C before that no longer counts."""
        if self.hint:
            self.hint = ""
            self._face.redraw()

    def toggle(self) -> None:
        """Ctrl-O: show the last tool call's whole output below, or put it away."""
        self.expanded = not self.expanded and bool(self.transcript.calls)
        self._face.redraw()

    def say(self, text: str, level: str = "info") -> None:
        """A line of ours into the scrollback."""
        self._face.print(self.painter.note(text, level))

    def restore(self, text: str) -> None:
        """Give words back to the person for editing."""
        self._face.restore(text)

    def show_piece(self, text: str) -> None:
        """Something painted already into the scrollback."""
        self._face.print(text)

    def leave(self, code: int = 0) -> None:
        """End; a running turn goes on in the daemon, and a line says how to come back."""
        self._face.leave(code)

    def farewell(self) -> str:
        """What to print after the screen is gone, or ""."""
        view = self.view
        if self.session.session_id in self._made and not view.items and not self.sending:
            return ""
        goes_on = "The turn goes on. " if view.turn is not None else ""
        return self.painter.note(f"{goes_on}Come back with: hermes attach {self.session.session_id}")

    # --- what there is to see -----------------------------------------------------------------------------------------

    def live(self, height: int) -> list[str]:
        """Everything that moves, bottom lines last: open items, the question, what waits to be sent."""
        view, paint = self.view, self.painter
        below = self.asking.lines()
        for entry in view.queue:
            who = paint.who(entry.by)
            mark = f"{'for this turn' if entry.kind == 'steer' else 'queued'}{'' if who == 'you' else f' by {who}'}"
            below.append(paint.style(f"  {mark}: {one_line(input_text(entry.input), 120)}", "dim"))
        below.extend(paint.style(f"  sending: {one_line(text, 120)}", "dim") for text in self.sending)
        above = self._expanded_lines(height - len(below)) if self.expanded else []
        room = height - len(below) - len(above)
        return [*above, *self.transcript.live(view, room), *below][-height:] if height > 0 else []

    def _expanded_lines(self, height: int) -> list[str]:
        text = self.transcript.expanded(self.view, len(self.transcript.calls))
        lines = text.split("\n") if text else []
        if len(lines) > height:
            shown = max(0, height - 1)
            number = len(self.transcript.calls)
            more = f"  {len(lines) - shown} more lines (/expand {number} prints all, Ctrl-O closes)"
            lines = [*lines[:shown], self.painter.style(more, "yellow")]
        return lines[: max(0, height)]

    def situation(self) -> Situation:
        """What the status line tells beside the View."""
        lost = self.connection.state == "lost"
        state = "lost" if lost else self.daemon_state
        return Situation(state, self.connection.reason, len(self.sending), self.hint, max(0, self._clients - 1))

    # --- what happens -------------------------------------------------------------------------------------------------

    async def _follow(self, stream: Changes) -> None:
        try:
            count = 0
            async for change in stream:
                self._changed(change)
                count += 1
                if count % BREATH == 0:
                    await asyncio.sleep(0)
        except ProtocolError as refused:
            self.say(f"this session can be followed no longer: {sentence(refused)}; /new begins another", "error")

    def _changed(self, change: Change) -> None:
        if isinstance(change.payload, e.SessionUpdated) or change.event is None:
            self._clients = change.view.session.clients
        self.view = change.view
        for piece in self.transcript.feed(change):
            self._face.print(piece)
        if isinstance(change.payload, e.TurnStarted | e.TurnEnded):
            self.hint = ""
        if isinstance(change.payload, e.TurnEnded):
            line = self._first_use.line(change.view.session.model)
            if line and change.payload.status == "completed":
                self.say(line)
        self.asking.look(change.view)
        self._face.redraw()

    def _connection_state(self, state: str, reason: str) -> None:
        if state == "ready" and self.connection.welcome is not None:
            restarted = self._boot_id and self.connection.welcome.boot_id != self._boot_id
            self._boot_id = self.connection.welcome.boot_id
            self.daemon_state = "ready"
            said = "the daemon was restarted; connected again" if restarted else "connected again"
            if restarted and self._handed_over:
                said += ", nothing was lost"
            self._handed_over = False
            self.say(said, "warning")
        elif state == "closed" and reason:
            self.say(f"the connection is closed: {reason}", "error")
        self._face.redraw()

    def _note(self, method: str, params: msgspec.Raw) -> None:
        handler = self._NOTES.get(method)  # events are not among them: the session follows those
        if handler is not None:
            handler(self, params)
            self._face.redraw()

    def _daemon_state(self, params: msgspec.Raw) -> None:
        told = _decode_state(params)
        self.daemon_state = told.state
        self._handed_over = told.restart
        if told.state != "ready":
            within = f", within {told.deadline_s:.0f} s" if told.deadline_s is not None else ""
            after = "; another one takes its place" if told.restart else ""
            why = f": {told.reason}" if told.reason else ""
            self.say(f"the daemon is {told.state}{within}{after}{why}", "warning")

    def _session_changed(self, params: msgspec.Raw) -> None:
        changed = _decode_changed(params)
        if changed.session_id == self.session.session_id:
            self._clients = changed.summary.clients

    def _logged(self, params: msgspec.Raw) -> None:
        told = _decode_log(params)
        if told.type in LOG_LEVELS:
            self.say(f"daemon: {told.message}", LOG_LEVELS[told.type])

    def _lag(self, params: msgspec.Raw) -> None:
        told = _decode_lag(params)
        if told.session_id == self.session.session_id:
            slow = "this terminal is slow: answers appear whole, not word by word"
            self.say(slow if told.detail == "final" else "answers appear word by word again", "warning")

    def _desynced(self, params: msgspec.Raw) -> None:
        if _decode_desync(params).session_id == self.session.session_id:
            self.say("this terminal fell behind and reads again what it missed", "warning")

    _NOTES = {
        "hermes/daemon/state": _daemon_state,
        "hermes/session/changed": _session_changed,
        "window/logMessage": _logged,
        "hermes/lag": _lag,
        "hermes/desync": _desynced,
    }
