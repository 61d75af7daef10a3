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

import msgspec

from hermes_daemon.engine.identity import SystemClock, new_id
from hermes_daemon.server.connection import Connection
from hermes_daemon.server.daemon import Daemon, Identity
from hermes_daemon.server.entrance import UNIX
from hermes_daemon.server.lifecycle import Owner
from hermes_local import PROTOCOL_VERSIONS, __version__
from hermes_local.address import Address
from hermes_local.spawn import EXIT_REFUSED
from hermes_protocol.schema import schema_hash

if TYPE_CHECKING:
    from hermes_daemon.config import Configuration
    from hermes_daemon.core.settings import ListenSettings
    from hermes_daemon.engine.sessions import Sessions
    from hermes_daemon.server.engine_room import EngineRoom
    from hermes_daemon.server.listening import Listening
    from hermes_daemon.store.sqlite import SqliteStore
    from hermes_daemon.telemetry.hub import Hub

log = logging.getLogger(__name__)
TIDY_SECONDS = 300.0
COMMITS_SECONDS = 0.05
EXIT_START_AGAIN = 100
SESSION_ENVIRONMENT = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR", "TERM")


async def serve(
    address: Address,
    listener: socket.socket,
    owner: Owner,
    *,
    ready: Callable[[], None],
    listen: Callable[[ListenSettings], ListenSettings] | None = None,
    tell_supervisor: Callable[..., None] = lambda *_, **__: None,
    supervised: bool = False,
    passed: bool = False,
) -> int:
    """Serve the address until stopped; the exit code. `ready` is called when the first connection can be accepted.

    `listen` adds the command line's network listeners to the configured ones. `supervised`: EXIT_START_AGAIN asks
    whoever started us for the next daemon. `passed`: the listener is theirs, and the next connection to it does that.
    """
    identity = _identity(address.home, (f"unix:{address.socket_path}",))
    opening_engine = functools.partial(open_engine, address)
    daemon = Daemon(identity, opening_engine, lambda: withdraw(), tell_supervisor=tell_supervisor)
    loop = asyncio.get_running_loop()
    server = await loop.create_unix_server(lambda: Connection(daemon, UNIX).wire, sock=listener, **_kept(loop))
    network: Listening | None = None

    def withdraw() -> None:
        owner.withdraw()
        owner.note_leaving(state=daemon.state, restart=daemon.restart, until=daemon.leaves_at)
        if passed:
            server.close()  # who connects now waits in the supervisor's socket for our successor
        if network is not None:
            network.close()  # the successor needs its ports

    _on_signals(daemon)
    network = await _network(address, daemon, listen)
    if network is not None:
        if listen is not None and network.refused:
            print(f"hermes-daemon: {network.refused}", file=sys.stderr)
            return EXIT_REFUSED
        identity = daemon.identity
    owner.write_state(
        boot_id=identity.boot_id,
        build_id=identity.build_id,
        endpoints=identity.endpoints,
        protocol_versions=PROTOCOL_VERSIONS,
    )
    ready()  # whoever waits for it may read from the state file which port was taken
    tell_supervisor("READY")
    log.info("ready: version %s, pid %d, home %s", identity.version, os.getpid(), identity.home)
    opening = asyncio.create_task(_open_early(daemon))
    try:
        await daemon.stopped.wait()
    finally:
        opening.cancel()
        server.close()
        if network is not None:
            network.close()
        log.info("stopped")
    again = daemon.restart or daemon.reason == "idle"
    return EXIT_START_AGAIN if supervised and again and not passed else 0


def _kept(loop: asyncio.AbstractEventLoop) -> dict[str, Any]:
    """From Python 3.13 on, asyncio removes a unix socket's file when it is closed; the owner does that here."""
    mends = sys.version_info >= (3, 13) and isinstance(loop, asyncio.SelectorEventLoop)
    return {"cleanup_socket": False} if mends else {}


async def _network(
    address: Address, daemon: Daemon, flags: Callable[[ListenSettings], ListenSettings] | None
) -> Listening | None:
    """Listen on the network, where the command line or config.yaml asks for it. Without a word of it nothing is read
    before clients are served."""
    from hermes_daemon.config import load
    from hermes_daemon.config.loading import config_path

    if flags is None and not _says(config_path(address.home, os.environ), b"listen"):
        return None
    from hermes_daemon.server.listening import Listening

    settings = load(address.home, os.environ).settings.listen  # faults are told when the engine opens
    listening = await Listening.open(daemon, flags(settings) if flags is not None else settings, address.home)
    daemon.identity = msgspec.structs.replace(
        daemon.identity, endpoints=(*daemon.identity.endpoints, *listening.endpoints)
    )
    daemon.warnings = listening.problems
    return listening


