"""Make docs/pictures/session.svg: `hermes demo` on a real terminal, its screen drawn cell by cell.

Run from the root of the repository, where tmux is installed:  python docs/pictures/record.py
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parents[2]
COLUMNS, ROWS = 92, 56
CELL_WIDTH, LINE_HEIGHT, FONT_SIZE = 8.4, 19, 14
MARGIN, TITLE_HEIGHT = 18, 34
BACKGROUND, FOREGROUND = "#16181d", "#d7dae0"
PALETTE = (
    *("#3b4048", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#abb2bf"),
    *("#7f848e", "#ff7a85", "#b5e890", "#ffd68a", "#7cc4ff", "#e0a3f5", "#7fdbe6", "#ffffff"),
)


class Style(NamedTuple):
    """How a cell looks. `ink` and `ground` are colours, or "" for the terminal's own."""

    ink: str = ""
    ground: str = ""
    bold: bool = False
    dim: bool = False
    italic: bool = False
    underline: bool = False
    swapped: bool = False


def main() -> None:
    screen = record()
    target = Path(__file__).with_name("session.svg")
    target.write_text(svg(screen.rstrip("\n").split("\n")), encoding="utf-8")
    print(f"{target} written")


def record() -> str:
    """Play the demo up to its second question; the screen with its colours."""
    sys.path.insert(0, str(ROOT))
    from tests.support.client_tmux import HERMES, desk

    with desk() as here:
        pane = here.tmux.open(*HERMES, "demo", columns=COLUMNS, rows=ROWS, cwd=here.work)
        pane.wait("Allow")
        pane.type("1")
        pane.wait(lambda text: "unittest -v" in text and "1 once" in text.split("by you")[-1])
        screen = pane.screen(colours=True)
        pane.type("1")
        pane.wait("[left with 0]")
        # The folder's random name says nothing to a reader.
        return screen.replace(here.temporary, "/tmp")  # noqa: S108 (text in a picture)


# --- from escape sequences to cells ---------------------------------------------------------------------------------


def runs(line: str, style: Style) -> tuple[list[tuple[int, str, Style]], Style]:
    """A line as (column, text, style), and the style the next line begins with."""
    found: list[tuple[int, str, Style]] = []
    column = 0
    for part in re.split(r"(\x1b\[[\d;]*m)", line):
        if part.startswith("\x1b["):
            style = changed(style, part[2:-1])
        elif part:
            found.append((column, part, style))
            column += len(part)
    return found, style


def changed(style: Style, codes: str) -> Style:
    """`style` after a "select graphic rendition" sequence."""
    numbers = [int(code or 0) for code in codes.split(";")] if codes else [0]
    while numbers:
        number = numbers.pop(0)
        if number == 0:
            style = Style()
        elif number in (38, 48):
            colour = extended(numbers)
            style = style._replace(ink=colour) if number == 38 else style._replace(ground=colour)
        elif 30 <= number <= 37 or 90 <= number <= 97:
            style = style._replace(ink=PALETTE[number - 30 if number < 90 else number - 82])
        elif 40 <= number <= 47 or 100 <= number <= 107:
            style = style._replace(ground=PALETTE[number - 40 if number < 100 else number - 92])
        else:
            style = style._replace(**SIMPLE.get(number, {}))  # type: ignore[arg-type]
    return style


SIMPLE: dict[int, dict[str, object]] = {
    1: {"bold": True},
    2: {"dim": True},
    3: {"italic": True},
    4: {"underline": True},
    7: {"swapped": True},
    22: {"bold": False, "dim": False},
    23: {"italic": False},
    24: {"underline": False},
    27: {"swapped": False},
    39: {"ink": ""},
    49: {"ground": ""},
}


def extended(numbers: list[int]) -> str:
    """The colour of a 38;5;n or 38;2;r;g;b sequence; takes its numbers off the list."""
    if numbers.pop(0) == 2:
        red, green, blue = (numbers.pop(0) for _ in range(3))
        return f"#{red:02x}{green:02x}{blue:02x}"
    index = numbers.pop(0)
    if index < 16:
        return PALETTE[index]
    if index >= 232:
        grey = 8 + (index - 232) * 10
        return f"#{grey:02x}{grey:02x}{grey:02x}"
    levels = (0, 95, 135, 175, 215, 255)
    index -= 16
    return "#" + "".join(f"{levels[index // step % 6]:02x}" for step in (36, 6, 1))


# --- from cells to a picture ----------------------------------------------------------------------------------------


def svg(lines: list[str]) -> str:
    """The picture of a window that holds these lines."""
    width = round(COLUMNS * CELL_WIDTH + 2 * MARGIN)
    height = TITLE_HEIGHT + len(lines) * LINE_HEIGHT + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,monospace" font-size="{FONT_SIZE}">',
        "<title>A coding turn in hermes chat</title>",
        f'<rect width="{width}" height="{height}" rx="10" fill="{BACKGROUND}"/>',
        *(
            f'<circle cx="{MARGIN + 4 + 20 * n}" cy="17" r="6" fill="{colour}"/>'
            for n, colour in enumerate(("#ff5f57", "#febc2e", "#28c840"))
        ),
    ]
    style = Style()
    for number, line in enumerate(lines):
        found, style = runs(line, style)
        top = TITLE_HEIGHT + number * LINE_HEIGHT
        for column, text, look in found:
            parts.extend(drawn(column, text, look, top))
    return "\n".join([*parts, "</svg>", ""])


def drawn(column: int, text: str, style: Style, top: int) -> list[str]:
    """One run of cells: its ground, if any, and its text stretched to the grid."""
    ink, ground = style.ink or FOREGROUND, style.ground
    if style.swapped:
        ink, ground = ground or BACKGROUND, style.ink or FOREGROUND
    left, length = MARGIN + column * CELL_WIDTH, len(text) * CELL_WIDTH
    parts = []
    if ground:
        parts.append(f'<rect x="{left:.1f}" y="{top}" width="{length:.1f}" height="{LINE_HEIGHT}" fill="{ground}"/>')
    shown = text.rstrip(" ")
    indent = len(shown) - len(shown.lstrip(" "))
    shown = shown.lstrip(" ")
    if not shown:
        return parts
    looks = [
        'font-weight="bold"' if style.bold else "",
        'font-style="italic"' if style.italic else "",
        'text-decoration="underline"' if style.underline else "",
        'opacity="0.6"' if style.dim else "",
    ]
    attributes = " ".join(look for look in looks if look)
    parts.append(
        f'<text x="{left + indent * CELL_WIDTH:.1f}" y="{top + LINE_HEIGHT - 5}" fill="{ink}" '
        f'textLength="{len(shown) * CELL_WIDTH:.1f}" lengthAdjust="spacingAndGlyphs" xml:space="preserve"'
        f"{' ' + attributes if attributes else ''}>{escape(shown)}</text>"
    )
    return parts


if __name__ == "__main__":
    main()
