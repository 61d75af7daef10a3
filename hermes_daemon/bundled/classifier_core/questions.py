"""What can be asked: choices, scores and yes-or-no questions, with the limits of the System One wire.

choice: `criteria` maps 1 to 255 options to what they mean (or null). score: `criteria` lists 2 to 10 levels, the lowest
first. noul (yes or no): `criteria` is nothing, or {"true": …, "false": …}.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, cast

import msgspec

from .declines import Declined

MOST_QUESTIONS: Final = 32
MOST_OPTIONS: Final = 255
LEVELS: Final = (2, 10)
Kind: TypeAlias = Literal["choice", "score", "noul"]


class Asked(msgspec.Struct, frozen=True):
    """A question that fits the wire. `options` are the possible answers in order: names, level numbers, or yes and no;
    `meanings` what each of them means, "" for nothing said."""

    id: str
    type: Kind
    instructions: str
    criteria: Any
    options: tuple[str, ...]
    meanings: tuple[str, ...]

    def wire(self) -> dict[str, Any]:
        """As it is sent."""
        return {"type": self.type, "instructions": self.instructions, "criteria": self.criteria}


def checked(questions: Mapping[str, Mapping[str, Any]]) -> tuple[Asked, ...]:
    """The questions in their order. Declined as text_limits, naming the question and the field that does not fit."""
    if not isinstance(questions, Mapping) or not questions:
        raise Declined("text_limits", "expected at least one question, by its id")
    if len(questions) > MOST_QUESTIONS:
        raise Declined("text_limits", f"{len(questions)} questions in one request; at most {MOST_QUESTIONS} are taken")
    return tuple(_checked(id, each) for id, each in questions.items())


def _checked(id: Any, question: Any) -> Asked:
    if not isinstance(id, str) or not id.strip():
        raise Declined("text_limits", f"a question's id: expected text, got {type(id).__name__}")
    where = f"question {id[:80]!r}"
    if not isinstance(question, Mapping):
        raise Declined("text_limits", f"{where}: expected type, instructions and criteria")
    unknown = [str(key) for key in question if key not in ("type", "instructions", "criteria")]
    if unknown:
        raise Declined("text_limits", f"{where}: there is no field {', '.join(sorted(unknown))}")
    instructions = question.get("instructions") or ""
    if not isinstance(instructions, str):
        raise Declined("text_limits", f"{where}: instructions: expected text")
    kind, criteria = question.get("type"), question.get("criteria")
    if kind == "choice":
        options, meanings = _options(where, criteria)
    elif kind == "score":
        options, meanings = _levels(where, criteria)
    elif kind == "noul":
        options, meanings = _sides(where, criteria)
    else:
        raise Declined("text_limits", f"{where}: type: expected choice, score or noul")
    return Asked(id, cast(Kind, kind), instructions, criteria, options, meanings)


def _options(where: str, criteria: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if not isinstance(criteria, Mapping) or not 1 <= len(criteria) <= MOST_OPTIONS:
        raise Declined("text_limits", f"{where}: criteria: expected 1 to {MOST_OPTIONS} options with their meanings")
    for name, meaning in criteria.items():
        if not isinstance(name, str) or not name.strip() or not isinstance(meaning, str | None):
            raise Declined("text_limits", f"{where}: criteria: expected options that are text, with text or null")
    return tuple(criteria), tuple(meaning or "" for meaning in criteria.values())


def _levels(where: str, criteria: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    low, high = LEVELS
    if not isinstance(criteria, Sequence) or isinstance(criteria, str) or not low <= len(criteria) <= high:
        raise Declined("text_limits", f"{where}: criteria: expected {low} to {high} levels, the lowest first")
    if not all(isinstance(level, str) and level.strip() for level in criteria):
        raise Declined("text_limits", f"{where}: criteria: expected levels that are text")
    return tuple(str(number) for number in range(len(criteria))), tuple(criteria)


def _sides(where: str, criteria: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if criteria is None:
        return ("yes", "no"), ("", "")
    fits = isinstance(criteria, Mapping) and set(criteria) == {"true", "false"}
    if not fits or not all(isinstance(side, str) and side.strip() for side in criteria.values()):
        raise Declined("text_limits", f"{where}: criteria: expected null, or true and false with text")
    return ("yes", "no"), (criteria["true"], criteria["false"])
