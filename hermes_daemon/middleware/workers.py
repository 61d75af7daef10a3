"""Threads for callables that are not async: one each while it runs, kept for the next when it is done.

Not a bounded pool: a callable that hangs occupies its own thread and nobody else's.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeAlias

Job: TypeAlias = Callable[[], None]
IDLE_KEPT = 8


class Workers:
    """Runs callables off the event loop, in the caller's context variables."""

    def __init__(self) -> None:
        self._idle: list[queue.SimpleQueue[Job | None]] = []
        self._lock = threading.Lock()

    async def run(self, call: Callable[[], Any], given_up: Callable[[int], object] = lambda _: None) -> Any:
        """What `call` gives back or raises. Cancelled, the thread runs on alone and its result is dropped:
        `given_up(1)` is told then, and `given_up(-1)` when it comes to its end after all."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        context = contextvars.copy_context()

        def job() -> None:
            try:
                value = context.run(call)
            except BaseException as error:  # it belongs to who waits, whatever it is
                _deliver(loop, future, given_up, error, None)
            else:
                _deliver(loop, future, given_up, None, value)

        self._take().put(job)
        try:
            return await future
        except asyncio.CancelledError:
            given_up(1)
            raise

    @property
    def idle(self) -> int:
        """Threads that wait for work."""
        return len(self._idle)

    def close(self) -> None:
        """Let the idle threads end."""
        with self._lock:
            idle, self._idle = self._idle, []
        for inbox in idle:
            inbox.put(None)

    def _take(self) -> queue.SimpleQueue[Job | None]:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        inbox: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        threading.Thread(target=self._work, args=(inbox,), name="middleware", daemon=True).start()
        return inbox

    def _work(self, inbox: queue.SimpleQueue[Job | None]) -> None:
        while (job := inbox.get()) is not None:
            job()
            with self._lock:
                if len(self._idle) >= IDLE_KEPT:
                    return
                self._idle.append(inbox)


def _deliver(
    loop: asyncio.AbstractEventLoop,
    future: asyncio.Future[Any],
    given_up: Callable[[int], object],
    error: BaseException | None,
    value: Any,
) -> None:
    def settle() -> None:
        if future.done():
            given_up(-1)
            return
        if error is None:
            future.set_result(value)
        elif isinstance(error, StopIteration):
            future.set_exception(RuntimeError("StopIteration was raised"))  # a future cannot carry it
        else:
            future.set_exception(error)

    try:
        loop.call_soon_threadsafe(settle)
    except RuntimeError:
        return  # the loop is closed: nobody waits any more
