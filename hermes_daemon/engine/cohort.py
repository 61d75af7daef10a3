"""Subscribers that wait for the same deltas: one run is kept for all of them, so that a delta costs the same for a
hundred as for one until it is handed on."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from hermes_daemon.engine.emitted import Batch, Emitted

MOST_BYTES: Final = 32_768
"""Half of the smallest frame that a client may ask for: a run is never cut."""


class Member(Protocol):
    """Who waits for a run. Must return at once."""

    def take_run(self, run: list[Emitted], size: int) -> None:
        """The deltas of a period, `size` bytes of them. The list is shared: it is read only."""


class Cohort:
    """Those subscribers of one feed that let deltas wait equally long, in seconds: they are handed on at the next
    point of a grid that all feeds and connections share."""

    def __init__(self, period: float) -> None:
        self._period = period
        self._members: dict[int, Member] = {}
        self._run: list[Emitted] = []
        self._size = 0
        self._timer: asyncio.TimerHandle | None = None

    def join(self, member: Member, batch: Batch) -> bool:
        """Wait with the others, from this batch of nothing but deltas on. False for who comes in the middle of a run:
        it can join when that has been handed on."""
        if self._members:
            if self._run[0] is not batch.events[0]:
                return False
        elif batch.size > MOST_BYTES:
            return False
        else:
            self._run, self._size = list(batch.events), batch.size
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at((loop.time() // self._period + 1) * self._period, self.hand_on)
        self._members[id(member)] = member
        return True

    def __contains__(self, member: object) -> bool:
        return id(member) in self._members

    def grow(self, batch: Batch) -> bool:
        """Keep a batch of nothing but deltas for all members. False when it does not fit to what they wait for: they
        were handed that, and take the batch like everybody."""
        if self._members and self._size + batch.size > MOST_BYTES:
            self.hand_on()
        if not self._members:
            return False
        self._run += batch.events
        self._size += batch.size
        return True

    def hand_on(self) -> None:
        """Give every member the run; nobody is a member any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        members, self._members = self._members, {}
        run, self._run = self._run, []
        size, self._size = self._size, 0
        for member in members.values():
            member.take_run(run, size)
