"""The store by itself: what the disk of this machine allows, and so what a turn cannot be faster than."""

from __future__ import annotations

from tests.bench import bench_store
from tests.bench.figure import Figure


def measure() -> list[Figure]:
    figures = bench_store.measure()
    return [
        Figure(
            "one durable write, awaited",
            figures["durable_write_ms"],
            "ms",
            note="every turn waits for several: the message, each completed item, the end",
        ),
        Figure("durable journal rows", figures["durable_rows_per_s"], "rows/s", better="higher"),
        Figure("full-text search in 10,000 messages", figures["search_ms"], "ms"),
        Figure("opening a store of 10,000 messages", figures["open_ms"], "ms"),
    ]
