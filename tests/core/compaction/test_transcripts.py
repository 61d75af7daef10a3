"""Recorded sessions, folded as they grow: the laws hold after every change, without a model."""

from __future__ import annotations

from hermes_daemon.core.compaction import batch, micro
from hermes_daemon.core.compaction.context import Change, Context
from hermes_daemon.core.compaction.limits import limits
from hermes_daemon.core.history import check, repair
from hermes_daemon.core.redact import redact
from hermes_daemon.core.settings import CompressionSettings
from tests.bench.compaction_adapter import to_message
from tests.support.compaction_histories import transcripts


def test_recorded_sessions_stay_lawful_small_and_keep_the_words_of_the_user() -> None:
    ours = limits(CompressionSettings(), 32_000)
    sessions = changes = 0
    for name, family, messages in transcripts(least_tokens=15_000):
        if family.startswith("long-"):
            continue
        history, _ = repair([to_message(message) for message in messages])
        rows = Context()
        for at, message in enumerate(history):
            if message.role == "user" and at and isinstance(planned := micro.plan(rows, ours, redact), micro.Plan):
                outcome = micro.fold_extract(rows, ours, planned, redact)
                if isinstance(outcome, Change):
                    rows.apply(outcome)
                    changes += 1
                    assert check(rows.messages()) == [], name
            if message.role == "assistant" and batch.due(rows, ours):
                folding = batch.plan(rows, ours, redact)
                change = folding and batch.fold_extract(rows, ours, folding, redact)
                if change:
                    rows.apply(change)
                    changes += 1
                    assert check(rows.messages()) == [], name
                batch.settled(rows, ours)
                assert rows.tokens < ours.threshold, name
            rows.append(message, at)
        kept = sum(row.is_user for row in rows.rows)
        memory = rows.memory
        quoted = len(memory.users) + memory.users_left_out if memory else 0
        said = sum(message.role == "user" and bool(message.text.strip()) for message in history)
        assert kept + quoted == said, name
        sessions += 1
    assert sessions > 10
    assert changes > 20
