"""What of a conversation is sent when the window is too small for it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hermes_daemon.core.fitting import LEAST_CHARS, fit
from hermes_daemon.core.history import repair
from hermes_daemon.core.window import message_tokens
from hermes_protocol.content import Message, TextPart, ToolCall, ToolResult


def user(text: str) -> Message:
    return Message("user", (TextPart(text),))


def round_of(name: str, result: str) -> tuple[Message, Message]:
    call = Message("assistant", (ToolCall(name, "read", "{}"),))
    return call, Message("tool", (ToolResult(name, result),))


def test_what_has_room_stays_the_very_object() -> None:
    messages = (user("a"), Message("assistant", (TextPart("b"),)), user("c"))
    assert fit(messages, 1000, message_tokens).messages is messages


def test_the_oldest_exchanges_go_first_and_only_as_many_as_must() -> None:
    messages = tuple(m for n in range(4) for m in (user(f"q{n} " * 300), Message("assistant", (TextPart("a"),))))
    messages = (*messages, user("now"))
    fitted = fit(messages, sum(map(message_tokens, messages[4:])), message_tokens)
    assert (fitted.left_out, fitted.cut) == (4, 0)
    assert fitted.messages == messages[4:]


def test_a_huge_result_of_the_running_turn_keeps_both_ends() -> None:
    text = "begin" + "x" * 100_000 + "end"
    fitted = fit((user("read"), *round_of("c1", text)), 5_000, message_tokens)
    result = fitted.messages[-1].results[0].text
    assert (fitted.left_out, fitted.cut) == (0, 1)
    assert result.startswith("begin")
    assert result.endswith("end")
    assert "are left out here" in result
    assert sum(map(message_tokens, fitted.messages)) <= 5_000


rounds = st.lists(st.integers(0, 40_000), min_size=1, max_size=4)


@given(st.lists(rounds, min_size=1, max_size=4), st.integers(100, 30_000))
def test_what_is_sent_is_whole_and_ends_with_the_running_turn(turns: list[list[int]], room: int) -> None:
    messages: list[Message] = []
    for number, results in enumerate(turns):
        messages.append(user(f"question {number}"))
        for place, size in enumerate(results):
            messages += round_of(f"c{number}.{place}", "y" * size)
    fitted = fit(tuple(messages), room, message_tokens)
    assert repair(fitted.messages) == (fitted.messages, ()) or not repair(fitted.messages)[1]
    assert fitted.messages[0].role == "user"
    last = max(place for place, message in enumerate(messages) if message.role == "user")
    assert messages[last] in fitted.messages
    shortest = all(len(r.text) <= LEAST_CHARS + 200 for m in fitted.messages for r in m.results)
    assert sum(map(message_tokens, fitted.messages)) <= room or (shortest and fitted.left_out == last)
