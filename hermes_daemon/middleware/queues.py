"""Observers off the path of tokens: each link has a bounded queue and is told in its own time.

What registers for a delta must never slow the stream: `tell` costs an append. What a slow observer cannot take is
dropped, the oldest first, and counted.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections import deque
from collections.abc import Awaitable
from typing import Any, Final, TypeAlias

from hermes_daemon.middleware.registry import Link
from hermes_daemon.middleware.structural_copy import copied
from hermes_daemon.middleware.styles import Report, observe

MOST: Final = 1024
GATHER_SECONDS: Final = 0.02
"""What comes within this time is delivered together: waking somebody for every delta would be felt by the stream."""
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

    def tell(self, links: tuple[Link, ...], payload: Any, context: Any, report: Report) -> None:
        """Tell every link in its turn. Never waits and never raises."""
        for link in links:
            queue = self._queues.get(link.id)
            if queue is None:
                queue = self._queues[link.id] = _Queue()
            if len(queue.waiting) == MOST:
                queue.dropped += 1
                report(link, Dropped(f"it does not keep up: of {MOST} waiting calls the oldest is dropped"))
            queue.waiting.append((payload, context, report))
            if not queue.draining:
                queue.draining = True
                asyncio.get_running_loop().call_later(GATHER_SECONDS, self._start, link, queue)

    def dropped(self, link: Link) -> int:
        """How many calls of this link were dropped."""
        queue = self._queues.get(link.id)
        return queue.dropped if queue is not None else 0

    def _start(self, link: Link, queue: _Queue) -> None:
        task = asyncio.get_running_loop().create_task(self._drain(link, queue))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _drain(self, link: Link, queue: _Queue) -> None:
        try:
            while queue.waiting and not link.health.removed:
                if link.blocking is not None:
                    loop = asyncio.get_running_loop()
                    await link.workers.run(functools.partial(_in_thread, link, queue.waiting, loop))
                else:
                    payload, context, report = queue.waiting.popleft()
                    await observe((link,), payload, context, report)
        finally:
            queue.draining = False
            if link.health.removed:
                self._queues.pop(link.id, None)


def _in_thread(link: Link, waiting: deque[_Told], loop: asyncio.AbstractEventLoop) -> None:
    """All that waits, one after the other: one change of threads for many."""
    assert link.blocking is not None
    while waiting and not link.health.removed:
        payload, context, report = waiting.popleft()
        try:
            if link.wants is None or link.wants(payload):
                result = link.blocking(copied(payload), context)
                if inspect.isawaitable(result):
                    asyncio.run_coroutine_threadsafe(_awaited(result), loop).result()
        except Exception as error:  # a plugin's callback
            loop.call_soon_threadsafe(report, link, error)


async def _awaited(result: Awaitable[Any]) -> Any:
    return await result
