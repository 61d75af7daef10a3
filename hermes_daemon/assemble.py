"""The one place where concrete parts are chosen and joined.

`serve` listens and answers before anything heavy is imported; `open_engine` imports and joins the rooms.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hermes_daemon.engine.identity import SystemClock, new_id
from hermes_daemon.server.connection import Connection
from hermes_daemon.server.daemon import Daemon, Identity
from hermes_daemon.server.lifecycle import Owner
from hermes_local import PROTOCOL_VERSIONS, __version__
from hermes_local.address import Address
from hermes_protocol.schema import schema_hash

if TYPE_CHECKING:
    from hermes_daemon.config import Configuration
    from hermes_daemon.engine.sessions import Sessions
    from hermes_daemon.server.engine_room import EngineRoom
    from hermes_daemon.store.sqlite import SqliteStore

log = logging.getLogger(__name__)
TIDY_SECONDS = 300.0
EXIT_START_AGAIN = 100
SESSION_ENVIRONMENT = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR", "TERM")


async def serve(
    address: Address,
    listener: socket.socket,
    owner: Owner,
    *,
    ready: Callable[[], None],
    tell_supervisor: Callable[..., None] = lambda *_, **__: None,
    supervised: bool = False,
    passed: bool = False,
) -> int:
    """Serve the address until stopped; the exit code. `ready` is called when the first connection can be accepted.

    `supervised`: EXIT_START_AGAIN asks whoever started us for the next daemon. `passed`: the listener is theirs, and
    the next connection to it does that.
    """
    identity = _identity(address.home, (f"unix:{address.socket_path}",))
    daemon = Daemon(identity, functools.partial(open_engine, address), lambda: withdraw(), tell_supervisor)
    loop = asyncio.get_running_loop()
    server = await loop.create_unix_server(lambda: Connection(daemon, "unix"), sock=listener, **_kept(loop))

    def withdraw() -> None:
        owner.withdraw()
        owner.note_leaving(state=daemon.state, restart=daemon.restart, until=daemon.leaves_at)
        if passed:
            server.close()  # who connects now waits in the supervisor's socket for our successor

    _on_signals(daemon)
    ready()
    tell_supervisor("READY")
    owner.write_state(
        boot_id=identity.boot_id,
        build_id=identity.build_id,
        endpoints=identity.endpoints,
        protocol_versions=PROTOCOL_VERSIONS,
    )
    log.info("ready: version %s, pid %d, home %s", identity.version, os.getpid(), identity.home)
    opening = asyncio.create_task(_open_early(daemon))
    try:
        await daemon.stopped.wait()
    finally:
        opening.cancel()
        server.close()
        log.info("stopped")
    again = daemon.restart or daemon.reason == "idle"
    return EXIT_START_AGAIN if supervised and again and not passed else 0


def _kept(loop: asyncio.AbstractEventLoop) -> dict[str, Any]:
    """From Python 3.13 on, asyncio removes a unix socket's file when it is closed; the owner does that here."""
    mends = sys.version_info >= (3, 13) and isinstance(loop, asyncio.SelectorEventLoop)
    return {"cleanup_socket": False} if mends else {}


