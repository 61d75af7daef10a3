"""The daemon as its connections see it: who is connected, whether it is ready, what keeps it alive, how it stops.

It listens before anything heavy is imported: `initialize` is answered from constants, everything else waits for
`open`, which joins the rooms.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from hermes_daemon.core.ports import Reload, StorageError
from hermes_daemon.core.settings import DaemonSettings
from hermes_daemon.server.audience import Audience
from hermes_daemon.server.connection import Connection, invalid, storage_failure
from hermes_daemon.server.stranger import stranger
from hermes_protocol import PROTOCOL_VERSION, envelope
from hermes_protocol.errors import ProtocolError
from hermes_protocol.events import SessionSummary
from hermes_protocol.methods import (
    METHODS,
    ConnectionRow,
    DaemonStateParams,
    ExperimentalCapabilities,
    Handover,
    Hello,
    Idle,
    InitializeParams,
    InitializeResult,
    Limits,
    LogMessageParams,
    Method,
    PingParams,
    PingResult,
    SeenParams,
    ServerCapabilities,
    ServerInfo,
    SessionChangedParams,
    SessionCounts,
    ShutdownParams,
    ShutdownResult,
    StatusResult,
    Welcome,
)

if TYPE_CHECKING:
    from hermes_daemon.server.engine_room import EngineRoom
    from hermes_daemon.server.wire import Wire

log = logging.getLogger(__name__)
FEATURES: Final = (
    "sessions", "turns", "steer", "queue", "permissions", "questions", "replay", "search", "tools", "clientTools",
    "telemetry",
)  # fmt: skip
REQUEST_KINDS: Final = ("permission", "clarify", "secret", "form", "clientTool", "clientMiddleware")
State = Literal["ready", "draining", "stopping"]
REOPEN_SECONDS: Final = 1.0
STALE_SECONDS: Final = 1.0
LOOK_SECONDS: Final = 30.0
OPEN_SECONDS: Final = 5.0
HURRY_SECONDS: Final = 2.0
ERROR, WARNING, INFO = 1, 2, 3
"""Kinds of window/logMessage (Language Server Protocol 3.17, MessageType)."""


class Identity(msgspec.Struct, frozen=True):
    """What this process is: `build_id` tells two installations of one version apart."""

    version: str
    build_id: str
    boot_id: str
    schema_hash: str
    home: str
    endpoints: tuple[str, ...]
    stale: Callable[[], bool]


class Daemon:
    """One process. `open_engine` joins the rooms; it may fail and be tried again with the next request.

    `closed_to` is why it failed last; `strangers` are sockets from the network on which nobody has spoken the protocol
    yet, `unknown` those who have not shown that they may stay, oldest first; `warnings` are what status tells beside
    those of the engine.
    """

    def __init__(
        self,
        identity: Identity,
        open_engine: Callable[[Daemon], Awaitable[EngineRoom]],
        withdraw: Callable[[], None],
        methods: Mapping[str, Method] = METHODS,
        tell_supervisor: Callable[..., None] = lambda *_, **__: None,
    ) -> None:
        self.identity = identity
        self.methods = methods
        self.decoders: dict[str, msgspec.json.Decoder[Any]] = {
            name: msgspec.json.Decoder(row.params) for name, row in methods.items()
        }
        self.limits = DaemonSettings()
        self.connections: dict[str, Connection] = {}
        self.strangers: set[Wire] = set()
        self.unknown: dict[Wire, None] = {}
        self.state: State = "ready"
        self.stopped = asyncio.Event()
        self.restart = False
        self.reason = ""
        self.handlers: dict[str, Callable[[Any, Any], Awaitable[Any]]] = {}
        self.reader_handlers: dict[str, Callable[[Any, Any], Any]] = {
            "hermes/daemon/ping": ping,
            "hermes/daemon/status": lambda connection, _: connection.daemon.status(),
            "hermes/daemon/shutdown": shutdown,
        }
        self.audience = Audience(self)
        self.warnings: tuple[str, ...] = ()
        self.room: EngineRoom | None = None
        self.in_flight = 0
        self._open_engine = open_engine
        self._withdraw = withdraw
        self._tell_supervisor = tell_supervisor
        self._opening: asyncio.Task[None] | None = None
        self._opened_at = 0.0
        self.closed_to = ""
        self._watching: asyncio.Task[None] | None = None
        self._started = time.monotonic()
        self._look: asyncio.TimerHandle | None = None
        self._idle_since: float | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._stop_by: float | None = None
        self._hurried = asyncio.Event()
        self._changed: dict[str, SessionChangedParams] = {}

    # --- starting ---

    async def ready(self) -> None:
        """Return when the engine is there. storage_error with the reason when it could not be opened."""
        if self.room is not None:
            return
        if self._opening is None or (self._opening.done() and time.monotonic() - self._opened_at > REOPEN_SECONDS):
            self._opened_at = time.monotonic()
            self._opening = asyncio.create_task(self._open())
        await asyncio.shield(self._opening)

    async def _open(self) -> None:
        try:
            room = await self._open_engine(self)
        except ProtocolError:
            raise
        except Exception as error:
            log.error("the engine cannot be opened: %s", error, exc_info=error)
            self.closed_to = str(error)
            raise storage_failure("the daemon cannot open its data", error) from error
        self.room = room
        self.audience.attach(room.parts.telemetry)
        self._watching = asyncio.create_task(self._watch_storage(room))
        self.reconsider()

    async def _watch_storage(self, room: EngineRoom) -> None:
        """Tell everybody when nothing can be written, and when it can again; what waits cannot be an event itself."""
        try:
            while True:
                health = await room.storage_other_than("ok")
                if health == "ok":
                    return  # it is being closed
                log.warning("nothing can be stored: %s", health)
                self._log_message(WARNING, f"Nothing can be stored now: {health}")
                while health != "ok":
                    health = await room.storage_other_than(health)
                log.info("everything can be stored")
                self._log_message(INFO, "Everything can be stored again.")
        except StorageError:
            return  # it was closed

    def _log_message(self, type: int, text: str) -> None:
        body = envelope.note("window/logMessage", LogMessageParams(type, text))
        for connection in self.connections.values():
            if connection.ready:
                connection.outbox.put(body)

    @property
    def engine(self) -> EngineRoom:
        """The engine; only for handlers, which run after `ready`."""
        assert self.room is not None
        return self.room

    # --- connections ---

    def connected(self, connection: Connection) -> None:
        """A socket was accepted."""
        self.connections[connection.id] = connection
        self.reconsider()

    def disconnected(self, connection: Connection) -> None:
        """A socket is gone: its subscriptions end, its sessions stay."""
        self.connections.pop(connection.id, None)
        self.detached(connection)
        self.audience.closed(connection)
        self.audience.changed()
        self.reconsider()

    def detached(self, connection: Connection) -> None:
        """A client leaves: it gets no more events."""
        if self.room is not None:
            for session_id in list(connection.subscriptions):
                self.room.unsubscribe(connection, session_id)

    def welcome(self, connection: Connection, raw: msgspec.Raw) -> tuple[Hello, InitializeResult]:
        """Answer initialize from constants. version_unsupported, invalid_params."""
        other = stranger(raw, (PROTOCOL_VERSION,))
        if other is not None:
            connection.admit(other.auth.token)
            connection.stranger = other
            text = f"no common version: client {', '.join(other.protocol_versions)}, daemon {PROTOCOL_VERSION}"
            raise ProtocolError("version_unsupported", text, supported=[PROTOCOL_VERSION])
        try:
            params = msgspec.json.decode(raw, type=InitializeParams)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise invalid(error) from error
        hello = params.hermes
        if hello is None and params.initialization_options is not None:
            hello = params.initialization_options.hermes
        connection.admit(hello.auth.token if hello is not None and hello.auth is not None else "")
        if hello is None:
            text = "this daemon speaks the native dialect: initialize with `hermes` or `initializationOptions.hermes`"
            raise ProtocolError("invalid_params", text, dialects=["native"])
        self._take_over(connection, hello)
        identity = self.identity
        welcome = Welcome(
            PROTOCOL_VERSION,
            identity.boot_id,
            identity.build_id,
            identity.stale(),
            identity.schema_hash,
            connection.id,
            Limits(max_frame_bytes=self.limits.max_frame_bytes),
            FEATURES,
            REQUEST_KINDS,
        )
        capabilities = ServerCapabilities(ExperimentalCapabilities(welcome))
        return hello, InitializeResult(ServerInfo("hermes-daemon", identity.version), capabilities)

    def _take_over(self, connection: Connection, hello: Hello) -> None:
        """A client that reconnects with takeover ends its half-open older connection."""
        if not hello.takeover or not hello.client.id:
            return
        for other in list(self.connections.values()):
            if other is not connection and other.hello is not None and other.hello.client.id == hello.client.id:
                other.abort()  # it is half open: nobody reads what is queued there

    def seen(self, connection: Connection, params: SeenParams) -> None:
        """A client shows a question to somebody."""
        if self.room is not None:
            self.room.seen(connection, params.request_id)

    def session_changed(self, summary: SessionSummary, deleted: bool) -> None:
        """Tell the connections that list sessions; many changes of one tick are one message."""
        self.reconsider()
        if not any(self._lists(connection) for connection in self.connections.values()):
            return
        if not self._changed:
            asyncio.get_running_loop().call_soon(self._tell_changed)
        self._changed[summary.session_id] = SessionChangedParams(summary.session_id, summary, deleted)

    def _tell_changed(self) -> None:
        changed, self._changed = self._changed, {}
        for row in changed.values():
            body = envelope.note("hermes/session/changed", row)
            for connection in self.connections.values():
                if self._lists(connection) and not connection.outbox.lagging:
                    connection.outbox.put(body)

    def _lists(self, connection: Connection) -> bool:
        return connection.hello is not None and connection.hello.capabilities.events.sessions

    # --- status ---

    @property
    def uptime_s(self) -> float:
        """Seconds since this process began to serve."""
        return round(time.monotonic() - self._started, 3)

    def status(self) -> StatusResult:
        """What `hermes daemon status` shows."""
        room, identity = self.room, self.identity
        if room is not None:
            room.freshen()
        holders = self.holders()
        return StatusResult(
            pid=os.getpid(),
            boot_id=identity.boot_id,
            build_id=identity.build_id,
            version=identity.version,
            stale=identity.stale(),
            uptime_s=self.uptime_s,
            endpoints=identity.endpoints,
            connections=tuple(self._rows()),
            sessions=SessionCounts(room.live if room else 0, room.busy if room else 0),
            turns=room.busy if room else 0,
            open_requests=room.open_requests if room else 0,
            children=room.children if room else 0,
            rss_bytes=rss_bytes(),
            idle=Idle(not holders, self._exits_in(holders), tuple(holders)),
            state=self.state,
            home=identity.home,
            storage=room.storage if room else self.closed_to or "not open",
            warnings=(*self.warnings, *(room.warnings if room else ())),
            handover=self._handover(),
        )

    @property
    def leaves_at(self) -> float | None:
        """Unix time at which a drain ends what still runs."""
        return None if self._stop_by is None else time.time() + self._stop_by - time.monotonic()

    def _handover(self) -> Handover | None:
        """How this daemon is being left, or that another build waits to take its place."""
        if self.state == "ready":
            return Handover("stale", True, "the installed code has changed") if self.identity.stale() else None
        left = None if self._stop_by is None else max(0.0, self._stop_by - time.monotonic())
        waiting = tuple(self.room.holders()) if self.room is not None else ()
        return Handover(self.state, self.restart, self.reason, left, waiting)

    def _rows(self) -> list[ConnectionRow]:
        rows = []
        for connection in self.connections.values():
            who = connection.hello or connection.stranger
            client = who.client if who else None
            outbox = connection.outbox
            rows.append(
                ConnectionRow(
                    connection.id,
                    client.id if client else "",
                    "controller" if connection.controller else "observer",
                    outbox.bytes,
                    outbox.lagging,
                    client.name if client else "",
                    "native" if connection.ready else "none",
                    connection.wire.entrance.transport,
                )
            )
        return rows

    # --- living and dying ---

    def holders(self) -> list[str]:
        """What keeps the daemon alive, by name."""
        names = [f"connection {row.name or row.id}" for row in self._rows()]
        return names + (self.room.holders() if self.room else [])

    def reconsider(self) -> None:
        """Start, go on with, or stop the idle clock. Without connections it looks again by itself now and then: an
        installed upgrade and the end of a process are told by nobody."""
        self.audience.count_soon()
        if self._look is not None:
            self._look.cancel()
            self._look = None
        if self.connections or self.state != "ready":
            self._idle_since = None
            return
        wait = LOOK_SECONDS
        if self.holders():
            self._idle_since = None
        else:
            if self._idle_since is None:
                self._idle_since = time.monotonic()
            left = self._idle_left()
            if left is not None and left <= 0:
                self.stop("now", "idle", restart=False)
                return
            wait = min(wait, left) if left is not None else wait
        self._look = asyncio.get_running_loop().call_later(wait, self.reconsider)

    def _idle_left(self) -> float | None:
        """Seconds until an idle daemon leaves, None for never. One whose code was replaced leaves soon."""
        limit = STALE_SECONDS if self.identity.stale() else self.limits.idle_exit_s
        if self._idle_since is None or not limit:
            return None
        return self._idle_since + limit - time.monotonic()

    def _exits_in(self, holders: list[str]) -> float | None:
        left = None if holders else self._idle_left()
        return None if left is None else round(max(0.0, left), 1)

    def reload(self) -> Reload:
        """Read the configuration again, for SIGHUP as for a request: what is wrong is logged and told to everybody."""
        self._tell_supervisor("RELOADING", MONOTONIC_USEC=time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000)
        try:
            reloaded = self.engine.reload()
        finally:
            self._tell_supervisor("READY")
        redact = self.engine.parts.redact
        for kind, problems in ((ERROR, reloaded.errors), (WARNING, reloaded.warnings)):
            for problem in problems:
                self._log_message(kind, redact(str(problem)))
        return reloaded

    def shutdown(self, params: ShutdownParams) -> ShutdownResult:
        """Accept the wish to stop. The address is free before the answer is sent."""
        waiting = tuple(self.room.holders()) if self.room and params.mode == "drain" else ()
        self.stop(params.mode, params.reason, restart=params.restart, deadline_s=params.deadline_s)
        return ShutdownResult(True, waiting)

    def stop(
        self, mode: Literal["drain", "now"], reason: str, *, restart: bool, deadline_s: float | None = None
    ) -> None:
        """Begin to stop. `now` also ends a drain that is under way; `now` once more waits for nobody's grace."""
        if self.state == "stopping":
            if mode == "now" and self.reason != "idle":
                self._hurried.set()
            return
        if self.state == "draining" and mode == "drain":
            return
        if self._stopping is not None:
            self._stopping.cancel()
        self.restart, self.reason = self.restart or restart, reason
        limit = None
        if mode == "drain":
            limit = deadline_s if deadline_s is not None else self.limits.drain_deadline_s
        self._stop_by = None if limit is None else time.monotonic() + limit
        self.state = "stopping" if limit is None else "draining"
        self._withdraw()
        self._tell_supervisor("STOPPING", STATUS=f"{self.state}: {reason}")
        self._stopping = asyncio.create_task(self._stop(limit))

    async def _stop(self, drain_s: float | None) -> None:
        if drain_s is not None:
            self._announce("draining", drain_s)
            if self.room is not None:
                try:
                    async with asyncio.timeout(drain_s):
                        await self.room.drained()
                except TimeoutError:
                    log.warning("turns were still running after %.0f s", drain_s)
        self._announce("stopping", None)
        try:
            await self._close_room()
        except Exception as error:  # a room that cannot be closed must not keep the process alive
            log.error("not everything could be closed: %s", error, exc_info=error)
        finally:
            for connection in list(self.connections.values()):
                connection.close()
            for wire in list(self.strangers):
                wire.close()
            self.stopped.set()

    async def _close_room(self) -> None:
        """Close the engine; one that is just being opened is waited for, so that it leaves its data in order."""
        if self.room is None and self._opening is not None:
            await self._unless_hurried(self._opening, OPEN_SECONDS)
        room = self.room
        if room is None:
            return
        closing = asyncio.ensure_future(room.close("the daemon is stopping"))
        await self._unless_hurried(closing, None)
        if not closing.done():
            log.warning("asked again to stop: what still runs is killed")
            await room.kill_children()
            await asyncio.wait({closing}, timeout=HURRY_SECONDS)
        if not closing.done():
            closing.cancel()
            await asyncio.wait({closing}, timeout=HURRY_SECONDS)
        elif (error := closing.exception()) is not None:
            raise error

    async def _unless_hurried(self, work: asyncio.Future[None], limit_s: float | None) -> None:
        """Wait for `work`, at most so long, and no longer than until somebody asks again."""
        hurried = asyncio.ensure_future(self._hurried.wait())
        both: set[asyncio.Future[Any]] = {work, hurried}
        await asyncio.wait(both, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        hurried.cancel()

    def _announce(self, state: State, deadline_s: float | None) -> None:
        self.state = state
        body = envelope.note("hermes/daemon/state", DaemonStateParams(state, self.reason, self.restart, deadline_s))
        for connection in self.connections.values():
            if connection.ready:
                connection.outbox.put(body)


def ping(_: Connection, params: PingParams) -> PingResult:
    """Answered on the reader path."""
    return PingResult(time.monotonic() * 1000, params.echo)


def shutdown(connection: Connection, params: ShutdownParams) -> ShutdownResult:
    """Stop the daemon, after its turns or now. Served without the engine, which may be what is broken."""
    if not connection.controller:
        raise ProtocolError("permission_denied", "this client is an observer: it may not stop the daemon")
    return connection.daemon.shutdown(params)


def rss_bytes() -> int:
    """Resident memory of this process, 0 where it cannot be read."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
