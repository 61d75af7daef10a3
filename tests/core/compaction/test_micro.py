from __future__ import annotations

import msgspec
import pytest

from hermes_daemon.core.compaction import micro
from hermes_daemon.core.compaction.context import Change, Context
from hermes_daemon.core.compaction.limits import Limits
from hermes_daemon.core.compaction.rows import STUB
from hermes_daemon.core.history import check
from tests.support.compaction_histories import SMALL, assistant, context, plain, session, user

GATED = msgspec.structs.replace(SMALL, gate=1_000, tail=300)
SEED = msgspec.structs.replace(SMALL, seed=True, defrag=60)


def absorb(rows: Context, limits: Limits, text: str = "- the shards are read") -> Change:
    planned = micro.plan(rows, limits, plain)
    assert isinstance(planned, micro.Plan)
    change = micro.fold(rows, limits, planned, text, "stop", plain)
    assert isinstance(change, Change)
    rows.apply(change)
    return change


def test_nothing_runs_while_the_session_fits_its_tail() -> None:
    rows = context(*session(3))
    assert micro.plan(rows, msgspec.structs.replace(SMALL, tail=5_000), plain) == "nothing_to_absorb"


def test_without_a_gate_one_exchange_goes_with_each_pass() -> None:
    rows = context(*session(8))
    absorb(rows, SMALL)
    assert [row.kind for row in rows.rows[:3]] == ["said", "summary", "said"]
    assert rows.progress.cursor == 2
    absorb(rows, SMALL)
    assert [row.kind for row in rows.rows[:5]] == ["said", "stub", "said", "summary", "said"]
    assert rows.rows[1].message.text == STUB
    assert check(rows.messages()) == []


def test_a_gated_pass_waits_until_it_is_worth_a_broken_cache_and_then_takes_all() -> None:
    rows = context(*session(5))
    assert micro.plan(rows, GATED, plain) == "below_reclaim"
    for message in session(12, start=5):
        rows.append(message)
    change = absorb(rows, GATED)
    assert change.saved > 1_000
    assert len(change.replacements) > 3
    assert sum(row.kind == "summary" for row in rows.rows) == 1


def test_the_change_names_the_rows_it_replaces_and_carries_user_rows_by_leaving_them_alone() -> None:
    rows = context(*session(8))
    planned = micro.plan(rows, SMALL, plain)
    assert isinstance(planned, micro.Plan)
    assert planned.spans == ((1, 4),)
    change = micro.fold(rows, SMALL, planned, "- read", "stop", plain)
    assert isinstance(change, Change)
    (only,) = change.replacements
    assert [row.row_id for row in rows.rows[only.start : only.end]] == [2, 3, 4]
    assert [row.row_id for row in only.rows] == [None]


def test_an_exchange_that_is_smaller_than_its_stub_stays() -> None:
    chat = [row for number in range(200) for row in (user(f"hello {number}"), assistant("Hi."))]
    assert micro.plan(context(*chat), SMALL, plain) == "nothing_to_absorb"


def test_three_failures_narrow_to_the_first_exchange_and_pass_it_over() -> None:
    rows = context(*session(17))
    counts: list[int] = []
    for _ in range(3):
        planned = micro.plan(rows, GATED, plain)
        assert isinstance(planned, micro.Plan)
        counts.append(len(planned.spans))
        outcome = micro.fold(rows, GATED, planned, "", "stop", plain)
        assert isinstance(outcome, micro.Failed)
        rows.progress = outcome.progress
    assert counts[0] > counts[1] > counts[2] == 1
    assert outcome.skipped
    assert rows.progress.failures == 0
    assert rows.progress.cursor == 4
    assert rows.messages() == tuple(session(17))


def test_a_summary_that_would_make_the_context_larger_is_refused() -> None:
    rows = context(*session(12, size=30))
    planned = micro.plan(rows, SMALL, plain)
    assert isinstance(planned, micro.Plan)
    outcome = micro.fold(rows, SMALL, planned, "- a sentence about much\n" * 20, "stop", plain)
    assert isinstance(outcome, micro.Failed)
    assert outcome.reason == "growth"


