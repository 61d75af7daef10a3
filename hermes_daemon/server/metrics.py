"""What the daemon knows of itself, in the text format that Prometheus reads (version 0.0.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermes_daemon.server.daemon import Daemon


def render(daemon: Daemon) -> str:
    """Every figure with its HELP and TYPE line. Names follow the naming rules of Prometheus: base units, seconds and
    bytes."""
    status = daemon.status()
    clients = status.connections
    rows: list[tuple[str, str, float]] = [
        ("uptime_seconds", "Time since the daemon began to serve.", status.uptime_s),
        ("connections", "Connected clients.", len(clients)),
        ("sessions_live", "Sessions in memory.", status.sessions.live),
        ("sessions_busy", "Sessions with a running turn.", status.sessions.busy),
        ("turns_running", "Turns that run now.", status.turns),
        ("open_requests", "Questions that wait for an answer.", status.open_requests),
        ("children", "Processes that the daemon has started and that still run.", status.children),
        ("queue_bytes", "Bytes that wait for clients.", sum(row.queue_bytes for row in clients)),
        (
            "lagging_connections",
            "Clients that read slower than is written.",
            sum(r.lagging for r in status.connections),
        ),
        ("requests_in_flight", "Requests under way.", daemon.in_flight),
        ("resident_memory_bytes", "Resident memory of the daemon.", status.rss_bytes),
        ("storage_ok", "1 while everything can be stored.", status.storage == "ok"),
    ]
    lines = [_metric("build_info", "The running version.", f'{{version="{status.version}"}} 1')]
    lines += [_metric(name, text, f" {value:.15g}") for name, text, value in rows]
    return "".join(lines)


def _metric(name: str, text: str, sample: str) -> str:
    return f"# HELP hermes_{name} {text}\n# TYPE hermes_{name} gauge\nhermes_{name}{sample}\n"
