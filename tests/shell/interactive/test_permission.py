"""The question and its keys."""

from __future__ import annotations

import msgspec

from hermes_protocol.events import RequestOpened
from hermes_protocol.methods import Answer
from hermes_shell.interactive.painter import Look, Painter
from hermes_shell.interactive.permission import Permission, arguments
from tests.support.client_journal import Journal

PAINTER = Painter(Look(colour=False), lambda: 80, "client-1")


def asked(*, always: bool = True, args: str = '{"command": "make\\nls"}') -> Permission:
    journal = Journal()
    journal.start_turn("go")
    journal.ask(journal.start_call("terminal", args, "Run make"), always=always)
    return Permission(journal.requests[0])


def test_each_key_gives_its_option() -> None:
    question = asked()
    assert question.press("1") == (question, Answer(option_id="once"))
    assert question.press("2") == (question, Answer(option_id="session"))
    assert question.press("3") == (question, Answer(option_id="always"))
    assert question.press("5") is None
    assert question.wants == "keys"


def test_what_is_not_offered_has_no_key_and_the_others_keep_theirs() -> None:
    question = asked(always=False)
    assert question.press("3") is None
    assert list(question.choices) == ["1", "2", "4"]
    assert "always" not in "\n".join(question.lines(PAINTER))


def test_no_is_followed_by_a_reason() -> None:
    denying, answer = asked().press("4") or (None, None)
    assert isinstance(denying, Permission)
    assert answer is None
    assert denying.wants == "line"
    assert denying.press("1") is None
    assert denying.enter(" use ls ")[1] == Answer(option_id="deny", feedback="use ls")
    assert denying.enter("  ")[1] == Answer(option_id="deny")
    assert denying.back() == asked()
    assert "Why not?" in "\n".join(denying.lines(PAINTER))


def test_the_whole_command_is_shown_line_by_line() -> None:
    text = "\n".join(asked().lines(PAINTER))
    assert "Allow Run make" in text
    assert "command: make\n      ls" in text
    assert "it changes files" in text


def test_more_arguments_than_fit_are_counted_and_not_hidden_silently() -> None:
    many = msgspec.json.encode({"content": "\n".join(map(str, range(50)))}).decode()
    question = asked(args=many)
    assert "38 more lines of arguments, all of them above" in "\n".join(question.lines(PAINTER))
    assert all(f"    {n}" in question.whole(PAINTER) for n in range(1, 50))
    assert asked().whole(PAINTER) == ""


def test_a_long_command_is_wrapped_and_not_cut() -> None:
    command = "echo " + "x" * 200 + " && rm -r /precious"
    narrow = Painter(Look(colour=False), lambda: 40, "client-1")
    lines = asked(args=msgspec.json.encode({"command": command}).decode()).lines(narrow)
    assert max(map(len, lines)) <= 40
    assert command in "".join(line.removeprefix("  ") for line in lines)


def test_arguments_that_are_no_object_are_shown_as_they_are() -> None:
    assert arguments("not json") == ["not json"]
    assert arguments("[1]") == ["[1]"]
    assert arguments('{"a": 1, "b": "x"}') == ["a: 1", "b: x"]


def test_a_command_cannot_disguise_itself() -> None:
    hostile = msgspec.json.encode({"command": "rm \u202e x\x1b[2K\rls"}).decode()
    text = "\n".join(asked(args=hostile).lines(PAINTER))
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_a_request_without_a_call_still_asks() -> None:
    bare = Permission(RequestOpened("r", "s", "permission"))
    assert "Allow this" in bare.lines(PAINTER)[0]
