"""Observers in their own time: in order, bounded, counted, gone with their registration."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from hermes_daemon.middleware.queues import MOST, Queues
from hermes_daemon.middleware.registry import Link, Registry


def quiet(link: Link, error: BaseException) -> None:
    raise AssertionError(error)


def test_everything_is_told_in_order_on_the_loop_and_in_a_thread() -> None:
    heard: dict[str, list[int]] = {"async": [], "sync": []}
    over = {"async": asyncio.Event(), "sync": threading.Event()}

    async def later(value: int, _: Any) -> None:
        heard["async"].append(value)
        if value == 99:
            over["async"].set()

    def now(value: int, _: Any) -> None:
        assert threading.current_thread() is not threading.main_thread()
        heard["sync"].append(value)
        if value == 99:
            over["sync"].set()

    async def story() -> None:
        registry, queues = Registry(), Queues()
        registry.use("on_stream_delta", later, owner="a")
        registry.use("on_stream_delta", now, owner="b")
        for value in range(100):
            queues.tell(registry.snapshot("on_stream_delta"), value, None, quiet)
        async with asyncio.timeout(20):
            await over["async"].wait()
            await asyncio.to_thread(over["sync"].wait, 20)

    asyncio.run(story())
    assert heard == {"async": list(range(100)), "sync": list(range(100))}


def test_the_oldest_is_dropped_and_counted_when_an_observer_does_not_keep_up() -> None:
    heard: list[int] = []
    told: list[str] = []
    over = asyncio.Event()

    async def slow(value: int, _: Any) -> None:
        heard.append(value)
        if value == MOST + 9:
            over.set()

    async def story() -> None:
        registry, queues = Registry(), Queues()
        registry.use("on_stream_delta", slow, owner="slow")
        [link] = registry.snapshot("on_stream_delta")
        for value in range(MOST + 10):
            queues.tell((link,), value, None, lambda link, error: told.append(str(error)))
        async with asyncio.timeout(20):
            await over.wait()
        assert queues.dropped(link) == 10

    asyncio.run(story())
    assert heard == list(range(10, MOST + 10))
    assert told == [f"it does not keep up: of {MOST} waiting calls the oldest is dropped"]


def test_a_failure_is_reported_and_the_next_is_told() -> None:
    over = asyncio.Event()
    told: list[str] = []

    def broken(value: int, _: Any) -> None:
        raise ValueError(f"no {value}")

    def report(link: Link, error: BaseException) -> None:
        told.append(str(error))
        if len(told) == 2:
            over.set()

    async def story() -> None:
        registry, queues = Registry(), Queues()
        registry.use("on_stream_delta", broken, owner="b")
        for value in range(2):
            queues.tell(registry.snapshot("on_stream_delta"), value, None, report)
        async with asyncio.timeout(20):
            await over.wait()

    asyncio.run(story())
    assert told == ["no 0", "no 1"]


def test_who_is_removed_is_told_nothing_more() -> None:
    heard: list[str] = []
    over = asyncio.Event()

    async def gone(value: int, _: Any) -> None:
        heard.append("gone")

    async def stays(value: int, _: Any) -> None:
        heard.append("stays")
        over.set()

    async def story() -> None:
        registry, queues = Registry(), Queues()
        handle = registry.use("on_stream_delta", gone, owner="a")
        registry.use("on_stream_delta", stays, owner="b")
        queues.tell(registry.snapshot("on_stream_delta"), 1, None, quiet)
        handle.remove()
        async with asyncio.timeout(20):
            await over.wait()

    asyncio.run(story())
    assert heard == ["stays"]