def _says(path: str, word: bytes) -> bool:
    try:
        with open(path, "rb") as file:
            return word in file.read()
    except OSError:
        return False


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
    from hermes_daemon.telemetry.hub import Hub

    redaction = Redaction()
    telemetry = Hub(redaction)
    loop = asyncio.get_running_loop()
    telemetry.hear_commits(lambda work: loop.call_soon_threadsafe(lambda: loop.call_later(COMMITS_SECONDS, work)))
    configuration = Configuration(address.home, os.environ)
    path = os.path.join(address.home, "state.db")
    store = SqliteStore.open(path, configuration.current.database, SystemClock(), telemetry.committed)
    try:
        return await _join(address, daemon, configuration, store, telemetry, redaction)
    except BaseException:
        await store.close()
        raise


async def _join(address: Address, daemon: Daemon, configuration: Configuration, store: SqliteStore, telemetry: Hub,
                redaction: Redaction) -> EngineRoom:  # fmt: skip
    """Import and join the rooms; close what a killed daemon left open."""
    from hermes_daemon.core.records import DropProcess
    from hermes_daemon.core.redact import Redactor
    from hermes_daemon.engine.parts import Parts
    from hermes_daemon.engine.processes import SessionProcesses
    from hermes_daemon.engine.sessions import Sessions
    from hermes_daemon.middleware.faults import Faults
    from hermes_daemon.middleware.registry import Registry
    from hermes_daemon.providers.catalog import Catalog
    from hermes_daemon.providers.web import Web
    from hermes_daemon.server.engine_room import NO_SESSION, EngineRoom
    from hermes_daemon.server.guests import Guests
    from hermes_daemon.server.logfile import LogFile
    from hermes_daemon.server.native import table
    from hermes_daemon.store.plugin_database import open_database
    from hermes_daemon.telemetry.outlet import Outlet
    from hermes_daemon.tools.builtin import builtin_tools
    from hermes_daemon.tools.terminal.processes import reap

    table.check(set(daemon.reader_handlers))
    registry = Registry()
    children = SessionProcesses(store, NO_SESSION)

    def renew_redactor() -> None:
        known = configuration.secret_values() | catalog.secret_values()
        redaction.redact = Redactor(known) if configuration.current.security.redact_secrets else str

    catalog = Catalog(
        configuration.current, configuration.secret, address.home, processes=children, on_key=renew_redactor
    )
    web = Web(asyncio.get_running_loop())
    guests = Guests(
        registry,
        builtin_tools(address.home),
        home=address.home,
        bundled=os.path.join(os.path.dirname(__file__), "bundled"),
        settings=lambda: configuration.current,
        secret=configuration.secret,
        redact=redaction,
        set_config=configuration.set,
        environment=os.environ,
        profile=os.environ.get("HERMES_PROFILE", ""),
        http=web,
        database=open_database,
    )
    outlet = Outlet(telemetry, daemon.identity.version)
    parts = Parts(
        store=store,
        models=catalog,
        tools=guests.estate,
        clock=SystemClock(),
        settings=lambda: configuration.current,
        redact=redaction,
        middleware=registry,
        environment=_environment(),
        problems=lambda: (
            *store.warnings,
            *map(str, configuration.errors),
            *configuration.warnings,
            *guests.problems,
        ),
        fault=lambda: configuration.fault,
        faults=Faults(logging.getLogger("hermes_daemon.middleware"), redaction),
        sections=guests.estate.prompt_sections,
        telemetry=telemetry,
    )
    sessions = Sessions(parts, daemon.session_changed)
    guests.attach(sessions)

    def apply() -> None:
        """Bring the parts in line with the configuration of now."""
        settings = configuration.current
        daemon.limits = settings.daemon
        catalog.update(settings)
        outlet.apply(settings.telemetry)
        renew_redactor()
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

    await guests.load()

    async def close() -> None:
        tidying.cancel()
        await guests.close()
        await web.close()
        await catalog.close()
        await store.close()
        await asyncio.to_thread(outlet.close)

    tidying = asyncio.create_task(_tidy(sessions))
    daemon.handlers.update(table.HANDLERS)
    read_log = functools.partial(_read_log, address.log_path)
    return EngineRoom(sessions, parts, configuration, read_log, apply, close, guests, tuple(reaped))


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
