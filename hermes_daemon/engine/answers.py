"""What an answer to a question must look like, by the question's kind. Values in, values out; nothing is changed here.

An answer that does not fit raises invalid_params with the path of what is wrong, and the question stays open.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from hermes_daemon.core.json_schema import fit
from hermes_daemon.core.ports import Rejected
from hermes_protocol.content import By
from hermes_protocol.errors import ProtocolError
from hermes_protocol.events import ClarifyAnswer, Outcome, Question, QuestionStatus, RequestOpened
from hermes_protocol.methods import Answer

ALLOWING: Final[frozenset[str]] = frozenset({"allow_once", "allow_session", "allow_always"})
OF_CLIENTS: Final[frozenset[str]] = frozenset({"clientTool", "clientMiddleware"})
"""Kinds that a program answers, on the one connection that offered to."""
FORM_TYPES: Final = ("string", "number", "integer", "boolean")


class Resolution(msgspec.Struct, frozen=True):
    """How a question ended. Only an outcome of ALLOWING allows anything. What people gave is set by kind: `feedback`,
    `answers`, `value` (a secret: for the waiting tool alone), `values`, `result` or `error`."""

    outcome: Outcome
    by: By | None = None
    feedback: str | None = None
    answers: tuple[QuestionStatus, ...] = ()
    value: str | None = None
    values: dict[str, Any] | None = None
    result: Any = None
    error: str | None = None


def resolution_of(row: RequestOpened, answer: Answer, by: By) -> Resolution:
    """The end that an answer means, for every kind that is answered at once (clarify is not)."""
    match row.kind:
        case "permission":
            return _permission(row, answer, by)
        case "secret":
            if answer.value is None:
                raise _wrong("$.answer.value", "expected the value as a text")
            return Resolution("answered", by, value=answer.value)
        case "form":
            return Resolution("answered", by, values=_form(row.form_schema or {}, answer))
    if (answer.result is msgspec.UNSET) == (answer.error is None):
        raise _wrong("$.answer", "expected either result or error")
    result = None if answer.result is msgspec.UNSET else answer.result
    return Resolution("answered", by, result=result, error=answer.error)


def prompt_of(row: RequestOpened) -> str:
    """A question in words, for those who only look on."""
    if row.tool_call is not None:
        return f"{row.tool_call.title}: {row.reason}" if row.reason else row.tool_call.title
    return row.prompt or "\n".join(question.text for question in row.questions)


def clarified(
    row: RequestOpened, known: Mapping[str, QuestionStatus], answer: Answer, by: By
) -> tuple[dict[str, QuestionStatus], tuple[str, ...]]:
    """(what this answer adds, the ids it names that were answered before). The first answer to a question counts."""
    if not answer.answers:
        raise _wrong("$.answer.answers", "expected answers by question id")
    questions = {question.id: question for question in row.questions}
    fresh: dict[str, QuestionStatus] = {}
    late: list[str] = []
    for question_id, given in answer.answers.items():
        path = f"$.answer.answers.{question_id}"
        if question_id not in questions:
            raise _wrong(path, f"no such question; there are {', '.join(questions)}")
        _expect_fit(questions[question_id], given, path)
        if known[question_id].status != "open":
            late.append(question_id)
            continue
        fresh[question_id] = QuestionStatus(question_id, "skipped" if given.skip else "answered", given, by)
    return fresh, tuple(late)


def flat_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a form, when it is one that every client can draw. Rejected names the property that is not."""
    properties = schema.get("properties")
    if schema.get("type") != "object" or not isinstance(properties, dict) or not properties:
        raise Rejected("expected a schema of type object with properties", "$.schema")
    for name, field in properties.items():
        path = f"$.schema.properties.{name}"
        if not isinstance(field, dict):
            raise Rejected("expected a schema", path)
        kind = field.get("type", "string" if "enum" in field else None)
        items = field.get("items")
        words = kind == "array" and isinstance(items, dict) and ("enum" in items or items.get("type") == "string")
        if kind not in FORM_TYPES and not words:
            raise Rejected(f"expected type {', '.join(FORM_TYPES)}, or an array of words; got {kind!r}", path)
    return schema


def _permission(row: RequestOpened, answer: Answer, by: By) -> Resolution:
    for option in row.options:
        if option.id == answer.option_id:
            return Resolution(option.kind, by, answer.feedback)
    known = ", ".join(option.id for option in row.options)
    raise _wrong("$.answer.optionId", f"expected one of {known}, got {answer.option_id!r}")


def _form(schema: dict[str, Any], answer: Answer) -> dict[str, Any]:
    if answer.values is None:
        raise _wrong("$.answer.values", "expected an object with the fields of the form")
    fields = schema.get("properties", {})
    for name in answer.values:
        if name not in fields:
            raise _wrong(f"$.answer.values.{name}", f"no such field; there are {', '.join(fields)}")
    try:
        values: dict[str, Any] = fit(answer.values, schema)
    except Rejected as rejected:
        raise _wrong(f"$.answer.values{rejected.path.removeprefix('$')}", rejected.message) from rejected
    return values


def _expect_fit(question: Question, given: ClarifyAnswer, path: str) -> None:
    parts = [name for name in ("choice", "choices", "text") if getattr(given, name) is not None]
    if len(parts) + given.skip != 1:
        said = ", ".join([*parts, *(["skip"] if given.skip else [])]) or "nothing"
        raise _wrong(path, f"expected exactly one of choice, choices, text and skip, got {said}")
    if given.choices is not None and not question.multi:
        raise _wrong(f"{path}.choices", "this question takes one choice: expected choice")
    if given.choices is not None and not given.choices:
        raise _wrong(f"{path}.choices", "expected at least one choice, or skip")
    for choice in given.choices if given.choices is not None else (given.choice,):
        if choice is not None and choice not in question.choices:
            where = f"{path}.{'choice' if given.choices is None else 'choices'}"
            known = ", ".join(repr(one) for one in question.choices) or "none"
            raise _wrong(where, f"no such choice: {choice!r}; there are {known}")
    if given.text is not None and not question.free_text:
        raise _wrong(f"{path}.text", "this question takes one of its choices only")
    if given.text is not None and not given.text.strip():
        raise _wrong(f"{path}.text", "expected some words, or skip")


def _wrong(path: str, words: str) -> ProtocolError:
    return ProtocolError("invalid_params", f"{path}: {words}", path=path)
