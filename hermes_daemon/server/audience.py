"""Who hears telemetry: connections that asked for it in `initialize`, each at its level, dropped first when they lag.

`metrics` is numbers and truth values of every session; `all` adds the texts (models, tools, outcomes, the call's id)
of the sessions the connection follows and of what belongs to none, and the facts that only `all` has.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

from hermes_daemon.core.telemetry import (
    FACTS,
    ConnectionClosed,
    ConnectionStalled,
    DaemonCounted,
    Level,
    Measured,
    Told,
    attributes,
)
from hermes_daemon.server.outbox import Stage
from hermes_protocol import envelope
from hermes_protocol.methods import TelemetryParams

if TYPE_CHECKING:
    from hermes_daemon.core.ports import Telemetry
    from hermes_daemon.server.connection import Connection
    from hermes_daemon.server.daemon import Daemon

METHOD: Final = "telemetry/event"
GATHER_SECONDS: Final = 0.05
"""Facts are sent together, this long after the first of them: a system call for each would be felt in a turn."""
_ROWS: Final = {fact: attributes(fact) for fact in FACTS}


class Audience:
    """The telemetry of one daemon's connections. Silent until `attach`."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._telemetry: Telemetry | None = None
        self._counts: DaemonCounted | None = None
        self._counting = False
        self._gathered: list[Told] = []

    def attach(self, telemetry: Telemetry) -> None:
        """The engine is there: hear what it measures."""
        self._telemetry = telemetry
        self.changed()

    def changed(self) -> None:
        """A connection has come, said what it wants, or gone."""
        if self._telemetry is not None:
            levels = {level_of(connection) for connection in self._daemon.connections.values()}
            if any(_traces(connection) for connection in self._daemon.connections.values()):
                levels.add("all")
            level: Level = "all" if "all" in levels else "metrics" if "metrics" in levels else "off"
            self._telemetry.hear(level, None if level == "off" else self.take)

    def joined(self, connection: Connection) -> None:
        """A connection has said what it wants: it begins with the counts as they are, right behind its answer."""
        self.changed()
        if level_of(connection) != "off":
            asyncio.get_running_loop().call_soon(self._greet, connection)

    def _greet(self, connection: Connection) -> None:
        counts = self._counted()
        if counts is not None:
            connection.outbox.put_droppable(encoded(Told(counts, None, None, time.time()), level_of(connection)))

    def take(self, told: Told) -> None:
        """Send a fact to everyone who wants it, in a moment."""
        if not self._gathered:
            asyncio.get_running_loop().call_later(GATHER_SECONDS, self._send_gathered)
        self._gathered.append(told)

    def _send_gathered(self) -> None:
        gathered, self._gathered = self._gathered, []
        for told in gathered:
            self._send(told)

    def _send(self, told: Told) -> None:
        """Each of the two forms of a fact is encoded once."""
        if told.fact.opt_in:
            self._send_trace(told)
            return
        bodies: dict[Level, bytes] = {}
        for connection in tuple(self._daemon.connections.values()):
            level = level_of(connection)
            if level == "off" or (level == "metrics" and told.fact.level == "all"):
                continue
            if level == "all" and told.session_id is not None and told.session_id not in connection.subscriptions:
                if told.fact.level == "all":
                    continue
                level = "metrics"
            body = bodies.get(level)
            if body is None:
                body = bodies[level] = encoded(told, level)
            connection.outbox.put_droppable(body)

    def _send_trace(self, told: Told) -> None:
        """Only to those who asked for it and follow the session: it holds words of middleware about contents."""
        body: bytes | None = None
        for connection in tuple(self._daemon.connections.values()):
            if _traces(connection) and told.session_id in connection.subscriptions:
                body = body or encoded(told, "all")
                connection.outbox.put_droppable(body)

    # --- what the server itself measures ---

    def stalled(self, connection: Connection, stage: Stage) -> None:
        """A connection fell behind, or has caught up."""
        if self._telemetry is not None and self._telemetry.wanted:
            self._telemetry.emit(
                ConnectionStalled(connection.id, stage, connection.outbox.bytes, desync=stage == "desync")
            )

    def closed(self, connection: Connection) -> None:
        """A connection is gone."""
        if self._telemetry is not None and self._telemetry.wanted:
            outbox = connection.outbox
            self._telemetry.emit(
                ConnectionClosed(
                    connection_id=connection.id,
                    open_ms=round((time.monotonic() - connection.since) * 1000, 3),
                    peak_queue_bytes=outbox.peak,
                    lags=outbox.lags,
                    desyncs=outbox.desyncs,
                    dropped=outbox.dropped,
                    slow=connection.wire.given_up,
                )
            )

    def count_soon(self) -> None:
        """Something may have come or gone: tell the counts once in this turn of the loop, if they are others."""
        if self._telemetry is not None and self._telemetry.wanted and not self._counting:
            self._counting = True
            asyncio.get_running_loop().call_soon(self._count)

    def _count(self) -> None:
        self._counting = False
        counts = self._counted()
        if counts is not None and self._telemetry is not None and counts != self._counts:
            self._counts = counts
            self._telemetry.emit(counts)

    def _counted(self) -> DaemonCounted | None:
        room = self._daemon.room
        if room is None:
            return None
        return DaemonCounted(room.live, room.busy, room.open_requests, len(self._daemon.connections))


def level_of(connection: Connection) -> Level:
    """What a connection asked for; nothing before `initialize` and after `shutdown`."""
    if connection.hello is None or connection.shut_down:
        return "off"
    return connection.hello.capabilities.telemetry


def _traces(connection: Connection) -> bool:
    hello = connection.hello
    return hello is not None and not connection.shut_down and hello.capabilities.middleware_trace


def encoded(told: Told, level: Level) -> bytes:
    """The notification as this level has it."""
    return envelope.note(
        METHOD, TelemetryParams(told.fact.event, attrs(told.fact, level), told.session_id, told.turn_id)
    )


def attrs(fact: Measured, level: Level) -> dict[str, Any]:
    """The attributes that this level has. What is not known is not there."""
    found = {}
    for row in _ROWS[type(fact)]:
        if row.is_text and level != "all":
            continue
        value = getattr(fact, row.field)
        if value is not None and value != "":
            found[row.name] = value
    return found
