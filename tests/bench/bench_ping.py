"""Request round trips on the unix socket, one connection, one request at a time, beside a bare echo server."""

from __future__ import annotations

import contextlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench.client import BenchClient
from tests.bench.figure import Figure, interleaved, percentile
from tests.support.daemon_process import running_daemon

BATCH = 500
PAIRS = 20
FRAME = b'{"jsonrpc":"2.0","id":%d,"method":"hermes/daemon/ping","params":{"echo":{"text":"a word","n":1}}}\n'


def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="hb") as name, running_daemon(Path(name)) as daemon:
        client = BenchClient(daemon.socket_path)
        client.initialize()
        ours: list[float] = []
        with _bare(Path(name) / "bare.sock") as bare:
            trip_s, bare_s = interleaved(lambda: _batch(client, ours), lambda: _batch(bare, []), PAIRS)
        with _bare(Path(name) / "uvloop.sock", "uvloop") as bare:
            _, uvloop_s = interleaved(lambda: _batch(client, ours), lambda: _batch(bare, []), PAIRS // 2)
        client.close()
    return [
        Figure(
            "`hermes/daemon/ping`, closed loop",
            1 / trip_s,
            "requests/s",
            better="higher",
            goal=0.5,
            of="ratio",
            comparison=1 / bare_s,
            compared_with="bare asyncio + msgspec echo",
        ),
        Figure(
            "`hermes/daemon/ping`, beside an echo on uvloop",
            1 / trip_s,
            "requests/s",
            better="higher",
            comparison=1 / uvloop_s,
            compared_with="bare uvloop + msgspec echo",
        ),
        Figure("`hermes/daemon/ping`, p99", percentile(ours, 0.99) * 1000, "ms"),
    ]


def _batch(client: BenchClient, taken: list[float]) -> float:
    """The median round trip of a batch; every one is added to `taken`."""
    times = []
    for number in range(BATCH):
        frame = FRAME % (number + 1000)
        began = time.perf_counter()
        answer = client.exchange(frame)
        times.append(time.perf_counter() - began)
        assert b'"a word"' in answer, answer
    taken += times
    return statistics.median(times)


@contextlib.contextmanager
def _bare(path: Path, *words: str) -> Iterator[BenchClient]:
    command = [sys.executable, "-m", "tests.bench.bare_echo", str(path), *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None
            server.stdout.readline()
            client = BenchClient(str(path))
            yield client
            client.close()
        finally:
            server.terminate()
