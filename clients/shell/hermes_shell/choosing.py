"""What a person typed as the answer to one question of a clarify request: numbers, words of its own, or neither."""

from __future__ import annotations

from collections.abc import Sequence

from hermes_shell.flat_schema import Wrong


class Choice:
    """What was meant: exactly one of `choice`, `choices` (for questions that take several) and `text` is set."""

    __slots__ = ("choice", "choices", "text")

    def __init__(self, *, choice: str | None = None, choices: list[str] | None = None, text: str | None = None) -> None:
        self.choice = choice
        self.choices = choices
        self.text = text


def chosen(typed: str, choices: Sequence[str], *, multi: bool, free_text: bool) -> Choice:
    """Read `typed`: a number or the words of a choice, several by commas where `multi`; else text where it is taken.

    Wrong says what was expected.
    """
    typed = typed.strip()
    if not typed:
        raise Wrong(f"expected {expected(choices, multi=multi, free_text=free_text)}")
    if typed in choices:
        return Choice(choices=[typed]) if multi else Choice(choice=typed)
    parts = [part.strip() for part in typed.split(",")] if multi else [typed]
    found = [_one(part, choices) for part in parts if part]
    if choices and found and None not in found:
        meant = list(dict.fromkeys(one for one in found if one is not None))
        return Choice(choices=meant) if multi else Choice(choice=meant[0])
    if free_text or not choices:
        return Choice(text=typed)
    raise Wrong(f"expected {expected(choices, multi=multi, free_text=free_text)}, got {typed!r}")


def expected(choices: Sequence[str], *, multi: bool, free_text: bool) -> str:
    """What may be typed, in words."""
    if not choices:
        return "your words"
    numbers = f"a number from 1 to {len(choices)}" if len(choices) > 1 else "1"
    told = f"{numbers}, several by commas" if multi else numbers
    return f"{told}, or your own words" if free_text else told


def _one(part: str, choices: Sequence[str]) -> str | None:
    if part in choices:
        return part
    if part.isascii() and part.isdecimal() and 0 < int(part) <= len(choices):
        return choices[int(part) - 1]
    return None
