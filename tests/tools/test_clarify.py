"""The clarify tool: what it asks, and what the model reads of the answers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hermes_daemon.core.arguments import parse_arguments
from hermes_daemon.core.ports import Answered, Rejected
from hermes_daemon.tools.clarify import clarify_tool
from hermes_protocol.content import By
from hermes_protocol.events import ClarifyAnswer, Question, QuestionStatus
from tests.support.tool_context import Context

ANN = By("a", "Ann")
THREE = [
    {"question": "Which database?", "choices": ["SQLite", "Postgres"]},
    {"question": "Which parts?", "choices": ["api", "web", "docs"], "multi": True},
    {"question": "What name?"},
]


def ask(context: Context, questions: list[dict[str, Any]], answer: Answered) -> tuple[str, bool]:
    context.answer = answer
    outcome = asyncio.run(clarify_tool().run({"questions": questions}, context))
    return outcome.text, outcome.is_error


def test_every_question_is_asked_with_an_id_of_its_own_and_its_choices(tmp_path: Path) -> None:
    context = Context(tmp_path)
    ask(context, THREE, Answered("policy"))
    (request,) = context.asked
    assert request.kind == "clarify"
    assert request.questions == (
        Question("q1", "Which database?", ("SQLite", "Postgres")),
        Question("q2", "Which parts?", ("api", "web", "docs"), multi=True),
        Question("q3", "What name?"),
    )


def test_the_model_reads_what_was_said_to_each_question(tmp_path: Path) -> None:
    answers = (
        QuestionStatus("q1", "answered", ClarifyAnswer(choice="SQLite"), ANN),
        QuestionStatus("q2", "answered", ClarifyAnswer(choices=("api", "docs")), ANN),
        QuestionStatus("q3", "skipped", ClarifyAnswer(skip=True), ANN),
    )
    text, is_error = ask(Context(tmp_path), THREE, Answered("answered", answers))
    assert text.splitlines() == [
        "1. Which database?",
        "   answered: SQLite",
        "2. Which parts?",
        "   answered: api; docs",
        "3. What name?",
        "   skipped by the user",
    ]
    assert not is_error


def test_after_a_time_out_the_answers_that_came_are_kept(tmp_path: Path) -> None:
    answers = (
        QuestionStatus("q1", "answered", ClarifyAnswer(text=" MySQL "), ANN),
        QuestionStatus("q2", "timed_out"),
        QuestionStatus("q3", "timed_out"),
    )
    text, is_error = ask(Context(tmp_path), THREE, Answered("timeout", answers))
    assert "answered: MySQL" in text
    assert text.count("not answered in time") == 2
    assert "The time for answers is over" in text
    assert not is_error


@pytest.mark.parametrize("outcome", ["policy", "timeout", "declined"])
def test_no_answer_at_all_is_a_failed_call_that_says_how_to_go_on(tmp_path: Path, outcome: Any) -> None:
    text, is_error = ask(Context(tmp_path), THREE[2:], Answered(outcome, (QuestionStatus("q1"),)))
    assert is_error
    assert "say which assumptions you made" in text


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ('{"questions": []}', "$.questions"),
        ('{"questions": [{"choices": ["a"]}]}', "$.questions[0].question"),
        ('{"questions": [{"question": ""}]}', "$.questions[0].question"),
        ('{"questions": [{"question": "a", "options": ["b"]}]}', "$.questions[0].options"),
        ('{"questions": [' + ",".join(['{"question": "a"}'] * 6) + "]}", "$.questions"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_with_their_path(arguments: str, path: str) -> None:
    with pytest.raises(Rejected) as caught:
        parse_arguments(arguments, clarify_tool().card, cut=False)
    assert caught.value.path == path


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ({"question": "a", "choices": ["b", "b"]}, "the same choice"),
        ({"question": "a", "multi": True}, "only where there are choices"),
    ],
)
def test_questions_without_sense_are_not_asked(tmp_path: Path, question: dict[str, Any], words: str) -> None:
    context = Context(tmp_path)
    text, is_error = ask(context, [question], Answered("policy"))
    assert words in text
    assert is_error
    assert not context.asked


def test_the_title_is_the_first_question() -> None:
    assert clarify_tool().title({"questions": THREE}) == "Ask: Which database? (and 2 more)"
    assert clarify_tool().title({"questions": 5}) == "clarify"
