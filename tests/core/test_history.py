from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_daemon.core.history import (
    ECHO_CHARS,
    NO_LONGER_AVAILABLE,
    check,
    cut_points,
    is_object,
    readable_arguments,
    repair,
    sendable_arguments,
)
from hermes_protocol.content import ImagePart, Message, Part, ReasoningPart, TextPart, ToolCall, ToolResult
from tests.support.shared_data import case_bytes


def user(text: str) -> Message:
    return Message("user", (TextPart(text),))


def calls(*pairs: tuple[str, str]) -> Message:
    return Message("assistant", tuple(ToolCall(call_id, "read_file", args) for call_id, args in pairs))


def result(call_id: str, text: str = "ok") -> Message:
    return Message("tool", (ToolResult(call_id, text),))


def from_openai(rows: list[dict]) -> list[Message]:
    messages = []
    for row in rows:
        if row["role"] == "tool":
            messages.append(result(row["tool_call_id"], row["content"]))
            continue
        parts: list[Part] = [TextPart(row["content"])] if row["content"] else []
        parts.extend(
            ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"])
            for call in row.get("tool_calls", ())
        )
        messages.append(Message(row["role"], tuple(parts)))
    return messages


# --- laws over any history ----------------------------------------------------------------------------------------

ids = st.sampled_from(["", "c1", "c2", "call_0", "call_0_2"])
texts = st.sampled_from(["", " ", "a", "hello\nworld", "ünï \U0001f378"])
arguments = st.sampled_from(["{}", '{"a":1}', "", " \n", '{"a', "null", "[1]", '"{\\"a\\":1}"', "7"])
parts = st.one_of(
    st.builds(TextPart, texts),
    st.builds(ReasoningPart, texts),
    st.builds(ImagePart, st.just("image/png"), st.just("QQ==")),
    st.builds(ToolCall, ids, st.just("t"), arguments),
    st.builds(ToolResult, ids, texts, st.booleans()),
)
messages = st.builds(
    Message, st.sampled_from(["system", "user", "assistant", "tool"]), st.lists(parts, max_size=3).map(tuple)
)
histories = st.lists(messages, max_size=9)


@given(histories)
def test_a_repaired_history_keeps_every_law(history: list[Message]) -> None:
    assert check(repair(history)[0]) == []


@given(histories)
def test_repairing_twice_is_repairing_once(history: list[Message]) -> None:
    once, _ = repair(history)
    assert repair(once) == (once, ())


@given(histories)
def test_no_text_of_a_user_is_lost(history: list[Message]) -> None:
    repaired = repair(history)[0]
    sent = [
        part.text
        for message in repaired
        if message.role == "user"
        for part in message.parts
        if isinstance(part, TextPart)
    ]
    for message in history:
        if message.role == "user" and message.text.strip():
            for part in message.parts:
                if isinstance(part, TextPart):
                    assert part.text in sent


@given(histories)
def test_a_cut_at_a_cut_point_leaves_two_lawful_halves(history: list[Message]) -> None:
    repaired = repair(history)[0]
    for at in cut_points(repaired):
        assert check(repaired[:at]) == []
        assert [row for row in check(repaired[at:]) if "system" not in row] == []


def test_a_lawful_history_comes_back_as_it_was() -> None:
    history = (user("x"), calls(("c1", "{}"), ("c2", "{}")), result("c2"), result("c1"), user("y"))
    assert repair(history) == (history, ())


# --- single repairs -----------------------------------------------------------------------------------------------


def test_a_result_behind_a_steering_message_goes_back_to_its_call() -> None:
    repaired, notes = repair([user("x"), calls(("c1", "{}")), user("and quickly"), result("c1", "done")])
    assert [m.role for m in repaired] == ["user", "assistant", "tool", "user"]
    assert repaired[2].results[0].text == "done"
    assert notes == ()


def test_a_second_result_for_one_call_is_kept_as_text() -> None:
    repaired, notes = repair([user("x"), calls(("c1", "{}")), result("c1", "first"), result("c1", "second")])
    assert repaired[2].results[0].text == "first"
    assert repaired[3].role == "user"
    assert "second" in repaired[3].text
    assert len(notes) == 1


def test_an_assistant_message_of_reasoning_alone_is_left_out() -> None:
    repaired, notes = repair([user("x"), Message("assistant", (ReasoningPart("hm"),)), user("y")])
    assert [m.role for m in repaired] == ["user", "user"]
    assert "message 1" in notes[0]


