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
    """The tokens that make up `text`, where a server gave them; () otherwise. There may be more before and after it:
    servers take marks of code and of a turn's end out of the text, and leave them among the tokens."""
    if not isinstance(rows, list):
        return ()
    own = [_row(row) for row in rows]
    written = "".join(each[0] for each in own if each is not None)
    begin = written.find(text)
    if None in own or begin < 0 or not text:
        return ()
    tokens: list[Token] = []
    at = -begin
    for row, each in zip(rows, own, strict=True):
        assert each is not None
        if at + len(each[0]) > 0 and at < len(text):
            alternatives = [_row(other) for other in row.get("top_logprobs") or ()]
            others = dict(other for other in alternatives if other is not None)
            others.setdefault(*each)
            tokens.append(Token(at, each[0], others))
        at += len(each[0])
    return tuple(tokens)


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
            if other == token.text or not other.startswith(text[token.start : begin]):
                continue
            led = _led_to(alive, written, (text[: max(0, token.start)] + other)[begin:])
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
