from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hermes_daemon.core.compaction.boundaries import exchanges, head_end, open_round, tail_start
from hermes_daemon.core.compaction.rows import said
from hermes_protocol.content import Message, TextPart, ToolCall
from tests.support.compaction_histories import assistant, lawful, result, session, user


def test_the_head_is_the_system_prompt_and_the_first_user_rows() -> None:
    rows = [
        said(Message("system", (TextPart("be good"),))),
        *map(said, (user("a"), user("b"), assistant("c"), user("d"))),
    ]
    assert head_end(rows) == 3
    assert head_end(rows, 4) == 5
    assert head_end([said(assistant("alone"))]) == 0


@given(lawful(), st.integers(1, 400))
def test_the_tail_holds_its_budget_and_begins_with_no_result(history: list[Message], budget: int) -> None:
    rows = [said(message) for message in history]
    start = tail_start(rows, budget, 0)
    assert start == 0 or sum(row.tokens for row in rows[start:]) >= budget
    assert start == len(rows) or rows[start].message.role != "tool"


@given(lawful())
def test_exchanges_lie_between_user_rows_and_hold_whole_rounds(history: list[Message]) -> None:
    rows = [said(message) for message in history]
    for first, last in exchanges(rows, 0, len(rows)):
        assert all(row.message.role in ("assistant", "tool") for row in rows[first:last])
        assert rows[last].message.role == "user"
        assert first == 0 or rows[first - 1].message.role == "user"


def test_a_round_with_an_open_call_is_found() -> None:
    calls = ToolCall("a", "ls", "{}"), ToolCall("b", "ls", "{}")
    rows = [said(message) for message in (*session(1), user("go"), assistant("", *calls), result("a", "x"))]
    assert open_round(rows, 0) == 5
    assert open_round([*rows, said(result("b", "y"))], 0) == 8
