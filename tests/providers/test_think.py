from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_daemon.core.ports import ReasoningDelta
from hermes_daemon.providers.think import ThinkFilter


def run(*pieces: str) -> tuple[str, str]:
    """(reasoning, text) of an answer that came in these pieces."""
    think = ThinkFilter()
    deltas = [delta for piece in pieces for delta in think.feed(piece)] + think.flush()
    thoughts = "".join(delta.text for delta in deltas if isinstance(delta, ReasoningDelta))
    return thoughts, "".join(delta.text for delta in deltas if not isinstance(delta, ReasoningDelta))


@pytest.mark.parametrize(
    ("answer", "thoughts", "text"),
    [
        ("Hello", "", "Hello"),
        ("  Hello", "", "  Hello"),
        ("<think>hm</think>\n\nHello", "hm", "Hello"),
        ("\n<think>\nhm\n</think>Hello", "\nhm\n", "Hello"),
        ("</think>\n\nFine.", "", "Fine."),
        ("<b>bold</b>", "", "<b>bold</b>"),
        ("A tag `</think>` and <think> in text", "", "A tag `</think>` and <think> in text"),
        ("<think>never closed", "never closed", ""),
        ("<think>a < b </thin", "a < b </thin", ""),
        ("<thi", "", "<thi"),
        (" \n", "", " \n"),
        ("<think></think>", "", ""),
        ("<think>a</think>b</think>c", "a", "b</think>c"),
    ],
)
def test_thinking_is_told_from_text(answer: str, thoughts: str, text: str) -> None:
    assert run(answer) == (thoughts, text)
    assert run(*answer) == (thoughts, text)


@given(st.text(alphabet="<>/think a\n", max_size=40), st.data())
def test_cutting_an_answer_anywhere_changes_nothing(answer: str, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(answer)))
    assert run(answer[:cut], answer[cut:]) == run(answer)


def test_text_is_held_back_no_longer_than_it_may_be_a_tag() -> None:
    think = ThinkFilter()
    assert think.feed("<th") == []
    assert [delta.text for delta in think.feed("e")] == ["<the"]
    assert [delta.text for delta in think.feed(" ")] == [" "]
