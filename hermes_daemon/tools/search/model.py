"""What is searched for and what is found, the same for ripgrep and for Python."""

from __future__ import annotations

from typing import Literal

import msgspec

MOST_LINES = 20_000
MOST_PATHS = 200_000
MOST_FILE_BYTES = 52_428_800
_WIDTH = 400
_LEAD = 100


class Search(msgspec.Struct, frozen=True):
    """`root` is a resolved folder or file. `repository` is where ignore files begin to count, or empty: then they do
    from the root on."""

    root: str
    target: Literal["content", "files"]
    pattern: str = ""
    context: int = 0
    repository: str = ""


class Line(msgspec.Struct, frozen=True):
    """A line of a file, or with number 0 just a file. `match` is false for lines of context."""

    path: str
    number: int = 0
    text: str = ""
    match: bool = True


class Complaint(msgspec.Struct, frozen=True):
    """Why the search could not be done, such as a pattern that does not compile."""

    error: str


class Found(msgspec.Struct, frozen=True):
    """Lines in no particular order. `partial` says why there may be more."""

    lines: tuple[Line, ...]
    partial: str = ""
    error: str = ""


def excerpt(line: str, at: int) -> str:
    """The line as it is shown: without its end, and of a very long one the part around the match at `at`."""
    line = line.rstrip("\r\n").removeprefix("\ufeff")
    if len(line) <= _WIDTH:
        return line
    start = max(0, min(at - _LEAD, len(line) - _WIDTH))
    lead = "…" if start else ""
    return f"{lead}{line[start : start + _WIDTH]}… [line of {len(line)} characters]"
