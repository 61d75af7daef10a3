"""Which part of a growing Markdown text is final."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_shell.interactive.markdown import final_length
from hermes_shell.interactive.rich_markdown import rendered

LINES = st.lists(
    st.sampled_from(["", "", "word", "- item", "1. one", "  indented", "```", "```python", "~~~", "# Head", "> said"]),
    max_size=14,
)


@given(LINES, st.booleans())
def test_what_was_final_stays_final_while_the_text_grows(lines: list[str], ends: bool) -> None:
    text = "\n".join(lines) + "\n" * ends
    lengths = [final_length(text[:n]) for n in range(len(text) + 1)]
    assert lengths == sorted(lengths)
    assert all(length <= n for n, length in enumerate(lengths))


@given(LINES)
def test_the_pieces_make_the_whole(lines: list[str]) -> None:
    text = "\n".join(lines)
    pieces, said = [], 0
    for n in range(len(text) + 1):
        final = final_length(text[:n])
        pieces.append(text[said:final])
        said = final
    assert "".join(pieces) + text[said:] == text


@given(LINES)
def test_what_follows_a_final_part_can_be_looked_at_alone(lines: list[str]) -> None:
    text = "\n".join(lines)
    final = 0
    for n in range(len(text) + 1):
        final += final_length(text[final:n])
        assert final == final_length(text[:n])


@pytest.mark.parametrize(
    ("text", "final"),
    [
        ("One paragraph.", ""),
        ("One.\n\n", ""),
        ("One.\n\nTwo", "One.\n\n"),
        ("- a\n\n- b\n\n", ""),
        ("- a\n\n  more of a\n\nText\n", "- a\n\n  more of a\n\n"),
        ("- a\n\nText", ""),
        ("```\ncode\n\nmore\n", ""),
        ("```\ncode\n\nmore\n```\n\nText", "```\ncode\n\nmore\n```\n\n"),
        ("````\n```\n\nstill code\n````\n\nText", "````\n```\n\nstill code\n````\n\n"),
    ],
)
def test_a_block_is_final_when_the_next_one_begins(text: str, final: str) -> None:
    assert text[: final_length(text)] == final


def test_headings_stand_at_the_left_and_nothing_is_coloured_without_colour() -> None:
    shown = rendered("# Title\n\nSome *words* and `code`.\n", 40, colour=False)
    assert shown.split("\n")[0] == "Title"
    assert "Some words and code." in shown
    assert "\x1b" not in shown


def test_no_line_is_wider_than_the_terminal() -> None:
    shown = rendered("word " * 50 + "\n\n| a | b |\n|---|---|\n| " + "x" * 50 + " | y |\n", 30, colour=False)
    assert max(map(len, shown.split("\n"))) <= 30


@pytest.mark.parametrize("colour", [True, False])
def test_lines_are_not_filled_up_with_spaces(colour: bool) -> None:
    for line in rendered("some words\n\n```python\nx = 1\n```\n", 40, colour=colour).split("\n"):
        assert not re.search(r" (\x1b\[0m)*$", line)


def test_colour_is_there_when_asked_for() -> None:
    assert "\x1b[1m" in rendered("**bold**", 40, colour=True)
