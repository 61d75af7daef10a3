"""The laws of a conversation hold after every step, whatever the history and whatever the summarizer says."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_daemon.core.compaction import batch, micro, prune
from hermes_daemon.core.compaction.boundaries import head_end, tail_start
from hermes_daemon.core.compaction.context import Change, Context
from hermes_daemon.core.compaction.limits import Limits
from hermes_daemon.core.history import check
from hermes_protocol.content import Message
from tests.support.compaction_histories import SMALL, context, lawful, plain

ANSWERS = st.sampled_from(("- read /p/1, all is well", "", "I'm sorry, but I can't help with that.", "word " * 4_000))
STEPS = st.sampled_from(("micro", "batch", "prune", "extract", "relieve"))


def is_legal(rows: Context, original: list[Message]) -> None:
    messages = rows.messages()
    assert check(messages) == []
    before = sum(a.role == b.role == "assistant" for a, b in pairwise(original))
    after = sum(a.role == b.role == "assistant" for a, b in pairwise(messages))
    assert after <= before, "compaction put two assistant rows side by side"
    assert messages[0] == original[0]
    assert rows.tokens == sum(row.tokens for row in rows.rows)
    assert sum(row.kind == "summary" for row in rows.rows) <= 1
    assert rows.marker_at == next((i for i, row in enumerate(rows.rows) if row.kind == "summary"), None)


def one_step(rows: Context, step: str, limits: Limits, answer: str) -> None:
    change: object = None
    if step in ("micro", "extract") and isinstance(planned := micro.plan(rows, limits, plain), micro.Plan):
        if step == "micro" or planned.kind == "defrag":
            change = micro.fold(rows, limits, planned, answer, "stop", plain)
        else:
            change = micro.fold_extract(rows, limits, planned, plain)
        if isinstance(change, micro.Failed):
            rows.progress = change.progress
    if step == "batch" and (folding := batch.plan(rows, limits, plain)):
        change = batch.fold(rows, limits, folding, answer, "stop", plain)
        if isinstance(change, str):
            change = batch.fold_extract(rows, limits, folding, plain)
    if step == "prune":
        change = prune.plan(rows, limits)
    if step == "relieve":
        change = batch.relieve(rows, limits)
    if isinstance(change, Change):
        tail = rows.rows[tail_start(rows.rows, limits.tail, head_end(rows.rows)) :]
        rows.apply(change)
        if step not in ("prune", "relieve") and tail:
            assert rows.rows[-len(tail) :] == tail, "the tail is never touched"


@settings(max_examples=300, deadline=None)
@given(lawful(), st.lists(st.tuples(STEPS, ANSWERS), min_size=1, max_size=8), st.booleans())
def test_every_step_leaves_a_lawful_history(history: list[Message], steps: list[tuple[str, str]], gated: bool) -> None:
    limits = Limits(
        window=3_000, threshold=900, tail=60, gate=200 if gated else 0, summary_input=1_500,
        prune_trigger=10, prune_result_chars=200, prune_reclaim=5, prune_keep_rows=2,
    )  # fmt: skip
    rows = context(*history)
    assert check(rows.messages()) == []
    for step, answer in steps:
        one_step(rows, step, limits, answer)
        is_legal(rows, history)


@settings(max_examples=200, deadline=None)
@given(lawful(), st.integers(1, 8))
def test_micro_passes_keep_every_user_row_as_it_is_and_in_order(history: list[Message], passes: int) -> None:
    rows = context(*history)
    for _ in range(passes):
        one_step(rows, "micro", SMALL, "- it went well")
    said = [row.message for row in rows.rows if row.is_user]
    assert said == [message for message in history if message.role == "user"]


@settings(max_examples=200, deadline=None)
@given(lawful())
def test_a_batch_pass_quotes_every_user_text_that_it_folds(history: list[Message]) -> None:
    rows = context(*history)
    limits = Limits(window=30_000, threshold=900, tail=60, gate=0, summary_input=1_500)
    one_step(rows, "batch", limits, "- it went well")
    together = "\n".join(message.text for message in rows.messages())
    assert all(message.text in together for message in history if message.role == "user")


@settings(max_examples=100, deadline=None)
@given(lawful(), st.integers(1, 5))
def test_a_failed_pass_changes_no_row(history: list[Message], passes: int) -> None:
    rows = context(*history)
    before = list(rows.rows)
    for _ in range(passes):
        one_step(rows, "micro", SMALL, "")
    assert rows.rows == before
