"""One breaker for an endpoint: after failures in a row nobody asks for a while, then exactly one request tries."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Literal, TypeAlias

State: TypeAlias = Literal["closed", "open", "half-open"]


class Breaker:
    """Used from any thread. `enter` gives a ticket; every ticket is given back by one of the others.

    A ticket of before the last change of state counts no more: what was under way when the breaker opened neither
    closes it nor prolongs it. `told(before, after)` is called once for each change, outside the lock.
    """

    def __init__(
        self,
        failures: int,
        reset_s: float,
        monotonic: Callable[[], float],
        told: Callable[[State, State], object] = lambda before, after: None,
    ) -> None:
        self._most, self._reset_s, self._monotonic, self._told = failures, reset_s, monotonic, told
        self._lock = threading.Lock()
        self._state: State = "closed"
        self._failures = 0
        self._opened = 0.0
        self._epoch = 0

    @property
    def state(self) -> State:
        """closed; open; half-open while the one request is under way."""
        return self._state

    @property
    def failures(self) -> int:
        """Failures in a row."""
        return self._failures

    @property
    def retry_after(self) -> float:
        """Seconds until a request may try, 0.0 when one may now."""
        with self._lock:
            return max(0.0, self._opened + self._reset_s - self._monotonic()) if self._state == "open" else 0.0

    def enter(self) -> int | None:
        """A ticket to ask, None while nobody may."""
        with self._lock:
            if self._state == "closed":
                return self._epoch
            if self._state == "half-open" or self._monotonic() < self._opened + self._reset_s:
                return None
            change = self._become("half-open")
            ticket = self._epoch
        self._told(*change)
        return ticket

    def succeeded(self, ticket: int) -> None:
        """The service answered."""
        with self._lock:
            if ticket != self._epoch:
                return
            self._failures = 0
            change = self._become("closed") if self._state == "half-open" else None
        if change:
            self._told(*change)

    def answered(self, ticket: int) -> None:
        """The service is there, but what it said is of no use: enough to close, not enough to forget failures."""
        if self._state == "half-open":
            self.succeeded(ticket)

    def failed(self, ticket: int) -> None:
        """The service is down: no answer, 5xx or time-out."""
        with self._lock:
            if ticket != self._epoch:
                return
            self._failures += 1
            change = None
            if self._state == "half-open" or self._failures >= self._most:
                self._opened = self._monotonic()
                change = self._become("open")
        if change:
            self._told(*change)

    def released(self, ticket: int) -> None:
        """It was not found out whether the service answers; the next request tries."""
        with self._lock:
            if ticket != self._epoch or self._state != "half-open":
                return
            change = self._become("open")
        self._told(*change)

    def _become(self, state: State) -> tuple[State, State]:
        before, self._state = self._state, state
        self._epoch += 1
        return before, state
