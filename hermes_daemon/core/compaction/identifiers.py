"""Exact identifiers out of text (paths, symbols, numbers, ids, addresses), and a bounded index of them.

A summary in prose loses what cannot be invented again: the path, the order number, the commit. These are taken out
mechanically, counted, and the likeliest to be needed again stand beside the summary.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec

from hermes_daemon.core.window import text_tokens

# Addresses, mail, paths, dotted names, hashes, ticket and order numbers, versions and dates, snake and kebab names,
# camel and Pascal names, constants: in this order, so that a path is not read as the words in it.
_IDENTIFIER = re.compile(
    r"https?://[^\s\"'<>)\]}\\]{4,200}"
    r"|[\w.+-]{1,64}@[\w-]{1,64}\.[\w.]{2,64}"
    r"|(?:~|\.{1,2})?/?(?:[\w.@+-]{1,80}/){1,12}[\w.@+-]{1,80}"
    r"|[A-Za-z_]\w{0,60}(?:(?:\.|::|->)[A-Za-z_]\w{0,60}){1,6}"
    r"|\b(?=[a-f]*\d)[0-9a-f]{7,40}\b"
    r"|#\d{2,}|\b[A-Za-z]{0,8}[-_]?\d[\w-]{2,40}\b|\bv?\d[\d.,:-]{2,24}\d\b"
    r"|\b[A-Za-z]\w{0,40}[-_]\w{2,40}(?:-\w{2,40}){0,4}\b"
    r"|\b[a-z]{1,30}(?:[A-Z][a-z0-9]{1,30}){1,6}\b|\b(?:[A-Z][a-z0-9]{1,30}){2,6}\b"
    r"|\b[A-Z][A-Z0-9]{4,20}\b"
)
_PLAIN_HYPHEN = re.compile(r"[a-z]+(?:-[a-z]+)+")  # well-known, follow-up: English
_SHORTEST = 4
_LONGEST = 160
KEPT = 1_500
"""Identifiers remembered; the index that is shown is far smaller."""


class Mention(msgspec.Struct, frozen=True, array_like=True):
    """An identifier, how much it was used (the agent's own mentions count more), and the pass it was last seen in."""

    name: str
    weight: float
    last: int


def identifiers(text: str) -> Iterator[str]:
    """Every identifier in the text, in order, repeated as often as it stands there."""
    for match in _IDENTIFIER.finditer(text):
        name = match[0].strip(".,:;'\"`-")
        if _SHORTEST <= len(name) <= _LONGEST and not _PLAIN_HYPHEN.fullmatch(name):
            yield name


def merged(mentions: Iterable[Mention], texts: Iterable[tuple[str, float]], moment: int) -> tuple[Mention, ...]:
    """The mentions after new texts, each with the weight of one mention in it; the best `KEPT` remain.

    Within one text an identifier counts once and a little more for each repetition, so that a table of a thousand
    equal rows does not outweigh what the agent typed twice.
    """
    found = {mention.name: mention for mention in mentions}
    for text, weight in texts:
        counts: dict[str, int] = {}
        for name in identifiers(text):
            counts[name] = counts.get(name, 0) + 1
        for name, count in counts.items():
            before = found.get(name)
            more = weight * (1 + min(count - 1, 4) * 0.1)
            found[name] = Mention(name, round((before.weight if before else 0.0) + more, 2), moment)
    if len(found) <= KEPT:
        return tuple(found.values())
    best = sorted(found.values(), key=lambda mention: _rank(mention, moment), reverse=True)[:KEPT]
    kept = {mention.name for mention in best}
    return tuple(mention for mention in found.values() if mention.name in kept)


def index(mentions: Iterable[Mention], elsewhere: str, budget: int) -> tuple[str, ...]:
    """The identifiers to show beside a summary: the best that fit into `budget` tokens and that neither `elsewhere`
    (what the model reads anyhow) nor a longer one among them already holds."""
    listed = list(mentions)
    now = max((mention.last for mention in listed), default=0)
    chosen: list[str] = []
    together = elsewhere
    used = 0
    for mention in sorted(listed, key=lambda item: (-_rank(item, now), item.name)):
        if mention.name in together:
            continue
        cost = text_tokens(mention.name) + 1
        if used + cost > budget:
            if budget - used < 4:
                break
            continue
        used += cost
        chosen.append(mention.name)
        together += "\n" + mention.name
    return tuple(chosen)


def _rank(mention: Mention, now: int) -> float:
    """Use counts most; what has not been seen for many passes fades."""
    return mention.weight / (1 + 0.15 * (now - mention.last))
