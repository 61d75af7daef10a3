"""What event loops hand to the writer thread, and how its answers get back to them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, TypeAlias

from hermes_daemon.core.ports import StorageError
from hermes_daemon.core.records import Op


class Write:
    """Operations on their way. `patience` in seconds, None without end; `since` is the clock's monotonic time."""

    __slots__ = ("durable", "future", "ops", "patience", "since")

    def __init__(
        self, ops: tuple[Op, ...], durable: bool, patience: float | None, since: float, future: asyncio.Future[None]
    ) -> None:
        self.ops, self.durable, self.patience, self.since, self.future = ops, durable, patience, since, future


class Tidy:
    """Do all housekeeping that is due."""

    def __init__(self, future: asyncio.Future[None]) -> None:
        self.future = future


class Watch:
    """Answer with the health as soon as it is another than `seen`."""

    def __init__(self, seen: str, future: asyncio.Future[str]) -> None:
        self.seen, self.future = seen, future


class Close:
    """Finish what is there, then end."""

    def __init__(self, since: float, future: asyncio.Future[None]) -> None:
        self.since, self.future = since, future


Submitted: TypeAlias = Write | Tidy | Watch | Close
Answer: TypeAlias = tuple[asyncio.Future[Any], Any]
"""A future and its result, or the StorageError it ends with."""


def answer(answers: Iterable[Answer]) -> None:
    """End futures from the writer thread: one call into each event loop, however many they are."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Answer]] = {}
    for future, result in answers:
        by_loop.setdefault(future.get_loop(), []).append((future, result))
    for loop, batch in by_loop.items():
        try:
            loop.call_soon_threadsafe(_end, batch)
        except RuntimeError:
            continue  # the loop is closed: nobody waits there any more


def fail(future: asyncio.Future[Any], error: StorageError) -> None:
    """End a future, on its loop, with an error that need not be retrieved: `health` tells of it."""
    future.set_exception(error)
    future.exception()  # marks it as seen, so that asyncio does not log a write that nobody awaits


def _end(batch: list[Answer]) -> None:
    for future, result in batch:
        if future.done():  # whoever waited was cancelled; the write stands
            continue
        if isinstance(result, StorageError):
            fail(future, result)
        else:
            future.set_result(result)
