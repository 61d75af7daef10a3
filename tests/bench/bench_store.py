"""Figures of the store: `python -m tests.bench.bench_store` prints them as JSON."""

from __future__ import annotations

import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hermes_daemon.core.records import AddMessage
from hermes_daemon.store.sqlite import SqliteStore
from tests.support.store_rows import answered, delta, event, events, message, open_store, put_session, said

ROWS, BATCH = 50_000, 50
SESSIONS, ITEMS = 1_000, 10_000


def measure() -> dict[str, float]:
    """durable_rows_per_s (journal rows, 50 to a write, synced), durable_write_ms (one write at a time, awaited),
    list_1000_ms, tail_200_of_10000_ms, history_10000_ms, search_ms, read_us, open_ms: medians where many."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_measure(Path(folder) / "state.db"))


async def _measure(path: Path) -> dict[str, float]:
    store = open_store(path)
    figures = await _writes(store)
    await _fill(store)
    figures["list_1000_ms"] = _median_ms(lambda: store.sessions(limit=SESSIONS))
    figures["list_first_50_ms"] = _median_ms(lambda: store.sessions(limit=50))
    figures["tail_200_of_10000_ms"] = _median_ms(lambda: store.items("long", limit=200, order="desc"))
    figures["history_10000_ms"] = _median_ms(lambda: store.messages("long"))
    figures["search_ms"] = _median_ms(lambda: store.search("needle 4", limit=20))
    figures["read_us"] = _median_ms(lambda: store.session("long")) * 1000
    await store.close()
    began = time.perf_counter()
    store = open_store(path)
    figures["open_ms"] = (time.perf_counter() - began) * 1000
    await store.close()
    return {name: round(value, 3) for name, value in figures.items()}


async def _writes(store: SqliteStore) -> dict[str, float]:
    await store.write(put_session("long"))
    batches = [
        events(*(delta("long", seq, "i", "word ", 5 * (seq - 1)) for seq in range(first, first + BATCH)))
        for first in range(1, ROWS, BATCH)
    ]
    began = time.perf_counter()
    await asyncio.gather(*(store.write(batch) for batch in batches))
    rows_per_s = ROWS / (time.perf_counter() - began)
    times = []
    for seq in range(ROWS + 1, ROWS + 201):
        began = time.perf_counter()
        await store.write(events(event("long", seq)))
        times.append(time.perf_counter() - began)
    return {"durable_rows_per_s": rows_per_s, "durable_write_ms": statistics.median(times) * 1000}


async def _fill(store: SqliteStore) -> None:
    writes = [store.write(put_session(f"s{n}", title=f"Session {n}")) for n in range(SESSIONS - 1)]
    for n in range(ITEMS // 2):
        writes.append(store.write(said("long", f"u{n}", f"question {n} about a needle {n % 10}"), durable=False))
        writes.append(store.write(answered("long", f"a{n}", f"answer {n}, with some words in it"), durable=False))
        texts = (
            AddMessage(session_id="long", message=message(f"question {n}")),
            AddMessage(session_id="long", message=message(f"answer {n}", "assistant")),
        )
        writes.append(store.write(*texts, durable=False))
    await asyncio.gather(*writes)


def _median_ms(work: Callable[[], Any], times: int = 15) -> float:
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken) * 1000


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
