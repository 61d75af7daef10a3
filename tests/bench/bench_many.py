"""Many at once on one daemon: a hundred subscribers, a thousand live sessions, readers that stall, pings meanwhile."""

from __future__ import annotations

import datetime
import json
import os
import selectors
import socket
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.bench.client import PATIENCE_S, BenchClient
from tests.bench.figure import Figure, percentile
from tests.support.daemon_process import Daemon, running_daemon

MIB = 1_048_576
SECONDS = 3
PACED = f"scripted/words?n={SECONDS * 1000}&delay_ms=1"
AUDIENCE = 100
PAIRS = 3

SESSIONS = 1000
TURNS = 50
STEADY = "scripted/words?n=400&delay_ms=5"

STALLED = 5
MESSAGES = 150
MESSAGE_BYTES = 200_000
HARD_BYTES = 8 * MIB  # daemon.outbox_hard_bytes, as it is without settings

STREAMS = 10
PINGS = 400


def measure() -> list[Figure]:
    return [*_audience(), *_sessions(), _stalled(), _pings()]


# --- a hundred subscribers --------------------------------------------------------------------------------------------


def _audience() -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="hb") as name, running_daemon(Path(name)) as daemon:
        _produced(daemon, Path(name), 1)
        pairs = [(_produced(daemon, Path(name), 1), _produced(daemon, Path(name), AUDIENCE)) for _ in range(PAIRS)]
    alone = statistics.median(seconds for (seconds, _), _ in pairs)
    watched = statistics.median(seconds for _, (seconds, _) in pairs)
    delays = [delay for _, (_, delays) in pairs for delay in delays]
    return [
        Figure(
            f"the producer's time, {SECONDS} s at 1,000 deltas/s, {AUDIENCE} subscribers",
            watched * 1000,
            "ms",
            goal=1.1,
            of="ratio",
            comparison=alone * 1000,
            compared_with="the same with 1 subscriber",
            note="turn.started to turn.ended by the daemon's own times, with the default maxLatencyMs",
        ),
        Figure(
            f"delivery to {AUDIENCE} subscribers, p99",
            percentile(delays, 0.99) * 1000,
            "ms",
            note="an event's own time, to the millisecond, to the read of its last byte; deltas wait up to 33 ms for "
            "their neighbours",
        ),
    ]


def _produced(daemon: Daemon, folder: Path, subscribers: int) -> tuple[float, list[float]]:
    """Seconds that the turn took by the daemon's times, and the delay of every delta event at every subscriber."""
    clients = _clients(daemon, subscribers)
    session_id = clients[0].session(PACED, str(folder))
    for client in clients:
        client.subscribe(session_id)
    read = _read_to_the_end(clients, session_id)
    for client in clients:
        client.close()
    times: dict[str, float] = {}
    delays = []
    for pieces in read:
        for arrived, line in _lines(pieces):
            if b'"hermes/event"' not in line:
                continue
            event = json.loads(line)["params"]
            if event["kind"] == "item.delta":
                delays.append(arrived - _time(event["ts"]))
            elif event["kind"].startswith("turn."):
                times[event["kind"]] = _time(event["ts"])
    return times["turn.ended"] - times["turn.started"], delays


def _read_to_the_end(clients: Sequence[BenchClient], session_id: str) -> list[list[tuple[float, bytes]]]:
    """Submit, and take what comes to each client until it has seen the turn's end: (when, bytes)."""
    read: list[list[tuple[float, bytes]]] = [[] for _ in clients]
    left = set(range(len(clients)))
    with selectors.DefaultSelector() as selector:
        for index, client in enumerate(clients):
            selector.register(client.socket, selectors.EVENT_READ, index)
        clients[0].submit(session_id, "k")
        while left:
            ready = selector.select(PATIENCE_S)
            assert ready, f"nothing more came to {len(left)} clients"
            for key, _ in ready:
                piece = clients[key.data].socket.recv(1 << 20)
                assert piece, "the daemon closed the connection"
                read[key.data].append((time.time(), piece))
                if b'"turn.ended"' in b"".join(each for _, each in read[key.data][-2:])[-4096:]:
                    left.discard(key.data)
    return read


def _lines(pieces: list[tuple[float, bytes]]) -> list[tuple[float, bytes]]:
    lines, begun = [], b""
    for arrived, piece in pieces:
        *whole, begun = (begun + piece).split(b"\n")
        lines += [(arrived, line) for line in whole]
    return lines


# --- a thousand sessions ----------------------------------------------------------------------------------------------


