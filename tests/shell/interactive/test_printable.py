"""Nothing a model or a tool says may steer the terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_shell.interactive.printable import fitted, one_line, printable

HOSTILE = st.text("\x1b[]0;m\x07\x9b\r\n\tabc\\\u202e\x00", max_size=60)


@given(HOSTILE)
def test_no_control_character_survives(text: str) -> None:
    assert not set(printable(text)) & {*map(chr, range(10)), *map(chr, range(11, 32)), "\x7f", "\x9b", "\u202e"}
    assert printable(printable(text)) == printable(text)


@given(st.text("ab c.é😀\n", max_size=60))
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert printable(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07x", "x"),
        ("\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("10%\r50%\r100%\n", "100%\n"),
        ("a\r\nb", "a\nb"),
        ("\tx", "    x"),
        ("rm \u202egnp.exe", "rm <U+202E>gnp.exe"),
        ("a\x1b[2Jb\x1bcc", "abc"),
    ],
)
def test_sequences_go_and_their_words_stay(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text("ab 字😀\u0301\n", max_size=60), st.integers(2, 12))
def test_fitted_lines_hold_everything_and_are_narrow_enough(text: str, width: int) -> None:
    lines = fitted(text, width)
    assert "".join(lines) == text.replace("\n", "")
    assert all(sum({"字": 2, "😀": 2, "\u0301": 0}.get(c, 1) for c in line) <= width for line in lines)


def test_one_line_is_one_line_of_bounded_length() -> None:
    assert one_line("a\n  b\tc") == "a b c"
    assert one_line("x" * 300, 10) == "x" * 9 + "…"
