"""Events between plugins."""

import asyncio
import logging
from typing import Any

import pytest

from hermes_daemon.core.ports import Refused
from hermes_daemon.middleware.workers import Workers
from hermes_daemon.plugins.bus import MOST_PENDING, Bus


def bus() -> Bus:
    made = Bus(Workers())
    made.bind(asyncio.get_running_loop())
    return made


def test_subscribers_get_copies_in_order_and_one_that_fails_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[Any] = []

    def spoils(rows: list[int]) -> None:
        rows.append(9)
        raise ValueError("mine")

    async def story() -> None:
        events = bus()
        events.subscribe("met", spoils, "a")
        remove = events.subscribe("met", lambda rows: seen.append(rows), "b")
        events.emit("met", {"rows": [1]}, owner="c")
        events.emit("met", {"rows": [2]}, owner="c")
        await events.drained()
        remove()
        events.emit("met", {"rows": [3]}, owner="c")
        await events.drained()

    asyncio.run(story())
    assert seen == [[1], [2]]
    assert "a failed at event met: ValueError: mine" in caplog.text


def test_events_that_answer_each_other_end() -> None:
    count: list[int] = []

    async def story() -> None:
        events = bus()

        def again() -> None:
            count.append(1)
            events.emit("ping", {}, owner="a")

        events.subscribe("ping", again, "a")
        events.emit("ping", {}, owner="a")
        for _ in range(20):
            await events.drained()

    logging.disable(logging.WARNING)
    try:
        asyncio.run(story())
    finally:
        logging.disable(logging.NOTSET)
    assert len(count) == 8


def test_what_comes_too_fast_is_dropped_and_counted() -> None:
    async def story() -> int:
        events = bus()
        events.subscribe("tick", lambda: None, "a")
        for _ in range(MOST_PENDING + 10):
            events.emit("tick", {}, owner="a")
        await events.drained()
        return events.dropped

    assert asyncio.run(story()) == 10


def test_the_daemons_own_events_are_not_for_plugins() -> None:
    async def story() -> None:
        with pytest.raises(Refused, match="the daemon's own"):
            bus().emit("hermes:started", {}, owner="a")

    asyncio.run(story())
