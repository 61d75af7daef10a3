"""The outbox's droppable class: the first to go, never counted as owed, in order with the rest while there is room."""

import asyncio
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hermes_daemon.server.outbox import Outbox


def with_outbox(work: Callable[[Outbox, list[bytes]], Any], **limits: int) -> Any:
    async def story() -> Any:
        written: list[bytes] = []
        outbox = Outbox(written.append, **{"soft": 100, "hard": 1000, **limits})
        return work(outbox, written)

    return asyncio.run(story())


def test_with_room_it_is_sent_in_its_place() -> None:
    def work(outbox: Outbox, written: list[bytes]) -> None:
        outbox.put(b'"one"')
        outbox.put_droppable(b'"two"')
        outbox.put(b'"three"')
        outbox.flush()
        assert b"".join(written) == b'"one"\n"two"\n"three"\n'
        assert (outbox.dropped, outbox.bytes, outbox.owed) == (0, 0, 0)

    with_outbox(work)


def test_above_the_soft_limit_it_is_dropped_with_what_of_its_kind_still_waits() -> None:
    def work(outbox: Outbox, written: list[bytes]) -> None:
        outbox.pause()
        outbox.put_droppable(b"a" * 30)
        outbox.put(b"kept" * 20)
        outbox.put_droppable(b"b" * 30)
        assert outbox.dropped == 2
        assert outbox.bytes == outbox.owed == 81
        outbox.resume()
        outbox.flush()
        assert b"".join(written) == b"kept" * 20 + b"\n"

    with_outbox(work)


def test_it_does_not_count_as_owed() -> None:
    def work(outbox: Outbox, written: list[bytes]) -> None:
        outbox.pause()
        outbox.put_droppable(b"x" * 50)
        assert outbox.bytes == 51
        assert outbox.owed == 0

    with_outbox(work)


@given(st.lists(st.tuples(st.sampled_from(["put", "drop", "flush"]), st.integers(1, 60)), max_size=40))
def test_answers_all_arrive_in_order_whatever_is_dropped_and_the_count_is_right(steps: list[tuple[str, int]]) -> None:
    def work(outbox: Outbox, written: list[bytes]) -> None:
        answers, droppable = [], 0
        outbox.pause()
        for number, (step, size) in enumerate(steps):
            if step == "flush":
                outbox.resume()
                outbox.flush()
                outbox.pause()
            elif step == "put":
                answers.append(b"answer %d %b" % (number, b"x" * size))
                outbox.put(answers[-1])
            else:
                droppable += 1
                outbox.put_droppable(b"loose %d %b" % (number, b"x" * size))
        outbox.resume()
        outbox.flush()
        lines = b"".join(written).splitlines()
        assert [line for line in lines if line.startswith(b"answer")] == answers
        assert len([line for line in lines if line.startswith(b"loose")]) == droppable - outbox.dropped
        assert (outbox.bytes, outbox.owed) == (0, 0)

    with_outbox(work)
