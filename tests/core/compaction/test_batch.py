from __future__ import annotations

import msgspec

from hermes_daemon.core.compaction import batch
from hermes_daemon.core.compaction.context import Change, Context
from hermes_daemon.core.compaction.marker import RESTATED
from hermes_daemon.core.history import check
from hermes_protocol.content import Message, ToolCall
from tests.support.compaction_histories import SMALL, assistant, context, plain, result, session, user


def fold(rows: Context, text: str = "- the shards are read") -> Change:
    planned = batch.plan(rows, SMALL, plain)
    assert planned is not None
    change = batch.fold(rows, SMALL, planned, text, "stop", plain)
    assert isinstance(change, Change)
    rows.apply(change)
    return change


def long_run(rounds: int) -> list[Message]:
    rows = [user("Open the ledger."), assistant("Which one?"), user("Do not touch table audit_log; check all shards.")]
    for number in range(rounds):
        call = ToolCall(f"c{number}", "read_file", "{}")
        rows += [assistant("", call), result(call.call_id, f"line {number} of the file\n" * 30)]
    return rows


def test_head_and_tail_stay_and_the_middle_is_one_marker() -> None:
    messages = session(12)
    rows = context(*messages)
    fold(rows)
    assert rows.messages()[0] == messages[0]
    assert rows.rows[1].kind == "summary"
    assert rows.rows[2].is_user
    assert rows.messages()[2:] == tuple(messages[-len(rows.rows) + 2 :])
    assert check(rows.messages()) == []


def test_user_texts_of_the_middle_are_quoted_newest_first() -> None:
    rows = context(*session(12))
    fold(rows)
    text = rows.rows[1].message.text
    assert text.index("look at shard 5.") < text.index("look at shard 4.") < text.index("look at shard 1.")


def test_a_cut_inside_a_running_turn_tells_its_request_again() -> None:
    rows = context(*long_run(20))
    fold(rows)
    assert [row.kind for row in rows.rows[:3]] == ["said", "summary", "restated"]
    assert rows.rows[2].message.text.startswith(RESTATED)
    assert "Do not touch table audit_log" in rows.rows[2].message.text
    assert rows.messages()[-2:] == tuple(long_run(20)[-2:])
    fold_again = batch.plan(rows, msgspec.structs.replace(SMALL, tail=50), plain)
    assert fold_again is not None
    change = batch.fold(rows, SMALL, fold_again, "- more", "stop", plain)
    assert isinstance(change, Change)
    rows.apply(change)
    assert sum(row.kind == "restated" for row in rows.rows) == 1
    assert rows.rows[2].message.text.count(RESTATED) == 1


def test_a_call_without_a_result_is_not_folded() -> None:
    rows = context(*session(12), user("start the job"), assistant("", ToolCall("job", "run", "{}")))
    fold(rows)
    rows.append(result("job", "finished"))
    assert check(rows.messages()) == []


def test_a_second_pass_carries_the_first_one_on() -> None:
    rows = context(*session(12))
    fold(rows, "- shards 0 to 9 are read")
    for message in session(12, start=12):
        rows.append(message)
    planned = batch.plan(rows, SMALL, plain)
    assert planned is not None
    assert planned.previous == "- shards 0 to 9 are read"
    assert "shards 0 to 9" not in "".join(planned.parts)
    fold(rows, "- shards 0 to 20 are read")
    assert sum(row.kind == "summary" for row in rows.rows) == 1
    assert rows.memory is not None
    assert "Please look at shard 3." in rows.memory.users


def test_a_failed_summary_is_named_and_the_mechanical_one_takes_its_place() -> None:
    rows = context(*session(12))
    planned = batch.plan(rows, SMALL, plain)
    assert planned is not None
    assert batch.fold(rows, SMALL, planned, "I cannot help with that.", "stop", plain) == "refusal"
    change = batch.fold_extract(rows, SMALL, planned, plain)
    assert change is not None
    rows.apply(change)
    assert rows.memory is not None
    assert rows.memory.by == "extract"
    assert "OPS-5103" in rows.rows[1].message.text


def test_parts_are_no_larger_than_the_summarizer_reads() -> None:
    rows = context(*session(200))
    limits = msgspec.structs.replace(SMALL, summary_input=2_000)
    planned = batch.plan(rows, limits, plain)
    assert planned is not None
    assert len(planned.parts) > 5
    assert all(len(part) < 2_000 * 6 for part in planned.parts)


def test_an_ineffective_pass_is_not_repeated_until_the_context_has_grown() -> None:
    rows = context(user("x " * 6_000), *session(4)[1:])
    assert batch.due(rows, SMALL)
    batch.settled(rows, SMALL)
    assert not batch.due(rows, SMALL)
    rows.append(user("y " * 800))
    assert batch.due(rows, SMALL)


def test_a_result_larger_than_the_window_is_cut_where_nothing_else_helps() -> None:
    call = ToolCall("big", "read_file", "{}")
    rows = context(user("read it"), assistant("", call), result("big", "0123456789 " * 5_000))
    assert batch.plan(rows, SMALL, plain) is None
    change = batch.relieve(rows, SMALL)
    assert change is not None
    rows.apply(change)
    assert rows.tokens < SMALL.threshold
    assert "characters left out" in rows.rows[2].message.results[0].text
