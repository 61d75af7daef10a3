"""Probabilities of the options, from the alternatives that a model had at each token of its answer."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from .questions import Asked


class Token(msgspec.Struct, frozen=True):
    """A token of the answer at `start`, and the texts that stood in its place with their probabilities, its own
    among them."""

    start: int
    text: str
    others: dict[str, float]

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def tokens_of(rows: Any, text: str) -> tuple[Token, ...]:
    """The tokens, where a server gave them and they make up `text`; () otherwise."""
    if not isinstance(rows, list) or not rows:
        return ()
    tokens: list[Token] = []
    at = 0
    for row in rows:
        own = _row(row)
        if own is None:
            return ()
        alternatives = [_row(other) for other in row.get("top_logprobs") or ()]
        others = dict(each for each in alternatives if each is not None)
        others.setdefault(*own)
        if not text.startswith(own[0], at):
            # A closing token without text of its own, such as an end-of-turn mark, ends what can be compared.
            break
        tokens.append(Token(at, own[0], others))
        at += len(own[0])
    return tuple(tokens) if at == len(text) else ()


def option_shares(tokens: Sequence[Token], text: str, question: Asked) -> dict[str, float] | None:
    """The share of each option at the place where the question is answered, None where it cannot be told.

    Followed token by token along what the model wrote: an alternative that leads to other options gives them its
    probability, evenly where it leaves several open. What leads to no option counts for none.
    """
    place = re.search(re.escape(msgspec.json.encode(question.id).decode()) + r"\s*:\s*", text)
    if place is None:
        return None
    begin = place.end()
    written = {option: _written(option, question) for option in question.options}
    alive = set(question.options)
    shares = dict.fromkeys(question.options, 0.0)
    path = 1.0
    for token in (each for each in tokens if each.end > begin):
        for other, share in token.others.items():
            if other == token.text:
                continue
            led = _led_to(alive, written, (text[: token.start] + other)[begin:])
            for option in led:
                shares[option] += path * share / len(led)
        alive = _led_to(alive, written, text[begin : token.end])
        path *= token.others[token.text]
        if len(alive) <= 1:
            break
    for option in alive:
        shares[option] += path / len(alive)
    return shares if sum(shares.values()) > 0 else None


def _led_to(alive: set[str], written: dict[str, str], so_far: str) -> set[str]:
    """The options that can still follow from what is written."""
    if not so_far:
        return set()
    return {option for option in alive if written[option].startswith(so_far) or so_far.startswith(written[option])}


def _written(option: str, question: Asked) -> str:
    """An option in JSON, closing quote included, so that none is the beginning of another. Levels have one digit."""
    return option if question.type == "score" else msgspec.json.encode(option).decode()


def _row(row: Any) -> tuple[str, float] | None:
    if not isinstance(row, dict):
        return None
    word, logprob = row.get("token"), row.get("logprob")
    if not isinstance(word, str) or isinstance(logprob, bool) or not isinstance(logprob, int | float):
        return None
    return word, math.exp(min(float(logprob), 0.0)) if not math.isnan(logprob) else 0.0
