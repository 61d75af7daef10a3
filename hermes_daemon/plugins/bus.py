"""Events between plugins: one worker, a copy for each subscriber, bounded, never back into the turn that emitted."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from hermes_daemon.core.ports import Refused
from hermes_daemon.middleware.structural_copy import copied
from hermes_daemon.middleware.workers import Workers

log = logging.getLogger(__name__)
RESERVED: Final = "hermes:"
DEEPEST: Final = 8
MOST_PENDING: Final = 64
SECONDS: Final = 30.0
_depth: contextvars.ContextVar[int] = contextvars.ContextVar("plugin_event_depth", default=0)


class Bus:
    """`emit` never waits; what more than 64 pending events would hold is dropped, counted and said once."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._subscribers: dict[str, list[tuple[str, Callable[..., Any]]]] = {}
        self._changing = threading.Lock()
        self._pending: deque[tuple[contextvars.Context, str, dict[str, Any]]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.dropped = 0

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        """Events are handed on in this loop, from whatever thread they come."""
        self._loop = loop

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The loop that plugins live in."""
        return self._loop

    def subscribe(self, event: str, call: Callable[..., Any], owner: str) -> Callable[[], None]:
        """Be told of an event; gives what takes the subscription back."""
        row = (owner, call)
        with self._changing:
            self._subscribers = {**self._subscribers, event: [*self._subscribers.get(event, ()), row]}

        def remove() -> None:
            self._keep(lambda each: each is not row)

        return remove

    def emit(self, event: str, payload: dict[str, Any], *, owner: str) -> None:
        """Tell the subscribers, soon. Refused for a reserved name and for events that answer events without end."""
        if event.startswith(RESERVED) and owner:
            raise Refused(f"events that begin with {RESERVED!r} are the daemon's own")
        depth = _depth.get()
        if depth >= DEEPEST:
            raise Refused(f"{event!r}: events answered each other {DEEPEST} times")
        if self._loop is None or not self._subscribers.get(event):
            return
        context = contextvars.copy_context()
        context.run(_depth.set, depth + 1)
        self._loop.call_soon_threadsafe(self._take, context, event, payload)

    def withdraw(self, owner: str) -> None:
        """Take back all subscriptions of a plugin."""
        self._keep(lambda row: row[0] != owner)

    def _keep(self, wanted: Callable[[tuple[str, Callable[..., Any]]], bool]) -> None:
        with self._changing:
            kept = {event: [row for row in rows if wanted(row)] for event, rows in self._subscribers.items()}
            self._subscribers = {event: rows for event, rows in kept.items() if rows}

    async def drained(self) -> None:
        """Return when everything emitted so far was handed on."""
        await asyncio.sleep(0)
        while self._task is not None:
            await asyncio.shield(self._task)

    def _take(self, context: contextvars.Context, event: str, payload: dict[str, Any]) -> None:
        if len(self._pending) >= MOST_PENDING:
            if not self.dropped:
                log.warning("plugin events come faster than they are taken: %s was dropped", event)
            self.dropped += 1
            return
        self._pending.append((context, event, payload))
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work())

    async def _work(self) -> None:
        try:
            while self._pending:
                context, event, payload = self._pending.popleft()
                for owner, call in list(self._subscribers.get(event, ())):
                    await self._tell(context, owner, call, copied(payload), event)
        finally:
            self._task = None

    async def _tell(
        self, context: contextvars.Context, owner: str, call: Callable[..., Any], payload: dict[str, Any], event: str
    ) -> None:
        try:
            async with asyncio.timeout(SECONDS):
                if asyncio.iscoroutinefunction(call):
                    await asyncio.get_running_loop().create_task(call(**payload), context=context)
                else:
                    await self._workers.run(lambda: context.copy().run(lambda: call(**payload)))
        except Exception as error:  # a plugin's callback: it must not keep the others from the event
            log.warning("%s failed at event %s: %s: %s", owner, event, type(error).__name__, error)
