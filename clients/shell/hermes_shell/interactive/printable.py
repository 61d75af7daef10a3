"""Text of models, tools and other people made safe for a terminal.

Such text may hold escape sequences that move the cursor, rename the window or recolour a question, and marks that
reverse the reading order, so that a command reads as another one. None of it may reach the screen.
"""

from __future__ import annotations

import re
import unicodedata

_SEQUENCES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # OSC, DCS, SOS, PM, APC: titles, links, clipboards
    r"|\x1b[ -/]*[0-~]?"  # everything else an escape can begin
    r"|\x9b[0-?]*[ -/]*[@-~]"  # CSI in one character
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_DIRECTION = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """`text` without escape sequences and control characters; newlines stay, tabs become spaces.

    A carriage return shows what a terminal would: the last overwrite of its line. Marks of direction are written out.
    """
    text = _SEQUENCES.sub("", text)
    if "\r" in text:
        lines = text.replace("\r\n", "\n").split("\n")
        text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)
    text = _CONTROLS.sub("", text.expandtabs(4))
    return _DIRECTION.sub(lambda mark: f"<U+{ord(mark.group()):04X}>", text)


def one_line(text: str, width: int = 200) -> str:
    """`text` as one printable line of at most `width` characters."""
    flat = " ".join(printable(text).split())
    return flat if len(flat) <= width else flat[: max(0, width - 1)] + "…"


def fitted(text: str, width: int) -> list[str]:
    """`text` in lines of at most `width` columns (wide characters take two, combining ones none), all of it."""
    lines: list[str] = []
    for line in text.split("\n"):
        start = columns = 0
        for place, character in enumerate(line):
            wide = _columns(character)
            if columns + wide > max(2, width):
                lines.append(line[start:place])
                start, columns = place, 0
            columns += wide
        lines.append(line[start:])
    return lines


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
