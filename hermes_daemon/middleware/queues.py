"""Observers off the path of tokens: each link has a bounded queue and is told in its own time.

What registers for a delta must never slow the stream: a delta costs an append, and all observers together get a small
share of the time. What they cannot take is dropped, the oldest first, and counted.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias

from hermes_daemon.middleware.registry import Link
from hermes_daemon.middleware.structural_copy import copied
from hermes_daemon.middleware.styles import Report, observe

MOST: Final = 1024
GATHER_SECONDS: Final = 0.02
"""What comes within this time is delivered together: waking somebody for every delta would be felt by the stream."""
SLICE_SECONDS: Final = 0.001
SHARE: Final = 30
"""Observers have one part in so many of the time while there is more to tell: the loop and they share one lock."""
ASYNC_SECONDS: Final = 0.00005
"""What a call on the loop is counted as: how long it waits says nothing of what it costs."""
_Told: TypeAlias = tuple[Any, Any, Report]


class Dropped(Exception):
    """An observer does not keep up."""


class _Queue:
    """What waits for one link."""

    def __init__(self) -> None:
        self.waiting: deque[_Told] = deque(maxlen=MOST)
        self.dropped = 0
        self.draining = False


class Queues:
    """The queues of one daemon. Used on its event loop."""

    def __init__(self) -> None:
        self._queues: dict[int, _Queue] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._next = 0.0

    def tell(self, links: tuple[Link, ...], payload: Any, context: Any, report: Report) -> None:
        """Tell every link in its turn. Never waits and never raises."""
        self._put(links, ((payload, context, report),))

    def teller(self, links: tuple[Link, ...], context: Any, report: Report) -> Callable[[Any], None]:
        """`tell` for many payloads in a row, at the price of an append."""
        pending: list[_Told] = []

        def flush() -> None:
            batch = tuple(pending)
            pending.clear()
            if batch:
                self._put(links, batch)

        def tell(payload: Any) -> None:
            pending.append((payload, context, report))
            if len(pending) == 1:
                asyncio.get_running_loop().call_later(GATHER_SECONDS, flush)
            elif len(pending) == MOST:
                flush()

        return tell

    def dropped(self, link: Link) -> int:
        """How many calls of this link were dropped."""
        queue = self._queues.get(link.id)
        return queue.dropped if queue is not None else 0

    def _put(self, links: tuple[Link, ...], batch: Sequence[_Told]) -> None:
        for link in links:
            queue = self._queues.get(link.id)
            if queue is None:
                queue = self._queues[link.id] = _Queue()
            overflow = len(queue.waiting) + len(batch) - MOST
            if overflow > 0:
                if not queue.dropped:
                    batch[0][2](link, Dropped(f"it does not keep up: of {MOST} waiting calls the oldest is dropped"))
                queue.dropped += overflow
            queue.waiting.extend(batch)
            if not queue.draining:
                queue.draining = True
                asyncio.get_running_loop().call_later(GATHER_SECONDS, self._start, link, queue)

    def _start(self, link: Link, queue: _Queue) -> None:
        task = asyncio.get_running_loop().create_task(self._drain(link, queue))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _drain(self, link: Link, queue: _Queue) -> None:
        loop = asyncio.get_running_loop()
        try:
            while queue.waiting and not link.health.removed:
                if (wait := self._next - loop.time()) > 0:
                    await asyncio.sleep(wait)
                    continue
                if link.blocking is not None:
                    spent = await link.workers.run(functools.partial(_in_thread, link, queue.waiting, loop))
                else:
                    payload, context, report = queue.waiting.popleft()
                    await observe((link,), payload, context, report)
                    spent = ASYNC_SECONDS
                self._next = max(self._next, loop.time()) + spent * (SHARE - 1)
        finally:
            queue.draining = False
            if link.health.removed:
                self._queues.pop(link.id, None)


def _in_thread(link: Link, waiting: deque[_Told], loop: asyncio.AbstractEventLoop) -> float:
    """Some of what waits, one after the other: one change of threads for many. Gives the seconds of work it was."""
    assert link.blocking is not None
    began = time.thread_time()
    while waiting and not link.health.removed and time.thread_time() - began < SLICE_SECONDS:
        payload, context, report = waiting.popleft()
        try:
            if link.wants is None or link.wants(payload):
                result = link.blocking(copied(payload), context)
                if inspect.isawaitable(result):
                    asyncio.run_coroutine_threadsafe(_awaited(result), loop).result()
        except Exception as error:  # a plugin's callback
            loop.call_soon_threadsafe(report, link, error)
    return time.thread_time() - began


async def _awaited(result: Awaitable[Any]) -> Any:
    return await result
