"""Rows as an aligned table, and colour where a terminal shows it."""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Sequence

COLOURS = {"ok": "32", "warn": "33", "fail": "31", "dim": "2", "bold": "1"}


def coloured() -> bool:
    """Whether standard output is a terminal that wants colour (no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, colour: str) -> str:
    """`text` in one of COLOURS where colour is shown, else as it is."""
    return f"\x1b[{COLOURS[colour]}m{text}\x1b[0m" if coloured() else text


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows under a header. On a terminal the last column is cut to its width; elsewhere nothing is."""
    columns = os.get_terminal_size(1).columns if sys.stdout.isatty() else None
    for number, line in enumerate(aligned(header, rows, columns)):
        print(paint(line, "dim") if number == 0 else line)


def aligned(header: Sequence[str], rows: Sequence[Sequence[object]], columns: int | None) -> list[str]:
    """The lines of the table; `columns` None = no line is cut. Cells are one line each, control characters shown."""
    cells = [[plain(str(cell)) for cell in row] for row in (header, *rows)]
    widths = [max(cell_width(row[index]) for row in cells) for index in range(len(header))]
    lines = []
    for row in cells:
        padded = [cell + " " * (width - cell_width(cell)) for cell, width in zip(row, widths, strict=True)]
        line = "  ".join(padded).rstrip()
        lines.append(line if columns is None else cut(line, columns))
    return lines


def plain(text: str) -> str:
    """`text` on one line: white space joined, control characters made visible."""
    joined = " ".join(text.split())
    return "".join(letter if letter.isprintable() or letter == " " else f"\\x{ord(letter):02x}" for letter in joined)


def cell_width(text: str) -> int:
    """The terminal columns that `text` takes: two for wide letters, none for combining marks."""
    return sum(
        0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        for letter in text
    )


def cut(text: str, columns: int) -> str:
    """`text` shortened to so many columns, with an ellipsis where something is missing."""
    if cell_width(text) <= columns:
        return text
    while text and cell_width(text) > columns - 1:
        text = text[:-1]
    return f"{text}…"
