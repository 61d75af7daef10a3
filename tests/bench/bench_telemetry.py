"""What measuring costs: a fact that nobody wants, one that is counted, and a turn with everything switched on."""

from __future__ import annotations

import contextlib
import socket
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from hermes_daemon.core.telemetry import ToolCalled
from hermes_daemon.telemetry.hub import Hub
from tests.bench.client import BenchClient
from tests.bench.figure import Figure, interleaved, seconds
from tests.support.daemon_process import Daemon, running_daemon

CALLS = 100_000
ROUNDS = 9
PAIRS = 80
ON = 'telemetry: {{metrics: true, otel: {{enabled: true, endpoint: "{endpoint}", interval: 0.1}}}}\n'
OFF = "telemetry: {metrics: false}\n"


def measure() -> list[Figure]:
    off, counted = _per_fact(Hub(counting=False)), _per_fact(Hub())
    return [
        Figure("a fact that nobody wants", off, "µs", goal=1.0, note="the attribute check in front of making it"),
        Figure("a fact that is counted", counted, "µs", note="made, cleaned and counted, one tool call"),
        _turns(),
    ]


def _per_fact(hub: Hub) -> float:
    """Microseconds of one would-be fact, as the engine has it in its code."""

    def work() -> None:
        for _ in range(CALLS):
            if hub.wanted:
                hub.emit(ToolCalled("terminal", "c1", "completed", False, 1.0, 0.0, 1.0, 10), "s", "t")

    return statistics.median(seconds(work) for _ in range(ROUNDS)) / CALLS * 1e6


def _turns() -> Figure:
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hb")))
        endpoint = stack.enter_context(_black_hole())
        on = stack.enter_context(running_daemon(folder / "on", ON.format(endpoint=endpoint)))
        off = stack.enter_context(running_daemon(folder / "off", OFF))
        with_s, without_s = interleaved(_turn(on, folder, "all"), _turn(off, folder, "off"), PAIRS)
    return Figure(
        "a turn with all telemetry",
        with_s * 1000,
        "ms",
        goal=1.1,
        of="ratio",
        comparison=without_s * 1000,
        compared_with="the same without any",
        note="level all, counted, OTLP to an address that never answers; scripted model, interleaved pairs",
    )


def _turn(daemon: Daemon, folder: Path, level: str) -> Callable[[], float]:
    client = BenchClient(daemon.socket_path)
    client.initialize(telemetry=level)
    count = iter(range(10**6))

    def measured() -> float:
        session = client.session("scripted/echo", str(folder))
        client.subscribe(session)
        began = time.perf_counter()
        client.submit(session, f"k{next(count)}", "a word or two")
        client.until_turn_ended()
        taken = time.perf_counter() - began
        client.request("hermes/session/unsubscribe", {"sessionId": session})
        return taken

    return measured


@contextlib.contextmanager
def _black_hole() -> Iterator[str]:
    """An address that takes connections, into the kernel's queue, and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
