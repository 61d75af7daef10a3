from __future__ import annotations

import msgspec

from hermes_daemon.core.compaction import prune
from hermes_daemon.core.compaction.context import Change
from hermes_protocol.content import ImagePart, Message, TextPart, ToolCall
from tests.support.compaction_histories import SMALL, assistant, context, result, session, user

LIMITS = msgspec.structs.replace(SMALL, prune_trigger=500, prune_result_chars=400, prune_reclaim=200, prune_keep_rows=4)


def test_old_results_become_a_line_that_names_the_call() -> None:
    rows = context(*session(6))
    change = prune.plan(rows, LIMITS)
    assert isinstance(change, Change)
    rows.apply(change)
    line = rows.rows[2].message.results[0].text
    assert line.startswith("[read_file /srv/log/shard-0.log: ")
    assert rows.rows[1].message.calls[0].arguments == session(1)[1].calls[0].arguments
    assert rows.messages()[-4:] == tuple(session(6)[-4:])


def test_a_repeated_result_stands_in_full_once() -> None:
    body = "the same listing of a folder\n" * 10
    history = [user("look"), *session(1)]
    for number in range(2):
        history += [assistant("", ToolCall(f"d{number}", "ls", "{}")), result(f"d{number}", body), assistant("ok")]
    rows = context(*history, *session(4, start=9))
    change = prune.plan(rows, msgspec.structs.replace(LIMITS, prune_result_chars=10_000, prune_reclaim=1))
    assert isinstance(change, Change)
    assert len(change.replacements) == 1
    rows.apply(change)
    assert [row.message.results[0].text == body for row in rows.rows if row.message.results].count(True) == 1


def test_every_reason_to_do_nothing_has_a_name() -> None:
    rows = context(*session(6))
    assert prune.plan(rows, SMALL) == "below_trigger"
    assert prune.plan(rows, msgspec.structs.replace(LIMITS, prune_keep_rows=50)) == "tail_only"
    assert prune.plan(rows, msgspec.structs.replace(LIMITS, prune_result_chars=9_000)) == "nothing_eligible"
    assert prune.plan(rows, msgspec.structs.replace(LIMITS, prune_reclaim=90_000)) == "reclaim_below_minimum"


def test_it_re_arms_only_after_the_context_has_grown() -> None:
    rows = context(*session(9))
    change = prune.plan(rows, LIMITS)
    assert isinstance(change, Change)
    rows.apply(change)
    assert rows.progress.prune_rearm >= rows.tokens + LIMITS.prune_trigger
    for message in session(1, start=9):
        rows.append(message)
    assert prune.plan(rows, LIMITS) == "not_rearmed"


def test_only_the_newest_message_with_images_keeps_them() -> None:
    shown = [Message("user", (TextPart(f"picture {n}"), ImagePart("image/png", "QUJD"))) for n in range(3)]
    rows = context(shown[0], assistant("seen"), shown[1], assistant("seen"), shown[2])
    change = prune.age_images(rows)
    assert change is not None
    rows.apply(change)
    kept = [any(isinstance(part, ImagePart) for part in row.message.parts) for row in rows.rows]
    assert kept == [False, False, False, False, True]
    assert "shown earlier" in rows.messages()[0].text
    assert prune.age_images(rows) is None
