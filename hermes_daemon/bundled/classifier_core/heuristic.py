"""A backend without a model: it counts words that the state shares with the options. For tests and offline work."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from .answers import Answer, from_probabilities
from .backends import Health, Send
from .questions import Asked

_WORD = re.compile(r"\w{3,}")


class Heuristic:
    """The same answer for the same question, always; `calibrated` is False. An option weighs one, and one more for
    each different word of it (of its name, and of what it means) that is in the state."""

    name = "heuristic"
    tails: tuple[str, ...] = ()
    needs_endpoint = False
    needs_model = False

    async def ask(self, send: Send, model: str, state: Any, questions: Sequence[Asked]) -> dict[str, Answer]:
        """Nothing is sent."""
        text = state if isinstance(state, str) else msgspec.json.encode(state).decode()
        said = _words(text)
        return {each.id: from_probabilities(each, _weights(each, said), calibrated=False) for each in questions}

    async def health(self, send: Send, model: str) -> Health:
        """Always there."""
        return Health(True, self.name)


def _weights(question: Asked, said: frozenset[str]) -> dict[str, float]:
    weights = {}
    for option, meaning in zip(question.options, question.meanings, strict=True):
        words = _words(meaning if question.type != "choice" else f"{option} {meaning}")
        weights[option] = 1.0 + len(words & said)
    if question.type == "noul" and not any(question.meanings):
        weights["yes"] += len(_words(question.instructions) & said)
    return weights


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.casefold().replace("_", " ")))