def _sessions() -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="hb") as name, running_daemon(Path(name)) as daemon:
        [client] = _clients(daemon, 1)
        _cpu_of_turns(daemon, client, [client.session(STEADY, name)])
        alone = statistics.median(
            _cpu_of_turns(daemon, client, [client.session(STEADY, name)]) for _ in range(PAIRS * 2 + 1)
        )
        before = _rss(client)
        sessions = [client.session(STEADY, name) for _ in range(SESSIONS)]
        for session_id in sessions:
            client.subscribe(session_id)
        grown = (_rss(client) - before) / SESSIONS
        many = statistics.median(
            _cpu_of_turns(daemon, client, sessions[TURNS * turn : TURNS * (turn + 1)]) for turn in range(PAIRS)
        )
        client.close()
    return [
        Figure(
            f"CPU a delta, {TURNS} turns at once among {SESSIONS:,} live sessions",
            many * 1e6,
            "µs",
            goal=2.0,
            of="ratio",
            comparison=alone * 1e6,
            compared_with="one turn alone",
            note="the daemon's processor time, journal and delivery included, at 200 deltas/s and turn",
        ),
        Figure(
            "memory of an idle live session",
            grown / 1024,
            "KiB",
            goal=50,
            note=f"growth of the resident memory over {SESSIONS:,} sessions, each created and subscribed to",
        ),
    ]


def _cpu_of_turns(daemon: Daemon, client: BenchClient, sessions: Sequence[str]) -> float:
    """Seconds of the daemon's processor time a delta, for a turn in each of these sessions."""
    for session_id in sessions:
        client.subscribe(session_id)
    began = _cpu(daemon.pid)
    for session_id in sessions:
        client.submit(session_id, "k")
    for _ in sessions:
        client.until_turn_ended()
    return (_cpu(daemon.pid) - began) / (400 * len(sessions))


# --- readers that stall -----------------------------------------------------------------------------------------------


def _stalled() -> Figure:
    """What readers that read nothing add to a daemon's memory while messages pass by."""
    grown = {}
    for readers in (0, STALLED):
        with tempfile.TemporaryDirectory(prefix="hb") as name, running_daemon(Path(name)) as daemon:
            [owner] = _clients(daemon, 1)
            session_id = owner.session("scripted/words?n=1", name)
            owner.subscribe(session_id)
            stalled = _clients(daemon, readers)
            for client in stalled:
                client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                client.subscribe(session_id)
            before = _rss(owner)
            for number in range(MESSAGES):
                owner.submit(session_id, f"k{number}", "x" * MESSAGE_BYTES)
                owner.until_turn_ended()
            grown[readers] = _rss(owner) - before
            for client in (owner, *stalled):
                client.close()
    return Figure(
        f"memory for {STALLED} stalled readers, {MESSAGES} messages of 200 kB",
        (grown[STALLED] - grown[0]) / MIB,
        "MiB",
        goal=STALLED * HARD_BYTES / MIB,
        note=f"resident memory over a run without them, which grew by {grown[0] / MIB:.0f} MiB",
    )


# --- pings ------------------------------------------------------------------------------------------------------------


def _pings() -> Figure:
    with tempfile.TemporaryDirectory(prefix="hb") as name, running_daemon(Path(name)) as daemon:
        worker, asker = _clients(daemon, 2)
        quiet = _ping_times(asker)
        for number in range(STREAMS):
            session_id = worker.session("scripted/words?n=1000000&delay_ms=1", name)
            worker.subscribe(session_id)
            worker.submit(session_id, f"k{number}")
        busy = _ping_times(asker, worker)
        asker.close()
        worker.close()
    return Figure(
        f"`hermes/daemon/ping` while {STREAMS} turns stream 1,000 deltas/s each, p99",
        percentile(busy, 0.99) * 1000,
        "ms",
        goal=20,
        comparison=percentile(quiet, 0.99) * 1000,
        compared_with="the same with nothing to do",
    )


def _ping_times(asker: BenchClient, worker: BenchClient | None = None) -> list[float]:
    """Round trips, one after the other; what came to `worker` meanwhile is read between two of them."""
    times = []
    for number in range(PINGS):
        frame = b'{"jsonrpc":"2.0","id":%d,"method":"hermes/daemon/ping","params":{}}\n' % (number + 100_000)
        began = time.perf_counter()
        asker.exchange(frame)
        times.append(time.perf_counter() - began)
        if worker is not None:
            worker.socket.recv(1 << 20)
    return times


# --- common -----------------------------------------------------------------------------------------------------------


def _clients(daemon: Daemon, count: int) -> list[BenchClient]:
    clients = [BenchClient(daemon.socket_path) for _ in range(count)]
    for client in clients:
        client.initialize()
    return clients


def _rss(client: BenchClient) -> int:
    rss: int = client.request("hermes/daemon/status", {})["rssBytes"]
    return rss


def _cpu(pid: int) -> float:
    """Seconds of processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _time(text: str) -> float:
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
