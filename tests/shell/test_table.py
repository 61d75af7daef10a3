"""Tables."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hermes_shell.table import aligned, cell_width, cut


def test_columns_are_aligned_and_the_last_is_not_padded() -> None:
    lines = aligned(("A", "LONG"), [("one", "x"), ("é", "yy")], None)
    assert lines == ["A    LONG", "one  x", "é    yy"]


def test_wide_letters_take_two_columns() -> None:
    lines = aligned(("A", "B"), [("日本", "x"), ("abcd", "y")], None)
    assert lines[1:] == ["日本  x", "abcd  y"]


def test_cells_are_one_line_and_control_characters_are_shown() -> None:
    assert aligned(("A",), [("a\nb\x1b[0m",)], None)[1] == "a b\\x1b[0m"


@given(st.text(), st.integers(2, 30))
def test_a_cut_text_fits(text: str, columns: int) -> None:
    shown = cut(text, columns)
    assert cell_width(shown) <= columns
    assert shown == text or shown.endswith("…")
