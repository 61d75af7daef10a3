"""An idle daemon's memory, and big stores as a client meets them."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from tests.bench.bench_store import ITEMS, SESSIONS
from tests.bench.client import BenchClient
from tests.bench.figure import Figure, seconds
from tests.support.daemon_process import Daemon
from tests.support.store_rows import answered, open_store, put_session, said

STARTS = 5
LISTINGS = 15
MIB = 1024


def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="hb") as name:
        folder = Path(name)
        (folder / "home").mkdir()
        figures = [_idle(folder)]
        asyncio.run(_fill(folder / "home" / "state.db"))
        return figures + _big(folder)


def _resident_kib(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError(f"no VmRSS of {pid}")


def _idle(folder: Path) -> Figure:
    daemon = Daemon(folder / "home", folder / "run")
    daemon.start()
    client = BenchClient(daemon.socket_path)
    client.initialize()
    client.request("hermes/daemon/status", {})
    resident = _resident_kib(daemon.pid)
    client.close()
    daemon.stop()
    code = "import asyncio, msgspec, sqlite3, sys; print(flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as bare:
        assert bare.stdout is not None
        bare.stdout.readline()
        imports = _resident_kib(bare.pid)
        bare.communicate()
    return Figure(
        "memory of an idle daemon",
        resident / MIB,
        "MiB",
        goal=60,
        comparison=imports / MIB,
        compared_with="Python with asyncio, msgspec, sqlite3",
        note="resident, after the start and one client, before the first turn",
    )


async def _fill(path: Path) -> None:
    store = open_store(path)
    writes = [store.write(put_session(f"s{n}", title=f"Session {n}"), durable=False) for n in range(SESSIONS - 1)]
    writes.append(store.write(put_session("long", title="Long"), durable=False))
    for n in range(ITEMS // 2):
        writes.append(store.write(said("long", f"u{n}", f"question {n} about a needle"), durable=False))
        writes.append(store.write(answered("long", f"a{n}", f"answer {n}, with some words in it"), durable=False))
    await asyncio.gather(*writes)
    await store.close()


def _big(folder: Path) -> list[Figure]:
    daemon = Daemon(folder / "home", folder / "run")
    listings, first, again = [], [], []
    for _ in range(STARTS):
        daemon.start()
        client = BenchClient(daemon.socket_path)
        client.initialize()
        first.append(seconds(partial(_tail, client)))
        again += [seconds(partial(_tail, client)) for _ in range(3)]
        listings += [seconds(partial(_list, client)) for _ in range(LISTINGS // STARTS + 1)]
        client.close()
        daemon.stop()
    return [
        Figure("1,000 sessions listed", statistics.median(listings) * 1000, "ms", goal=20, note="in one page"),
        Figure(
            "subscribe to a session of 10,000 messages, first time",
            statistics.median(first) * 1000,
            "ms",
            goal=50,
            note="tail snapshot; the session is not in memory yet",
        ),
        Figure("subscribe to it again", statistics.median(again) * 1000, "ms", goal=50),
    ]


def _tail(client: BenchClient) -> None:
    result = client.subscribe("long")
    assert result["mode"] == "snapshot", result
    assert result["snapshot"]["items"][-1]["text"].startswith("answer")


def _list(client: BenchClient) -> None:
    result = client.request("hermes/session/list", {"limit": SESSIONS})
    assert len(result["sessions"]) == SESSIONS, len(result["sessions"])
