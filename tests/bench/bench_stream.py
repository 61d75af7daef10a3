"""Ten thousand deltas of one word, journaled, to one and to ten subscribers, with coalescing off and as usual."""

from __future__ import annotations

import datetime
import json
import selectors
import statistics
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.client import PATIENCE_S, BenchClient
from tests.bench.figure import Figure
from tests.support.daemon_process import running_daemon

DELTAS = 10_000
TURNS = 21
USUAL_MS = 33  # what a client gets that asks for nothing
MODEL = f"scripted/words?n={DELTAS}&delay_ms=0"


@dataclass
class Run:
    """One turn: seconds as a client sees it, seconds by the daemon's own times, delta events to each subscriber."""

    seen_s: float
    produced_s: float
    events: list[int] = field(default_factory=list)


def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="hb") as name, running_daemon(Path(name)) as daemon:

        def turn(subscribers: int, latency_ms: int) -> Run:
            return _turn(daemon.socket_path, Path(name), subscribers, latency_ms)

        turn(1, 0)
        runs = [(turn(1, 0), turn(10, 0), turn(1, USUAL_MS), turn(10, USUAL_MS)) for _ in range(TURNS)]
    one, ten, one_merged, ten_merged = (list(each) for each in zip(*runs, strict=True))
    frames = statistics.median(run.events[0] for run in one)
    merged = statistics.median(events for run in ten_merged for events in run.events)
    return [
        Figure(
            "10,000 deltas to 1 subscriber, coalescing off",
            DELTAS / _seen(one),
            "events/s",
            better="higher",
            goal=30_000,
            note=f"submit to turn.ended as the client sees it, journaled; {frames:,.0f} delta events came",
        ),
        Figure(
            "the producer's time with 10 subscribers",
            _produced(ten_merged) * 1000,
            "ms",
            goal=1.1,
            of="ratio",
            comparison=_produced(one_merged) * 1000,
            compared_with="the same with 1 subscriber",
            note="turn.started to turn.ended by the daemon's own times; every subscriber gets all the text, merged by "
            f"the usual {USUAL_MS} ms into {merged:,.0f} events",
        ),
        Figure(
            "the same with coalescing off",
            _produced(ten) * 1000,
            "ms",
            comparison=_produced(one) * 1000,
            compared_with="the same with 1 subscriber",
            note="100,000 events are written by the one thread that also produces them",
        ),
        Figure(
            "10,000 deltas to each of 10 subscribers, coalescing off",
            DELTAS * 10 / _seen(ten),
            "events/s",
            better="higher",
            note="all of them together, read by one process",
        ),
    ]


def _seen(runs: list[Run]) -> float:
    return statistics.median(run.seen_s for run in runs)


def _produced(runs: list[Run]) -> float:
    return statistics.median(run.produced_s for run in runs)


def _turn(path: str, folder: Path, subscribers: int, latency_ms: int) -> Run:
    clients = [BenchClient(path) for _ in range(subscribers)]
    for client in clients:
        client.initialize(maxLatencyMs=latency_ms)
    session_id = clients[0].session(MODEL, str(folder))
    for client in clients:
        client.subscribe(session_id)
    streams = [b"" for _ in clients]
    ended = [False for _ in clients]
    with selectors.DefaultSelector() as selector:
        for index, client in enumerate(clients):
            selector.register(client.socket, selectors.EVENT_READ, index)
        began = time.perf_counter()
        clients[0].submit(session_id, "k")
        seen_s = 0.0
        pieces: list[list[bytes]] = [[] for _ in clients]
        while not all(ended):
            ready = selector.select(PATIENCE_S)
            assert ready, f"nothing more came after {[sum(map(len, each)) for each in pieces]} bytes"
            for key, _ in ready:
                piece = clients[key.data].socket.recv(1 << 20)
                assert piece, "the daemon closed the connection"
                pieces[key.data].append(piece)
                # The end of a turn is the last frame; its word may lie across two pieces.
                tail = b"".join(pieces[key.data][-2:])[-4096:]
                if not ended[key.data] and b'"turn.ended"' in tail:
                    ended[key.data] = True
                    if all(ended):
                        seen_s = time.perf_counter() - began
        streams = [b"".join(each) for each in pieces]
    for client in clients:
        client.close()
    times = {
        event["params"]["kind"]: _time(event["params"]["ts"])
        for event in map(json.loads, streams[0].splitlines())
        if event.get("method") == "hermes/event" and event["params"]["kind"].startswith("turn.")
    }
    produced = (times["turn.ended"] - times["turn.started"]).total_seconds()
    return Run(seen_s, produced, [stream.count(b'"item.delta"') for stream in streams])


def _time(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