def _on_signals(daemon: Daemon) -> None:
    """SIGTERM and SIGINT end turns and stop, twice at once; SIGHUP reads the configuration again."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, lambda: daemon.stop("now", "signal", restart=False))
    loop.add_signal_handler(signal.SIGHUP, lambda: daemon.room and daemon.reload())


async def _open_early(daemon: Daemon) -> None:
    """Open the engine while nobody waits for it yet; whoever needs it gets the error."""
    try:
        await daemon.ready()
    except Exception as error:
        log.error("%s", error)


def _identity(home: str, endpoints: tuple[str, ...]) -> Identity:
    """This process. Its build is the version and this file as it was installed: an installation replaces it."""
    build = _build()
    return Identity(
        version=__version__,
        build_id=build,
        boot_id=new_id("boot"),
        schema_hash=schema_hash(),
        home=home,
        endpoints=endpoints,
        stale=lambda: _build() != build,
    )


def _build() -> str:
    try:
        found = os.stat(__file__)
        return f"{__version__}+{found.st_ino:x}.{found.st_mtime_ns:x}"
    except OSError:
        return f"{__version__}+removed"


async def open_engine(address: Address, daemon: Daemon) -> EngineRoom:
    """Open the database and join the rooms. When that fails the database is closed again: a second store on the file
    of a first would drop its locks."""
    from hermes_daemon.config import Configuration
    from hermes_daemon.store.sqlite import SqliteStore

    configuration = Configuration(address.home, os.environ)
    path = os.path.join(address.home, "state.db")
    store = SqliteStore.open(path, configuration.current.database, SystemClock())
    try:
        return await _join(address, daemon, configuration, store)
    except BaseException:
        await store.close()
        raise


async def _join(address: Address, daemon: Daemon, configuration: Configuration, store: SqliteStore) -> EngineRoom:
    """Import and join the rooms; close what a killed daemon left open."""
    from hermes_daemon.core.records import DropProcess
    from hermes_daemon.core.redact import Redactor
    from hermes_daemon.engine.parts import Parts
    from hermes_daemon.engine.processes import SessionProcesses
    from hermes_daemon.engine.sessions import Sessions
    from hermes_daemon.middleware.registry import Registry
    from hermes_daemon.providers.catalog import Catalog
    from hermes_daemon.server.engine_room import NO_SESSION, EngineRoom
    from hermes_daemon.server.logfile import LogFile
    from hermes_daemon.server.native import table
    from hermes_daemon.tools.builtin import builtin_tools
    from hermes_daemon.tools.terminal.processes import reap

    table.check(set(daemon.reader_handlers))
    children = SessionProcesses(store, NO_SESSION)
    catalog = Catalog(configuration.current, configuration.secret, address.home, processes=children)
    redaction = Redaction()
    parts = Parts(
        store=store,
        models=catalog,
        tools=builtin_tools(address.home),
        clock=SystemClock(),
        settings=lambda: configuration.current,
        redact=redaction,
        middleware=Registry(),
        environment=_environment(),
        problems=lambda: (*store.warnings, *map(str, configuration.errors), *configuration.warnings),
        fault=lambda: configuration.fault,
    )
    sessions = Sessions(parts, daemon.session_changed)

    def apply() -> None:
        """Bring the parts in line with the configuration of now."""
        settings = configuration.current
        daemon.limits = settings.daemon
        catalog.update(settings)
        known = configuration.secret_values() | catalog.secret_values()
        redaction.redact = Redactor(known) if settings.security.redact_secrets else str
        logging.getLogger().setLevel(settings.logging.level)
        logging.getLogger("httpx").setLevel(logging.WARNING)  # its lines hold URLs with their queries

    apply()
    for handler in logging.getLogger().handlers:
        if isinstance(handler, LogFile):
            handler.redact = redaction
    for problem in parts.problems():
        log.warning("%s", redaction(problem))
    left = store.processes()
    reaped = await asyncio.to_thread(reap, left)
    await sessions.recover()
    if left:
        await store.write(*(DropProcess(pid=row.pid) for row in left), durable=False, patience=None)

    async def close() -> None:
        tidying.cancel()
        await catalog.close()
        await store.close()

    tidying = asyncio.create_task(_tidy(sessions))
    daemon.handlers.update(table.HANDLERS)
    read_log = functools.partial(_read_log, address.log_path)
    return EngineRoom(sessions, parts, configuration, read_log, apply, close, tuple(reaped))


class Redaction:
    """Takes secrets out of text, by the redactor of now."""

    def __init__(self) -> None:
        self.redact: Callable[[str], str] = str

    def __call__(self, text: str) -> str:
        return self.redact(text)


async def _tidy(sessions: Sessions) -> None:
    """Now and then forget sessions that nobody watches; the store has them."""
    while True:
        await asyncio.sleep(TIDY_SECONDS)
        await sessions.evict()


def _environment() -> dict[str, str]:
    """What a session's programs start from: the user's basics, never what the starting client happened to have."""
    return {name: os.environ[name] for name in SESSION_ENVIRONMENT if name in os.environ}


def _read_log(path: str, lines: int, level: str | None) -> tuple[str, ...]:
    """The last lines of the log, of this level and above."""
    order = ("DEBUG", "INFO", "WARNING", "ERROR")
    wanted = order[order.index(level.upper()) :] if level else order
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 1_048_576))
            text = file.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return ()
    rows = [line for line in text.splitlines() if not level or any(f" {name} " in line[:40] for name in wanted)]
    return tuple(rows[-lines:])
