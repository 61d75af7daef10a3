"""File name patterns: `*.py`, `src/**/test_*.py`, `*.{ts,tsx}`, `[a-c]?.txt`."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache


def matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a relative path matches. Without a slash the pattern is for the file's name, at any depth."""
    whole = "/" in pattern
    expression = _expression(pattern.lstrip("/").removeprefix("./"))

    def matches(path: str) -> bool:
        return expression.fullmatch(path if whole else path.rpartition("/")[2]) is not None

    return matches


_SPECIAL = re.compile(r"[^\w\s-]|-(?=-)")


def _escaped(match: re.Match[str]) -> str:
    return f"\\{match[0]}"


@lru_cache(maxsize=256)
def _expression(pattern: str) -> re.Pattern[str]:
    pieces: list[str] = []
    at, depth = 0, 0
    while at < len(pattern):
        character = pattern[at]
        if pattern.startswith("**/", at):
            pieces.append("(?:.*/)?")
            at += 3
            continue
        if pattern.startswith("**", at):
            pieces.append(".*")
            at += 2
            continue
        if character == "[" and (end := _class_end(pattern, at)):
            inside = pattern[at + 1 : end]
            negated, inside = ("^", inside[1:]) if inside[0] in "!^" else ("", inside)
            pieces.append(f"(?!/)[{negated}{_SPECIAL.sub(_escaped, inside)}]")
            at = end + 1
            continue
        if character == "{" and "}" in pattern[at:]:
            pieces.append("(?:")
            depth += 1
        elif character == "}" and depth:
            pieces.append(")")
            depth -= 1
        elif character == "," and depth:
            pieces.append("|")
        elif character == "\\" and at + 1 < len(pattern):
            at += 1
            pieces.append(re.escape(pattern[at]))
        else:
            pieces.append({"*": "[^/]*", "?": "[^/]"}.get(character, re.escape(character)))
        at += 1
    try:
        return re.compile("".join(pieces) + ")" * depth, re.DOTALL)
    except re.error:
        return re.compile(re.escape(pattern))


def _class_end(pattern: str, at: int) -> int:
    """The index of the bracket that closes a character class, 0 when none does."""
    first = at + 2 if pattern[at + 1 : at + 2] in ("!", "^") else at + 1
    return max(0, pattern.find("]", first + 1))
