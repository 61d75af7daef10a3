"""What was typed as an answer with choices."""

from __future__ import annotations

import pytest

from hermes_shell.choosing import chosen
from hermes_shell.flat_schema import Wrong


def read(typed: str, *choices: str, multi: bool = False, free_text: bool = True) -> tuple[object, object, object]:
    meant = chosen(typed, choices, multi=multi, free_text=free_text)
    return meant.choice, meant.choices, meant.text


def test_a_number_or_the_words_of_a_choice_are_that_choice() -> None:
    assert read("2", "a", "b") == ("b", None, None)
    assert read(" a ", "a", "b") == ("a", None, None)


def test_several_are_taken_by_commas_each_once() -> None:
    assert read("2, 1,2", "a", "b", multi=True) == (None, ["b", "a"], None)
    assert read("a", "a", "b", multi=True) == (None, ["a"], None)


def test_a_choice_that_holds_a_comma_is_found_whole() -> None:
    assert read("yes, all", "yes, all", "no", multi=True) == (None, ["yes, all"], None)


def test_everything_else_is_text_where_text_is_taken() -> None:
    assert read("neither", "a", "b") == (None, None, "neither")
    assert read("1, neither", "a", "b", multi=True) == (None, None, "1, neither")
    assert read("42") == (None, None, "42")


@pytest.mark.parametrize("typed", ["3", "c", "0", "1,3"])
def test_where_no_text_is_taken_the_choices_are_told(typed: str) -> None:
    with pytest.raises(Wrong, match="a number from 1 to 2, several by commas, got"):
        read(typed, "a", "b", multi=True, free_text=False)
