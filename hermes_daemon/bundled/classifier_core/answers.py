"""What is answered, and what of a reply can be believed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from .declines import Declined
from .questions import Asked


class Choice(msgspec.Struct, frozen=True, tag="choice"):
    """One option; `probabilities` of each option and `confidence` lie in [0, 1]. `calibrated` is False where they are
    no probabilities of a model, but 1 for what it said and 0 for the rest, or counted words."""

    choice: str
    confidence: float
    probabilities: dict[str, float]
    calibrated: bool = True


class Score(msgspec.Struct, frozen=True, tag="score"):
    """A level between 0 and the highest, weighted by probability; `legend` says what the levels mean."""

    score: float
    confidence: float
    legend: dict[str, str]
    probabilities: dict[str, float]
    calibrated: bool = True


class Noul(msgspec.Struct, frozen=True, tag="noul"):
    """How probable yes is, in [0, 1]."""

    noul: float
    calibrated: bool = True


Answer: TypeAlias = Choice | Score | Noul


def read(questions: Sequence[Asked], answers: Any) -> dict[str, Answer]:
    """The answers of a System One reply, one for each question. Declined as unusable_body for anything else."""
    if not isinstance(answers, Mapping):
        raise Declined("unusable_body", "the reply has no answers")
    return {each.id: _read(each, answers.get(each.id)) for each in questions}


def from_probabilities(question: Asked, weights: Mapping[str, float], *, calibrated: bool) -> Answer:
    """An answer made of a weight for each option; they are brought to a sum of 1, the first of equals wins."""
    total = sum(weights.values())
    shares = {option: (weights.get(option, 0.0) / total if total else 0.0) for option in question.options}
    if question.type == "noul":
        return Noul(shares["yes"], calibrated)
    best = max(question.options, key=lambda option: shares[option])
    if question.type == "choice":
        return Choice(best, shares[best], shares, calibrated)
    level = sum(int(option) * share for option, share in shares.items())
    return Score(level, shares[best], _legend(question), shares, calibrated)


def _read(question: Asked, answer: Any) -> Answer:
    where = f"answer {question.id[:80]!r}"
    if not isinstance(answer, Mapping) or answer.get("type", question.type) != question.type:
        raise Declined("unusable_body", f"{where}: expected one of type {question.type}")
    if question.type == "noul":
        return Noul(_share(where, "noul", answer.get("noul")))
    shares = _shares(where, question, answer.get("probabilities"))
    confidence = _share(where, "confidence", answer.get("confidence", max(shares.values())))
    if question.type == "choice":
        choice = answer.get("choice")
        if choice not in question.options:
            raise Declined("unusable_body", f"{where}: choice: is none of the options")
        return Choice(choice, confidence, shares)
    highest = len(question.options) - 1
    score = _number(answer.get("score"))
    if score is None or not 0 <= score <= highest:
        raise Declined("unusable_body", f"{where}: score: expected a number from 0 to {highest}")
    return Score(score, confidence, _legend(question), shares)


def _shares(where: str, question: Asked, probabilities: Any) -> dict[str, float]:
    if not isinstance(probabilities, Mapping) or not probabilities or set(probabilities) - set(question.options):
        raise Declined("unusable_body", f"{where}: probabilities: expected one for each option")
    given = {option: _share(where, "probabilities", share) for option, share in probabilities.items()}
    return {option: given.get(option, 0.0) for option in question.options}


def _share(where: str, field: str, value: Any) -> float:
    number = _number(value)
    if number is None or not 0 <= number <= 1:
        raise Declined("unusable_body", f"{where}: {field}: expected a number from 0 to 1")
    return number


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _legend(question: Asked) -> dict[str, str]:
    return dict(zip(question.options, question.meanings, strict=True))
