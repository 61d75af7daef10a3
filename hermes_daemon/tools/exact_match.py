"""Replacing text that stands in a file exactly, and saying precisely why when it does not.

Line ends are compared as one character, so that a model's `\\n` finds a file's CRLF; unchanged lines keep theirs, and
new lines get those of the place they are put in.
"""

from __future__ import annotations

import bisect
import difflib
import re

import msgspec

from hermes_daemon.tools.text_files import newline_of

_MASK = re.compile(r"[=:\"'] ?\*\*\*(?![\w*])|[\w-]{6}\.\.\.\w{4}\b")
_LOCATIONS = 5
_MOST_COMPARED = 20_000


class Edit(msgspec.Struct, frozen=True):
    """The new text and how many places changed, or the problem (then `text` is None)."""

    text: str | None
    count: int = 0
    problem: str = ""


def replace_exactly(text: str, old: str, new: str, *, everywhere: bool = False) -> Edit:
    """The text with `old` replaced by `new`. Several matches are a problem unless `everywhere`."""
    flat, crlf_at = _flat(text)
    old_flat, new_flat = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
    places = _find(flat, old_flat)
    if not places:
        return Edit(None, problem=_missing(flat, old_flat, new_flat))
    if len(places) > 1 and not everywhere:
        return Edit(None, problem=_ambiguous(flat, places))
    if old_flat == new_flat:
        return Edit(None, problem="old_string and new_string differ only in line ends, which are kept as they are.")
    pieces: list[str] = []
    at = 0
    for place in places:
        start = place + bisect.bisect_left(crlf_at, place)
        end = place + len(old_flat)
        stop = end + bisect.bisect_left(crlf_at, end)
        newline = newline_of(text[start:stop]) if "\n" in text[start:stop] else newline_of(text)
        pieces += (text[at:start], new_flat.replace("\n", newline))
        at = stop
    return Edit("".join(pieces) + text[at:], len(places))


def _flat(text: str) -> tuple[str, list[int]]:
    """(the text with LF line ends, the positions in it of the line ends that were CRLF)."""
    if "\r\n" not in text:
        return text, []
    positions: list[int] = []
    at = text.find("\r\n")
    while at >= 0:
        positions.append(at - len(positions))
        at = text.find("\r\n", at + 2)
    return text.replace("\r\n", "\n"), positions


def _find(text: str, part: str) -> list[int]:
    places: list[int] = []
    at = text.find(part)
    while at >= 0:
        places.append(at)
        at = text.find(part, at + len(part))
    return places


def _ambiguous(text: str, places: list[int]) -> str:
    lines = [text.count("\n", 0, place) + 1 for place in places]
    more = f" and {len(lines) - _LOCATIONS} more" if len(lines) > _LOCATIONS else ""
    return (
        f"old_string stands {len(lines)} times, at lines {', '.join(map(str, lines[:_LOCATIONS]))}{more}. Add lines "
        "around it until it is found once, or set replace_all. Nothing was changed."
    )


def _missing(text: str, old: str, new: str) -> str:
    if _MASK.search(old):
        hint = "old_string seems to hold a masked secret, which is not what stands in the file. Choose text without it."
        return f"{hint} Nothing was changed."
    if new.strip() and new in text:
        line = text.count("\n", 0, text.index(new)) + 1
        return f"old_string is not there, but new_string already stands at line {line}. Nothing was changed."
    lines, wanted = text.split("\n"), old.strip("\n").split("\n")
    spaced = _same_but_spaces(lines, wanted)
    if spaced is not None:
        return (
            f"old_string is at line {spaced + 1} with other spaces or indentation:\n"
            f"{_excerpt(lines, spaced, spaced + len(wanted))}\nCopy it as it is there. Nothing was changed."
        )
    near = _nearest(lines, wanted)
    if near is None:
        return "old_string is not in the file, nor anything like it. Read the file again. Nothing was changed."
    return (
        f"old_string is not in the file. The nearest lines are:\n{_excerpt(lines, near - 1, near + len(wanted) + 1)}\n"
        "Copy the text exactly as it is there. Nothing was changed."
    )


def _same_but_spaces(lines: list[str], wanted: list[str]) -> int | None:
    target = ["".join(line.split()) for line in wanted]
    bare = ["".join(line.split()) for line in lines]
    for at in range(len(bare) - len(target) + 1):
        if bare[at : at + len(target)] == target:
            return at
    return None


def _nearest(lines: list[str], wanted: list[str]) -> int | None:
    """The index at which the block would begin, by the line most like its longest line."""
    index, key = max(enumerate(line.strip() for line in wanted), key=lambda entry: len(entry[1]))
    matcher = difflib.SequenceMatcher(b=key[:400], autojunk=False)
    best, found = 0.5, None
    for at, line in enumerate(lines[:_MOST_COMPARED]):
        matcher.set_seq1(line.strip()[:400])
        if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best and matcher.ratio() > best:
            best, found = matcher.ratio(), at
    return None if found is None else max(0, found - index)


def _excerpt(lines: list[str], start: int, end: int) -> str:
    start, end = max(0, start), min(len(lines), end, start + 40)
    return "\n".join(f"{number + 1}|{lines[number][:400]}" for number in range(start, end))
