from __future__ import annotations

import json

from hypothesis import given, settings

from hermes_daemon.core.compaction.extract import NOTE, Extract, extracted, rendered
from hermes_daemon.core.compaction.rows import said
from hermes_daemon.core.window import text_tokens
from hermes_protocol.content import Message, ToolCall
from tests.support.compaction_histories import assistant, lawful, plain, result, session, user


def call(number: int, name: str, **arguments: object) -> ToolCall:
    return ToolCall(f"c{number}", name, json.dumps(arguments))


def take(*messages: Message, before: Extract | None = None) -> Extract:
    return extracted(before or Extract(), [said(message) for message in messages], plain)


def test_a_step_tells_what_was_asked_done_and_reached() -> None:
    text = rendered(
        take(
            user("Fix the parser, and never touch the lexer."),
            assistant("I read it.", call(1, "read_file", path="src/parser.py")),
            result("c1", "def parse(): error = 1"),
            assistant("", call(2, "patch", path="src/parser.py")),
            result("c2", "ok"),
            assistant("", call(3, "terminal", command="pytest tests/test_parser.py")),
            result("c3", "E   ValueError: bad token\n1 failed"),
            assistant("The root cause was a missing token.\nIt works now. Shall I release it?"),
        ),
        2_000,
    )
    assert text.startswith(NOTE)
    assert "asked: Fix the parser, and never touch the lexer." in text
    assert "terminal: pytest tests/test_parser.py" in text
    assert "src/parser.py (written)" in text
    assert "- user: Fix the parser, and never touch the lexer." in text
    assert "- The root cause was a missing token." in text
    assert "## Open questions\n- Shall I release it?" in text
    assert "## Errors met\n- 1 failed" in text


def test_what_a_file_shows_is_not_an_error() -> None:
    shown = take(
        user("look"),
        assistant("", call(1, "read_file", path="a.py"), call(2, "terminal", command="cat b.py")),
        result("c1", "raise an error here"),
        result("c2", "the request failed"),
    )
    assert shown.errors == ()


def test_of_many_deeds_the_weighty_ones_are_kept() -> None:
    calls = [call(number, "read_file", path=f"/a/{number}") for number in range(40)]
    step = take(user("go"), assistant("", call(99, "write_file", path="/a/out"), *calls)).steps[0]
    assert "write_file: /a/out" in step.done
    assert step.done[-1] == "[31 more calls]"


def test_a_question_that_the_next_exchange_answers_is_no_longer_open() -> None:
    asked = take(user("go"), assistant("Shall I delete the old table?"))
    assert asked.open_questions == ("Shall I delete the old table?",)
    assert take(user("yes"), assistant("The table is gone."), before=asked).open_questions == ()


def test_a_models_summary_is_carried_on() -> None:
    text = rendered(take(*session(1), before=Extract(carried="- the schema has two tables")), 2_000)
    assert "## Earlier\n- the schema has two tables" in text


def test_older_steps_become_a_line_and_then_a_count() -> None:
    text = rendered(take(*session(300)), 1_500)
    assert "earlier steps are not listed here" in text
    assert "300. asked: Please look at shard 299." in text
    assert text_tokens(text) < 1_700


@settings(max_examples=80, deadline=None)
@given(lawful())
def test_taking_rows_one_turn_after_the_other_or_at_once_tells_the_same_steps(history: list[Message]) -> None:
    starts = [i for i, m in enumerate(history) if m.role == "user" and (i == 0 or history[i - 1].role != "user")]
    stepwise = Extract()
    for first, last in zip(starts, [*starts[1:], len(history)], strict=True):
        stepwise = take(*history[first:last], before=stepwise)
    assert stepwise.steps == take(*history).steps
