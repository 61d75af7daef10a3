"""The daemon's own command: parse, own the address, listen, then hand over to `assemble.serve`.

Listening comes before anything heavy is imported: a client that waits is served from the accept queue.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hermes_local import __version__
from hermes_local.address import Address, AddressError, resolve
from hermes_local.arguments import Command, Option, UsageError, parse, spell
from hermes_local.spawn import EXIT_TRY_AGAIN, EXIT_UNAVAILABLE, DaemonUnavailable

if TYPE_CHECKING:
    import socket
    from asyncio import AbstractEventLoop

    from hermes_daemon.core.settings import ListenSettings
    from hermes_daemon.server.lifecycle import Owner
    from hermes_local.arguments import Given

PROGRAM = "hermes-daemon"
PROFILE = Option("profile", "the profile whose daemon is meant", value="PROFILE", short="p")

COMMANDS = (
    Command(
        "serve",
        "serve the clients of one home until stopped or idle",
        options=(
            PROFILE,
            Option("foreground", "log to standard error as well", short="f"),
            Option(
                "listen", "listen there too: tcp://HOST:PORT or tls://HOST:PORT; again for more", value="URL", many=True
            ),
            Option("allow-remote", "let --listen take addresses that other machines can reach"),
            Option("tls-cert", "the certificate of tls:// with its chain (PEM)", value="FILE"),
            Option("tls-key", "its key (PEM)", value="FILE"),
            Option("runtime-dir", "the folder of socket, lock and state file", value="DIR"),
            Option("ready-fd", "write one JSON line to this descriptor when ready", value="N", number=True),
            Option("until-fd", "stop when this descriptor reaches its end", value="N", number=True),
            Option("supervised", "exit with 100 when a supervisor is to start the next one"),
        ),
    ),
    Command(
        "stdio",
        "speak the protocol on standard input and output, through the running daemon (started if needed)",
        options=(PROFILE, Option("private", "through a daemon of its own that ends with this command")),
    ),
    Command(
        "schema",
        "print the protocol's schema",
        options=(
            Option("format", "which document", value="FORMAT", choices=("jsonschema", "openrpc", "ts")),
            Option("out", "write it into this folder", value="DIR"),
            Option("experimental", "with what is experimental"),
        ),
    ),
)
# These have a parser of their own; `hermes config set` and `hermes models pull` come in here.
ROUTED = {
    "config": "get, set, unset and validate the configuration without a daemon",
    "models": "fetch, list and remove models of the embedded provider",
    "plugins": "validate a plugin's folder without a daemon",
}
# The same commands as `hermes daemon …`, for those who look for them here.
ALIASES = ("start", "stop", "restart", "status", "logs", "reload", "install", "uninstall")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code (protocol section 12)."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in ("--help", "-h", "help"):
        print(_help())
        return 0 if words else 2
    name, *rest = words
    if name == "--version":
        print(f"{PROGRAM} {__version__}")
        return 0
    if name in ALIASES:
        sys.stdout.flush()
        os.execv(sys.executable, [sys.executable, "-P", "-m", "hermes_shell", "daemon", name, *rest])  # noqa: S606
    if name in ROUTED:
        return _route(name, rest)
    command = next((command for command in COMMANDS if command.name == name), None)
    if command is None:
        return _usage(f"unknown command {name!r}")
    if "--help" in rest or "-h" in rest:
        print("\n".join(_describe(command)))
        return 0
    try:
        given = parse(command, rest)
    except UsageError as error:
        return _usage(str(error))
    if name == "schema":
        return _schema(str(given["format"] or "jsonschema"), given["out"], experimental=bool(given["experimental"]))
    try:
        address = resolve(profile=given["profile"])  # type: ignore[arg-type]  # the table says TEXT
    except AddressError as error:
        return _fail(str(error), EXIT_UNAVAILABLE)
    if name == "stdio":
        return _stdio(address, private=bool(given["private"]))
    if given["runtime_dir"]:
        address = Address(address.root, address.profile, os.path.realpath(str(given["runtime_dir"])))
    try:
        listen = _listen_flags(given)
    except UsageError as error:
        return _usage(str(error))
    return _serve(
        address,
        foreground=bool(given["foreground"]),
        ready_fd=_fd(given["ready_fd"]),
        until_fd=_fd(given["until_fd"]),
        listen=listen,
        supervised=bool(given["supervised"]),
    )


def _listen_flags(given: Given) -> Callable[[ListenSettings], ListenSettings] | None:
    """What the command line adds to the configured network listeners; None where it says nothing of them."""
    names = ("listen", "allow_remote", "tls_cert", "tls_key")
    if not any(given[name] for name in names):
        return None
    from hermes_daemon.core.settings import ListenSettings
    from hermes_daemon.server.listening import CannotListenThere, with_flags

    certificate, key = (os.path.abspath(str(given[name])) if given[name] else "" for name in names[2:])
    listen, allow_remote = str(given["listen"] or ""), bool(given["allow_remote"])

    def add(settings: ListenSettings) -> ListenSettings:
        return with_flags(settings, listen, allow_remote=allow_remote, tls_cert=certificate, tls_key=key)

    try:
        add(ListenSettings())
    except CannotListenThere as error:
        raise UsageError(str(error)) from None
    return add


def _serve(
    address: Address,
    *,
    foreground: bool,
    ready_fd: int | None,
    until_fd: int | None,
    listen: Callable[[ListenSettings], ListenSettings] | None = None,
    supervised: bool = False,
) -> int:
    from hermes_daemon.server.lifecycle import CannotListen, Owned, Owner, Readiness
    from hermes_local.supervisor import BadSocket, Supervisor, passed_sockets

    _leave_by_signals()
    supervisor = Supervisor.found(os.environ)
    readiness = Readiness(ready_fd)
    try:
        owner = Owner.acquire(address)
    except Owned as error:
        readiness.failed(str(error), EXIT_TRY_AGAIN, error.socket_path)
        return _fail(str(error), EXIT_TRY_AGAIN)
    except AddressError as error:
        readiness.failed(str(error), EXIT_UNAVAILABLE)
        return _fail(str(error), EXIT_UNAVAILABLE)
    try:
        try:
            passed = passed_sockets(os.environ)
            listener = _listener(owner, passed)
        except (CannotListen, BadSocket) as error:
            readiness.failed(str(error), EXIT_UNAVAILABLE)
            return _fail(str(error), EXIT_UNAVAILABLE)
        os.chdir(address.home)  # the folder a client happened to stand in may be unmounted or removed
        import asyncio

        from hermes_daemon import assemble
        from hermes_daemon.server import logfile

        logfile.setup(address.log_path, "INFO", foreground=foreground)
        if until_fd is not None:
            _stop_at_end(until_fd)
        run = assemble.serve(
            address,
            listener,
            owner,
            ready=lambda: readiness.ready(address),
            listen=listen,
            tell_supervisor=supervisor.tell,
            supervised=supervised,
            passed=bool(passed),
        )
        with listener, asyncio.Runner(loop_factory=_loop_factory()) as runner:
            return runner.run(run)
    finally:
        owner.release()


def _listener(owner: Owner, passed: list[socket.socket]) -> socket.socket:
    """The unix socket to serve: the one that was passed, else one of our own."""
    if not passed:
        return owner.bind()
    owner.adopt(passed)
    return passed[0]


def _leave_by_signals() -> None:
    """Until the loop takes SIGTERM and SIGINT over, let them end a start in order: what was made is removed again."""
    import signal

    def leave(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, leave)


def _loop_factory() -> Callable[[], AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _stop_at_end(fd: int) -> None:
    """Stop as by SIGTERM when whoever holds the other end of the pipe `fd` is gone, however it went."""
    import signal
    import threading

    def wait() -> None:
        while True:
            try:
                if not os.read(fd, 4096):
                    break
            except OSError:
                break
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="until-fd", daemon=True).start()


def _stdio(address: Address, *, private: bool) -> int:
    from hermes_local.pump import pump
    from hermes_local.spawn import reach

    try:
        if private:
            from hermes_daemon.server.private import serve_private

            return serve_private(address)
        if address.daemon_url[:2].lower() in ("tl", "ws"):
            raise DaemonUnavailable(f"{address.daemon_url}: bytes are pumped to unix: and tcp:// daemons only", 2)
        with reach(address) as connection:
            pump(0, 1, connection)
    except (DaemonUnavailable, AddressError) as error:
        return _fail(str(error), getattr(error, "exit_code", EXIT_UNAVAILABLE))
    return 0


SCHEMA_FILES = {"jsonschema": "hermes.schema.json", "openrpc": "openrpc.json", "ts": "hermes.ts"}


def _schema(form: str, out: object, *, experimental: bool) -> int:
    import json

    from hermes_protocol import schema

    if form == "ts":
        text = schema.typescript(experimental)
    else:
        document = schema.document("openrpc" if form == "openrpc" else "jsonschema", experimental)
        text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    if out is None:
        sys.stdout.write(text)
        return 0
    path = os.path.join(str(out), SCHEMA_FILES[form])
    try:
        os.makedirs(str(out), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        return _fail(f"cannot write {path}: {error.strerror}", 1)
    print(path)
    return 0


def _route(name: str, argv: list[str]) -> int:
    if name == "config":
        from hermes_daemon import config

        return config.main(argv)
    if name == "plugins":
        from hermes_daemon.api import validate

        return validate.main(argv, os.path.join(os.path.dirname(__file__), "bundled"))
    from hermes_daemon.providers import pull

    return pull.main(argv)


def _fd(number: object) -> int | None:
    return int(number) if isinstance(number, float) else None


def _describe(command: Command) -> list[str]:
    lines = [f"usage: {command.usage(PROGRAM)}", "", command.help]
    if command.options:
        lines.append("")
        lines += [f"  {spell(option):28} {option.help}" for option in command.options]
    return lines


def _help() -> str:
    rows = [(command.name, command.help) for command in COMMANDS]
    rows += list(ROUTED.items())
    rows.append(("|".join(ALIASES), ""))
    rows.append(("", "the same as `hermes daemon …`"))
    lines = [f"usage: {PROGRAM} COMMAND …", "", "The daemon that owns your agent's sessions.", ""]
    lines += [f"  {name:10} {text}".rstrip() for name, text in rows]
    return "\n".join(lines)


def _usage(message: str) -> int:
    print(f"{PROGRAM}: {message}; see `{PROGRAM} --help`", file=sys.stderr)
    return 2


def _fail(message: str, code: int) -> int:
    print(f"{PROGRAM}: {message}", file=sys.stderr)
    return code