def test_the_same_id_twice_in_one_message_pairs_in_order() -> None:
    repaired, _ = repair([user("x"), calls(("c", '{"n":1}'), ("c", '{"n":2}')), result("c", "one"), result("c", "two")])
    first, second = repaired[1].calls
    texts = {m.results[0].call_id: m.results[0].text for m in repaired[2:]}
    assert texts == {first.call_id: "one", second.call_id: "two"}


def test_a_new_id_avoids_one_that_comes_later() -> None:
    twice = [calls(("c", "{}")), result("c")] * 2
    history = [user("x"), *twice, calls(("c_2", "{}")), result("c_2")]
    repaired, _ = repair(history)
    assert [m.calls[0].call_id for m in repaired if m.calls] == ["c", "c_3", "c_2"]


def test_arguments_with_lone_surrogates_are_sent_as_something_encodable() -> None:
    sendable_arguments('{"a": "\ud83c').encode()


# --- handed cases ---------------------------------------------------------------------------------------------------


def test_case_orphan_call_with_an_id_that_occurs_twice() -> None:
    history = from_openai(json.loads(case_bytes("history", "history-compaction-orphan-call", "transcript.json")))
    repaired, notes = repair([*history, user("go on")])
    assert check(repaired) == []
    assert repaired[2].results[0].text == "A"
    second = repaired[4].calls[0]
    assert second.arguments == '{"path":"b"}'
    assert repaired[5].results[0] == ToolResult(second.call_id, NO_LONGER_AVAILABLE, is_error=True)
    assert any("no result" in note for note in notes)


def test_case_orphan_result_is_folded_into_text_and_told_once() -> None:
    history = from_openai(json.loads(case_bytes("history", "history-compaction-orphan-result", "transcript.json")))
    repaired, notes = repair(history)
    assert not any(m.role == "tool" for m in repaired)
    assert sum("output of a call that was summarised away" in m.text for m in repaired) == 1
    assert len(notes) == 1
    assert "gone1" in notes[0]


def test_case_empty_arguments_are_sent_as_an_empty_object() -> None:
    history = from_openai(json.loads(case_bytes("history", "history-empty-arguments", "transcript.json")))
    repaired, _ = repair(history)
    assert [call.arguments for call in repaired[1].calls] == ["{}", "{}"]
    assert [call.arguments for call in history[1].calls] == ["", " \n"]


def test_case_arguments_that_are_no_object_are_quoted_and_bounded() -> None:
    for raw in json.loads(case_bytes("history", "history-non-object-arguments", "arguments.json")):
        sent = sendable_arguments(raw)
        assert is_object(sent)
        assert len(sent) <= max(len(raw), ECHO_CHARS + 100)
    assert sendable_arguments('"{\\"path\\":\\"a\\"}"') == '{"path":"a"}'
    assert json.loads(sendable_arguments("[1,2]")) == {"invalid_arguments": "[1,2]"}
    long = json.loads(sendable_arguments("x" * 5000))["invalid_arguments"]
    assert long.endswith("(5000 characters)")
    assert len(long) < 850


def test_case_stored_arguments_that_do_not_parse_are_never_read_out_as_an_empty_object() -> None:
    row = json.loads(case_bytes("history", "history-stored-bad-json", "row.json"))
    assert readable_arguments(row["arguments"]) is None
    sent = json.loads(sendable_arguments(row["arguments"]))
    assert sent == {"invalid_arguments": row["arguments"]}
    assert readable_arguments(" ") == {}
    assert readable_arguments('{"a":1}') == {"a": 1}


def test_case_truncated_arguments_are_quoted_not_completed() -> None:
    history = from_openai(json.loads(case_bytes("history", "history-truncated-arguments", "transcript.json")))
    repaired, notes = repair(history)
    sent = msgspec.json.decode(repaired[1].calls[0].arguments)
    assert set(sent) == {"invalid_arguments"}
    assert sent["invalid_arguments"] == history[1].calls[0].arguments
    assert "no JSON object" in notes[0]


@pytest.mark.parametrize("raw", ["{}", '{"a": {"b": [1]}}', ' {"a": 1} '])
def test_an_object_is_sent_byte_for_byte(raw: str) -> None:
    assert sendable_arguments(raw) == raw
