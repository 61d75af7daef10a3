"""The rule that tells a client whether it missed something."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from hermes_client.cursor import advance
from hermes_protocol.methods import Cursor
from tests.support.client_journal import Journal


def journal_of(count: int) -> Journal:
    journal = Journal()
    for n in range(count):
        journal.update(title=str(n))
    return journal


@given(st.sets(st.integers(1, 30), min_size=1))
def test_a_thinned_stream_with_rechained_prev_is_followed_to_its_end(delivered: set[int]) -> None:
    journal = journal_of(30)
    cursor, last = Cursor("e1", 0), 0
    for seq in sorted(delivered):
        event = msgspec.structs.replace(journal.events[seq - 1], prev=last)
        following = advance(cursor, event)
        assert following == Cursor("e1", seq)
        cursor, last = following, seq


@given(st.integers(2, 30))
def test_a_missing_event_is_noticed_at_the_next_one(missing: int) -> None:
    journal = journal_of(30)
    cursor: Cursor | None = Cursor("e1", 0)
    for event in journal.events:
        if event.seq == missing:
            continue
        assert cursor is not None
        cursor = advance(cursor, event)
        if event.seq == missing + 1:
            assert cursor is None
            return
        assert cursor is not None


def test_another_epoch_does_not_follow() -> None:
    event = journal_of(1).events[0]
    assert advance(Cursor("e0", 0), event) is None
