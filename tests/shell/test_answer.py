"""Events of a turn as output."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hermes_shell.answer import STDOUT, Answer
from tests.support.local_turns import message, streamed


class Screen:
    """What was written to each descriptor."""

    def __init__(self, tty: tuple[bool, bool] = (False, False)) -> None:
        self.text = {1: "", 2: ""}
        self.answer = Answer(self.write, tty=tty)

    def write(self, fd: int, text: str) -> None:
        self.text[fd] += text


@given(st.lists(st.text()), st.data())
def test_repeated_and_missing_pieces_still_make_the_final_text(pieces: list[str], data: st.DataObject) -> None:
    events = streamed("i", *pieces)
    kept = [event for event in events[1:-1] for _ in range(data.draw(st.integers(0, 2)))]
    screen = Screen()
    for kind, item_id, payload in [events[0], *kept, events[-1]]:
        screen.answer.feed(kind, payload, item_id)
    text = "".join(pieces)
    assert screen.text[STDOUT] == (text if text.endswith("\n") or not text else text + "\n")


def test_a_final_text_that_differs_is_given_whole_and_said_so() -> None:
    screen = Screen()
    for kind, item_id, payload in streamed("i", "secret 123", final="secret ***"):
        screen.answer.feed(kind, payload, item_id)
    assert screen.text[1] == "secret 123\nsecret ***\n"
    assert "rewritten" in screen.text[2]


def test_control_sequences_are_shown_on_a_terminal_and_kept_in_a_pipe() -> None:
    terminal, pipe = Screen((True, False)), Screen()
    for screen in (terminal, pipe):
        for kind, item_id, payload in streamed("i", "a\x1b[31mb\tc\n"):
            screen.answer.feed(kind, payload, item_id)
    assert terminal.text[1] == "a\\x1b[31mb\tc\n"
    assert pipe.text[1] == "a\x1b[31mb\tc\n"


def test_a_snapshot_continues_what_was_shown() -> None:
    screen = Screen()
    began = streamed("i", "one ")[:2]
    for kind, item_id, payload in began:
        screen.answer.feed(kind, payload, item_id)
    screen.answer.resume(message("i", "one two", "inProgress"))
    screen.answer.resume(message("i", "one two three"))
    assert screen.text[1] == "one two three\n"


def test_unknown_kinds_and_items_are_passed_over() -> None:
    screen = Screen()
    screen.answer.feed("something.new", {"x": 1}, None)
    screen.answer.feed("item.started", {"item": {"itemId": "p", "type": "hologram"}}, "p")
    screen.answer.feed("item.delta", {"field": "text", "text": "x", "offset": 0}, "p")
    assert screen.text == {1: "", 2: ""}


def test_reasoning_is_not_the_answer() -> None:
    screen = Screen()
    screen.answer.feed("item.started", {"item": {"itemId": "r", "type": "reasoning", "text": "hm"}}, "r")
    screen.answer.feed("item.delta", {"field": "text", "text": "hmm", "offset": 0}, "r")
    assert screen.text[1] == ""