def test_a_change_is_refused_by_a_context_that_has_moved_on() -> None:
    rows = context(*session(8))
    planned = micro.plan(rows, SMALL, plain)
    assert isinstance(planned, micro.Plan)
    change = micro.fold(rows, SMALL, planned, "- read", "stop", plain)
    assert isinstance(change, Change)
    rows.append(user("one more"))
    with pytest.raises(ValueError, match="has changed"):
        rows.apply(change)


def test_seed_mode_drops_older_markers_and_knows_no_index() -> None:
    rows = context(*session(8))
    absorb(rows, SEED, "- first")
    absorb(rows, SEED, "- first and second")
    assert [row.kind for row in rows.rows[:4]] == ["said", "said", "summary", "said"]
    assert rows.memory is not None
    assert rows.memory.mentions == ()


def test_defrag_rewrites_the_summary_in_place_and_nothing_else() -> None:
    rows = context(*session(8))
    absorb(rows, SEED, "- a long line of what was done and why\n" * 12)
    before = list(rows.rows)
    planned = micro.plan(rows, SEED, plain)
    assert isinstance(planned, micro.Plan)
    assert planned.kind == "defrag"
    outcome = micro.fold(rows, SEED, planned, "- what was done", "stop", plain)
    assert isinstance(outcome, Change)
    rows.apply(outcome)
    assert [a == b for a, b in zip(before, rows.rows, strict=True)].count(False) == 1
    assert rows.progress.cursor == 2


def test_a_defrag_that_gains_little_waits_until_the_summary_has_grown_by_half() -> None:
    rows = context(*session(8))
    text = "- a long line of what was done and why\n" * 12
    absorb(rows, SEED, text)
    planned = micro.plan(rows, SEED, plain)
    assert isinstance(planned, micro.Plan)
    outcome = micro.fold(rows, SEED, planned, text[:-40], "stop", plain)
    assert isinstance(outcome, Change)
    rows.apply(outcome)
    assert isinstance(again := micro.plan(rows, SEED, plain), micro.Plan)
    assert again.kind == "absorb"


def test_a_defrag_that_fails_does_not_block_the_passes_after_it() -> None:
    rows = context(*session(8))
    absorb(rows, SEED, "- a long line of what was done and why\n" * 12)
    planned = micro.plan(rows, SEED, plain)
    assert isinstance(planned, micro.Plan)
    outcome = micro.fold(rows, SEED, planned, "", "stop", plain)
    assert isinstance(outcome, micro.Failed)
    rows.progress = outcome.progress
    assert isinstance(again := micro.plan(rows, SEED, plain), micro.Plan)
    assert again.kind == "absorb"


def test_the_cadence_counts_turns_and_not_passes() -> None:
    limits = msgspec.structs.replace(SMALL, every_n_turns=3)
    progress, seen = Context().progress, []
    for _ in range(7):
        progress, due = micro.turn_finished(progress, limits)
        seen.append(due)
    assert seen == [False, False, True, False, False, True, False]


def test_a_resumed_context_goes_on_where_it_stood() -> None:
    rows = context(*session(10))
    absorb(rows, SMALL)
    again = Context(rows.rows, rows.memory, rows.progress)
    first, second = micro.plan(rows, SMALL, plain), micro.plan(again, SMALL, plain)
    assert first == second
    assert again.marker_at == rows.marker_at


def test_a_thousand_exchanges_touch_no_more_rows_each_than_the_first() -> None:
    """Linear time, told by counting: how many rows a planner reads does not depend on the length of the session."""

    class Counting(list):  # type: ignore[type-arg]
        reads = 0

        def __getitem__(self, key):  # type: ignore[no-untyped-def]
            Counting.reads += 1 if isinstance(key, int) else len(range(*key.indices(len(self))))
            return super().__getitem__(key)

    def reads(turns: int) -> int:
        rows = context(*session(turns))
        for _ in range(3):
            absorb(rows, SMALL, "- ok")
        rows.rows = Counting(rows.rows)
        Counting.reads = 0
        absorb(rows, SMALL, "- ok")
        return Counting.reads

    assert reads(1_000) <= reads(50) + 5
