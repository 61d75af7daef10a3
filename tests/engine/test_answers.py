"""What an answer must look like, kind by kind: the path of what is wrong, and nothing taken."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hermes_daemon.core.ports import Rejected
from hermes_daemon.engine.answers import clarified, flat_schema, resolution_of
from hermes_protocol.content import By
from hermes_protocol.errors import ProtocolError
from hermes_protocol.events import Question, QuestionStatus, RequestOpened
from hermes_protocol.methods import Answer

ANN = By("a", "Ann")
QUESTIONS = (
    Question("db", "Which?", ("SQLite", "Postgres"), free_text=False),
    Question("parts", "Which parts?", ("api", "web"), multi=True),
    Question("name", "What name?"),
)
FORM = {
    "type": "object",
    "properties": {"port": {"type": "integer", "minimum": 1}, "host": {"type": "string"}},
    "required": ["port"],
}
ROWS = {
    "secret": RequestOpened("r", "s", "secret", prompt="Key?", name="key"),
    "form": RequestOpened("r", "s", "form", form_schema=FORM),
    "clientTool": RequestOpened("r", "s", "clientTool", connection_id="c"),
    "clarify": RequestOpened("r", "s", "clarify", questions=QUESTIONS),
}


def answer(given: dict[str, Any]) -> Answer:
    return msgspec.convert(given, Answer)


def open_ones() -> dict[str, QuestionStatus]:
    return {question.id: QuestionStatus(question.id) for question in QUESTIONS}


@pytest.mark.parametrize(
    ("kind", "given", "path"),
    [
        ("secret", {}, "$.answer.value"),
        ("secret", {"values": {"a": 1}}, "$.answer.value"),
        ("form", {}, "$.answer.values"),
        ("form", {"values": {}}, "$.answer.values.port"),
        ("form", {"values": {"port": "eighty"}}, "$.answer.values.port"),
        ("form", {"values": {"port": 0}}, "$.answer.values.port"),
        ("form", {"values": {"port": 1, "prot": 2}}, "$.answer.values.prot"),
        ("clientTool", {}, "$.answer"),
        ("clientTool", {"value": "x"}, "$.answer"),
        ("clientTool", {"result": 1, "error": "no"}, "$.answer"),
    ],
)
def test_what_does_not_fit_is_named_by_its_path(kind: str, given: dict[str, Any], path: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        resolution_of(ROWS[kind], answer(given), ANN)
    assert (caught.value.kind, caught.value.data["path"]) == ("invalid_params", path)
    assert caught.value.message.startswith(f"{path}: ")


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({}, "$.answer.answers"),
        ({"answers": {}}, "$.answer.answers"),
        ({"answers": {"none": {"text": "x"}}}, "$.answer.answers.none"),
        ({"answers": {"db": {}}}, "$.answer.answers.db"),
        ({"answers": {"db": {"choice": "SQLite", "skip": True}}}, "$.answer.answers.db"),
        ({"answers": {"db": {"choice": "Oracle"}}}, "$.answer.answers.db.choice"),
        ({"answers": {"db": {"text": "my own"}}}, "$.answer.answers.db.text"),
        ({"answers": {"db": {"choices": ["SQLite"]}}}, "$.answer.answers.db.choices"),
        ({"answers": {"parts": {"choices": []}}}, "$.answer.answers.parts.choices"),
        ({"answers": {"parts": {"choices": ["api", "x"]}}}, "$.answer.answers.parts.choices"),
        ({"answers": {"name": {"text": "  "}}}, "$.answer.answers.name.text"),
        ({"answers": {"name": {"choice": "a"}}}, "$.answer.answers.name.choice"),
        ({"answers": {"name": {"text": "fine"}, "db": {"choice": "Oracle"}}}, "$.answer.answers.db.choice"),
    ],
)
def test_an_answer_to_one_question_that_does_not_fit_takes_none(given: dict[str, Any], path: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        clarified(ROWS["clarify"], open_ones(), answer(given), ANN)
    assert (caught.value.kind, caught.value.data["path"]) == ("invalid_params", path)


def test_the_first_answer_to_a_question_counts_and_later_ones_are_named() -> None:
    known = open_ones() | {"db": QuestionStatus("db", "answered", None, By("b"))}
    given = answer({"answers": {"db": {"choice": "SQLite"}, "name": {"text": "x"}, "parts": {"skip": True}}})
    fresh, late = clarified(ROWS["clarify"], known, given, ANN)
    assert late == ("db",)
    assert {name: (one.status, one.by) for name, one in fresh.items()} == {
        "name": ("answered", ANN),
        "parts": ("skipped", ANN),
    }


def test_what_fits_is_taken_as_it_is() -> None:
    assert resolution_of(ROWS["secret"], answer({"value": ""}), ANN).value == ""
    assert resolution_of(ROWS["form"], answer({"values": {"port": 80}}), ANN).values == {"port": 80}
    null = resolution_of(ROWS["clientTool"], answer({"result": None}), ANN)
    assert (null.outcome, null.result, null.error) == ("answered", None, None)
    assert resolution_of(ROWS["clientTool"], answer({"error": "no"}), ANN).error == "no"


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ({}, "$.schema"),
        ({"type": "object", "properties": {}}, "$.schema"),
        ({"type": "object", "properties": {"a": {"type": "object"}}}, "$.schema.properties.a"),
        (
            {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "object"}}}},
            "$.schema.properties.a",
        ),
        ({"type": "object", "properties": {"a": True}}, "$.schema.properties.a"),
    ],
)
def test_a_form_that_is_not_flat_is_refused(schema: dict[str, Any], path: str) -> None:
    with pytest.raises(Rejected) as caught:
        flat_schema(schema)
    assert caught.value.path == path


def test_a_flat_form_may_hold_words_numbers_truths_choices_and_lists_of_words() -> None:
    fields: dict[str, Any] = {
        "a": {"type": "string"}, "b": {"type": "number"}, "c": {"type": "integer"}, "d": {"type": "boolean"},
        "e": {"enum": ["x", "y"]}, "f": {"type": "array", "items": {"enum": ["x"]}},
    }  # fmt: skip
    schema = {"type": "object", "properties": fields}
    assert flat_schema(schema) is schema
