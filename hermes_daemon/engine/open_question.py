"""A question that waits: what is known of its answer, who may still give it, and the clock that runs out on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from hermes_daemon.core.ports import Clock
from hermes_daemon.engine.answers import Resolution
from hermes_protocol.events import QuestionStatus, RequestOpened


class OpenQuestion:
    """The state of one question. `policy` gives its end by the policy of that name when nobody is there; `future` its
    end to who waits. `claimed` is set by the first who ends it: compare and set."""

    def __init__(
        self, row: RequestOpened, timeout_s: float, policy: Callable[[str], Resolution], expired: Callable[[], object],
        clock: Clock,
    ) -> None:  # fmt: skip
        self.row = row
        self.policy = policy
        self.future: asyncio.Future[Resolution] = asyncio.get_running_loop().create_future()
        self.statuses = {question.id: QuestionStatus(question.id) for question in row.questions}
        self.announced = False
        self.abandoned = False
        self.claimed: Resolution | None = None
        self.declined: set[str] = set()
        self.seen: set[str] = set()
        self.sent_to: set[str] = set()
        self.started = False
        self._remaining = timeout_s
        self._expired = expired
        self._clock = clock
        self._since: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def running(self) -> bool:
        """True while its time runs out."""
        return self._since is not None

    @property
    def remaining_ms(self) -> int:
        """The time that is left."""
        left = self._remaining
        if self._since is not None:
            left = max(0.0, left - (self._clock.monotonic() - self._since))
        return int(left * 1000)

    def clocked(self, row: RequestOpened) -> RequestOpened:
        """The row with the clock of now."""
        return msgspec.structs.replace(row, remaining_ms=self.remaining_ms, running=self.running)

    def start_clock(self) -> None:
        """Let the time run. A question without a time limit only says that somebody is there."""
        self._since = self._clock.monotonic()
        if self._remaining > 0:
            self._timer = asyncio.get_running_loop().call_later(self._remaining, self._expired)

    def stop_clock(self) -> None:
        """Keep what is left."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._since is not None:
            self._remaining = max(0.0, self._remaining - (self._clock.monotonic() - self._since))
            self._since = None
