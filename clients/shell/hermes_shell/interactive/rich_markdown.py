"""Markdown as a terminal shows it. Imported with the first answer: rich takes a tenth of a second."""

from __future__ import annotations

import re
from io import StringIO
from typing import ClassVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Heading, Markdown, MarkdownElement
from rich.theme import Theme

INK = Theme({"markdown.code": "cyan", "markdown.h1": "bold underline", "markdown.h2": "bold"})
"""No backgrounds: nobody knows whether the terminal is dark or light."""
_PADDING = re.compile(r" +((?:\x1b\[0m)*)$")


class LeftHeading(Heading):
    """A heading where the text begins. rich centres the big ones, and no terminal is a title page."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        yield self.text


class TerminalMarkdown(Markdown):
    """Markdown with left headings."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {**Markdown.elements, "heading_open": LeftHeading}


def rendered(text: str, width: int, colour: bool) -> str:
    """`text` as lines of at most `width` columns (10 at least), without blank lines around it."""
    out = StringIO()
    console = Console(
        theme=INK,
        file=out,
        width=max(10, width),
        force_terminal=colour,
        color_system="256" if colour else None,
        no_color=not colour,
        legacy_windows=False,
        highlight=False,
    )
    console.print(TerminalMarkdown(text, code_theme="ansi_dark", hyperlinks=False))
    # rich fills lines up with spaces; on a window made narrower later they would wrap into empty lines.
    lines = [_PADDING.sub(r"\1", line) for line in out.getvalue().split("\n")]
    return "\n".join(lines).strip("\n")
