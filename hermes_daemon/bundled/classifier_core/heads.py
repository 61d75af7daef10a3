"""Heads: classification by labels only, put as questions.

A head is {"labels": [...] or {label: what it means}, "instructions": text}. It has one label. With `cls_threshold`, a
number from 0 to 1, it has all labels that are at least so probable, each of them asked for on its own: such a head
takes as many of the 32 questions of a request as it has labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from .answers import Answer, Choice, Noul
from .declines import Declined
from .questions import MOST_OPTIONS

MOST_HEADS: Final = 32
Labels: TypeAlias = str | tuple[str, ...]


class Head(msgspec.Struct, frozen=True):
    """`threshold` None: one label."""

    id: str
    labels: dict[str, str | None]
    instructions: str
    threshold: float | None


def parsed(heads: Mapping[str, Mapping[str, Any]]) -> tuple[Head, ...]:
    """The heads in their order. Declined as text_limits, naming the head and the field that does not fit."""
    if not isinstance(heads, Mapping) or not heads:
        raise Declined("text_limits", "expected at least one head, by its id")
    if len(heads) > MOST_HEADS:
        raise Declined("text_limits", f"{len(heads)} heads in one request; at most {MOST_HEADS} are taken")
    return tuple(_parsed(id, head) for id, head in heads.items())


def rendered(heads: Sequence[Head]) -> dict[str, dict[str, Any]]:
    """The questions that the heads stand for. Declined when they are more than one request takes."""
    questions: dict[str, dict[str, Any]] = {}
    for head in heads:
        if head.threshold is None:
            questions[head.id] = {"type": "choice", "instructions": head.instructions, "criteria": head.labels}
            continue
        for index, (label, meaning) in enumerate(head.labels.items()):
            said = f"{label} ({meaning})" if meaning else label
            words = f"{head.instructions}\nDoes this label apply: {said}?".strip()
            questions[_part(head, index)] = {"type": "noul", "instructions": words, "criteria": None}
    if len(questions) > MOST_HEADS:
        raise Declined("text_limits", f"the heads make {len(questions)} questions; at most {MOST_HEADS} are taken")
    return questions


def labels_of(heads: Sequence[Head], answers: Mapping[str, Answer]) -> dict[str, Labels]:
    """The labels that the answers give."""
    found: dict[str, Labels] = {}
    for head in heads:
        if head.threshold is None:
            answer = answers[head.id]
            assert isinstance(answer, Choice)
            found[head.id] = answer.choice
            continue
        reached = []
        for index, label in enumerate(head.labels):
            part = answers[_part(head, index)]
            assert isinstance(part, Noul)
            if part.noul >= head.threshold:
                reached.append(label)
        found[head.id] = tuple(reached)
    return found


def _part(head: Head, index: int) -> str:
    return f"{head.id}#{index}"


def _parsed(id: Any, head: Any) -> Head:
    where = f"head {str(id)[:80]!r}"
    if not isinstance(id, str) or not id.strip() or "#" in id:
        raise Declined("text_limits", f"{where}: expected an id that is text without #")
    if not isinstance(head, Mapping):
        raise Declined("text_limits", f"{where}: expected labels, instructions and cls_threshold")
    unknown = [str(key) for key in head if key not in ("labels", "instructions", "cls_threshold")]
    if unknown:
        raise Declined("text_limits", f"{where}: there is no field {', '.join(sorted(unknown))}")
    labels = head.get("labels")
    if isinstance(labels, Sequence) and not isinstance(labels, str):
        labels = dict.fromkeys(labels)
    if not isinstance(labels, Mapping) or not 1 <= len(labels) <= MOST_OPTIONS:
        raise Declined("text_limits", f"{where}: labels: expected 1 to {MOST_OPTIONS} of them")
    fits = all(isinstance(key, str) and key.strip() and isinstance(each, str | None) for key, each in labels.items())
    instructions = head.get("instructions") or ""
    if not fits or not isinstance(instructions, str):
        raise Declined("text_limits", f"{where}: expected labels and instructions that are text")
    threshold = head.get("cls_threshold")
    if threshold is not None and (
        isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 0 <= threshold <= 1
    ):
        raise Declined("text_limits", f"{where}: cls_threshold: expected a number from 0 to 1")
    return Head(id, dict(labels), instructions, threshold)
