"""Subscribers that wait for the same deltas share one run; whoever is not in step gets every delta all the same."""

from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_daemon.engine.cohort import MOST_BYTES, Cohort
from hermes_daemon.engine.emitted import Batch, Emitted
from hermes_protocol.events import ItemDelta
from tests.support.loops import SkippingLoop

PERIOD = 0.5


def batch(first: int, count: int = 1, size: int = 10) -> Batch:
    numbers = range(first, first + count)
    return Batch(b"", first - 1, [_delta(number, size) for number in numbers])


def _delta(number: int, size: int) -> Emitted:
    return Emitted(number, number, "item.delta", b"x" * size, ItemDelta("text", "x", number), "t", "i", "now")


class Waiter:
    """A member that writes down the numbers it is handed."""

    def __init__(self) -> None:
        self.got: list[int] = []
        self.handed = 0

    def take_run(self, run: list[Emitted], size: int) -> None:
        assert size == sum(len(event.tail) for event in run)
        self.handed += 1
        self.got += [event.seq for event in run]


def test_a_run_is_handed_on_once_at_the_end_of_the_period() -> None:
    with asyncio.Runner(loop_factory=SkippingLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, SkippingLoop)

        async def story() -> None:
            cohort, one, other = Cohort(PERIOD), Waiter(), Waiter()
            first = batch(1)
            assert cohort.join(one, first)
            assert cohort.join(other, first)
            assert cohort.grow(batch(2, 3))
            assert (one.got, other.got) == ([], [])
            loop.skip(PERIOD)
            while not other.handed:
                await asyncio.sleep(0)
            assert (one.got, other.got) == ([1, 2, 3, 4], [1, 2, 3, 4])
            assert (one.handed, other.handed) == (1, 1)
            assert one not in cohort

        runner.run(story())


def test_who_comes_in_the_middle_of_a_run_joins_with_the_next() -> None:
    async def story() -> None:
        cohort, one, late = Cohort(PERIOD), Waiter(), Waiter()
        assert cohort.join(one, batch(1))
        second = batch(2)
        assert cohort.grow(second)
        assert not cohort.join(late, second)
        cohort.hand_on()
        third = batch(3)
        assert not cohort.grow(third)
        assert cohort.join(late, third)
        cohort.hand_on()
        assert (one.got, late.got) == ([1, 2], [3])

    asyncio.run(story())


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 4), st.sampled_from([10, 5_000, MOST_BYTES + 1]), st.booleans(), st.booleans()),
        max_size=30,
    )
)
def test_every_delta_comes_once_and_in_order_and_no_run_is_longer_than_a_frame(
    steps: list[tuple[int, int, bool, bool]],
) -> None:
    """Two that follow, of whom one sometimes does not join: by the cohort or by itself each gets every number."""

    async def story() -> None:
        cohort, members, number = Cohort(PERIOD), [Waiter(), Waiter()], 1
        for count, size, both, handed in steps:
            each = batch(number, count, size)
            number += count
            left = [member for member in members if member not in cohort] if cohort.grow(each) else members
            for place, member in enumerate(left):
                if not (both or place == 0) or not cohort.join(member, each):
                    member.got += [event.seq for event in each.events]
            if handed:
                cohort.hand_on()
        cohort.hand_on()
        assert all(member.got == list(range(1, number)) for member in members)

    asyncio.run(story())
