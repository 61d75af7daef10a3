"""The daemon's metrics as Prometheus text: what was counted since the start, and what is the case now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hermes_daemon.core.telemetry import Family, Series
from hermes_daemon.telemetry.families import COUNTED
from hermes_daemon.telemetry.prometheus import CONTENT_TYPE, exposition

if TYPE_CHECKING:
    from hermes_daemon.server.daemon import Daemon

__all__ = ["CONTENT_TYPE", "GAUGES", "render"]

BUILD: Final = Family("hermes_build_info", "gauge", "1, with what this process is.", ("version", "build"))
UPTIME: Final = Family("hermes_uptime_seconds", "gauge", "Since the start of the process.")
READY: Final = Family("hermes_ready", "gauge", "1 while new turns are accepted and can be stored, else 0.")
SESSIONS: Final = Family("hermes_sessions", "gauge", "Sessions in memory.")
TURNS: Final = Family("hermes_turns_running", "gauge", "Turns that run.")
OPEN_REQUESTS: Final = Family("hermes_open_requests", "gauge", "Questions that wait for people.")
CHILDREN: Final = Family("hermes_child_processes", "gauge", "Processes of tools and models on record.")
CONNECTIONS: Final = Family("hermes_connections", "gauge", "Open connections, by what they speak.", ("dialect",))
LAGGING: Final = Family("hermes_connections_lagging", "gauge", "Connections above the soft limit of their queue.")
QUEUED: Final = Family("hermes_outbox_bytes", "gauge", "Bytes that wait to be sent, of all connections.")
MEMORY: Final = Family("hermes_resident_memory_bytes", "gauge", "Resident memory of the process.")

GAUGES: Final = (
    BUILD, UPTIME, READY, SESSIONS, TURNS, OPEN_REQUESTS, CHILDREN, CONNECTIONS, LAGGING, QUEUED, MEMORY,
)  # fmt: skip


def render(daemon: Daemon) -> str:
    """Text of the exposition format 0.0.4 (`CONTENT_TYPE`). Works before the engine is open and while it stops."""
    room = daemon.room
    counted = room.parts.telemetry.series() if room is not None else ()
    return exposition((*GAUGES, *COUNTED), (*_gauges(daemon), *counted))


def _gauges(daemon: Daemon) -> list[Series]:
    status = daemon.status()
    dialects: dict[str, int] = {}
    for row in status.connections:
        dialects[row.dialect] = dialects.get(row.dialect, 0) + 1
    ready = status.state == "ready" and status.storage == "ok"
    return [
        Series(BUILD, (status.version, status.build_id), 1),
        Series(UPTIME, (), status.uptime_s),
        Series(READY, (), int(ready)),
        Series(SESSIONS, (), status.sessions.live),
        Series(TURNS, (), status.turns),
        Series(OPEN_REQUESTS, (), status.open_requests),
        Series(CHILDREN, (), status.children),
        *(Series(CONNECTIONS, (dialect,), number) for dialect, number in sorted(dialects.items())),
        Series(LAGGING, (), sum(row.lagging for row in status.connections)),
        Series(QUEUED, (), sum(row.queue_bytes for row in status.connections)),
        Series(MEMORY, (), status.rss_bytes),
    ]
