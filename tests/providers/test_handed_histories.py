"""Damaged histories, repaired, in the words of every format: what leaves is what each API accepts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_daemon.core.history import repair
from hermes_daemon.core.ports import Request
from hermes_daemon.providers.formats import FORMATS
from hermes_daemon.providers.wire import Terms
from hermes_protocol.content import Message, Part, ReasoningPart, TextPart, ToolCall, ToolResult
from tests.support.formats_talk import FORMATS as NAMES
from tests.support.sdk_types import check_request
from tests.support.shared_data import case

TYPES = {
    "openai_chat": ("openai", "types.chat.completion_create_params.CompletionCreateParamsStreaming"),
    "openai_responses": ("openai", "types.responses.response_create_params.ResponseCreateParamsStreaming"),
    "anthropic_messages": ("anthropic", "types.message_create_params.MessageCreateParamsStreaming"),
}
every_format = pytest.mark.parametrize("name", NAMES)


def sent(name: str, messages: tuple[Message, ...]) -> dict[str, Any]:
    """The body of a request with this history, repaired, and one more question."""
    repaired, _ = repair((*messages, Message("user", (TextPart("one more"),))))
    body = json.loads(FORMATS[name].body(Request("m", "", repaired), Terms()))  # type: ignore[index]
    assert isinstance(body, dict)
    return body


def pairs(name: str, body: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """(what calls are known by, what results name), each in order: ids, or tools where the format has no ids."""
    if name == "openai_responses":
        items = body["input"]
        calls = [item["call_id"] for item in items if item.get("type") == "function_call"]
        return calls, [item["call_id"] for item in items if item.get("type") == "function_call_output"]
    rows = body["messages"]
    if name == "anthropic_messages":
        blocks = [block for row in rows for block in row["content"]]
        calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
        return calls, [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    made = [call for row in rows for call in row.get("tool_calls", ())]
    if name == "ollama":
        return [call["function"]["name"] for call in made], [row["tool_name"] for row in rows if row["role"] == "tool"]
    return [call["id"] for call in made], [row["tool_call_id"] for row in rows if row["role"] == "tool"]


def check(name: str, body: dict[str, Any]) -> None:
    if name in TYPES:
        check_request(body, *TYPES[name])
    calls, results = pairs(name, body)
    # Ids may come in any order; where there are none, the order is what pairs them.
    assert (calls == results) if name == "ollama" else (sorted(calls) == sorted(results))
    if name != "ollama":
        assert len(set(calls)) == len(calls)
    if name == "anthropic_messages":
        roles = [row["role"] for row in body["messages"]]
        assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]
        assert all(row["content"] for row in body["messages"])
    assert "one more" in json.dumps(body)


def stored(rows: list[dict[str, Any]]) -> tuple[Message, ...]:
    """The messages that a transcript in chat rows stands for."""
    messages = []
    for row in rows:
        parts: list[Part] = []
        if row["role"] == "tool":
            parts.append(ToolResult(row["tool_call_id"], row["content"]))
        else:
            parts += [TextPart(row["content"])] if row.get("content") else []
            for call in row.get("tool_calls") or ():
                parts.append(ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"]))
        messages.append(Message(row["role"], tuple(parts)))
    return tuple(messages)


@every_format
@pytest.mark.parametrize(
    "transcript",
    [
        "history-compaction-orphan-call",
        "history-compaction-orphan-result",
        "history-empty-arguments",
        "history-truncated-arguments",
    ],
)
def test_case_a_damaged_transcript_leaves_as_one_that_is_accepted(name: str, transcript: str) -> None:
    rows = json.loads((case("history", transcript) / "transcript.json").read_text())
    check(name, sent(name, stored(rows)))


@every_format
def test_case_arguments_that_never_parsed_are_quoted_and_not_lost(name: str) -> None:
    row = json.loads((case("history", "history-stored-bad-json") / "row.json").read_text())
    texts = json.loads((case("history", "history-non-object-arguments") / "arguments.json").read_text())
    calls = [(row["name"], row["arguments"]), *(("t", text) for text in texts)]
    for tool, arguments in calls:
        call = ToolCall("c", tool, arguments)
        messages = (Message("user", (TextPart("x"),)), Message("assistant", (call,)))
        body = sent(name, messages)
        check(name, body)
    assert "ls" in json.dumps(sent(name, (messages[0], Message("assistant", (ToolCall("c", *calls[0]),)))))


PARTS = st.one_of(
    st.builds(TextPart, st.text(max_size=8)),
    st.builds(ReasoningPart, st.text(max_size=8), st.none() | st.text(max_size=20)),
    st.builds(ToolCall, st.sampled_from(["a", "b", "", "x y"]), st.sampled_from(["t", "u"]), st.text(max_size=8)),
    st.builds(ToolResult, st.sampled_from(["a", "b", "", "x y"]), st.text(max_size=8)),
)
HISTORIES = st.lists(
    st.builds(
        Message,
        st.sampled_from(["user", "assistant", "tool", "system"]),
        st.lists(PARTS, max_size=4).map(tuple),
    ),
    max_size=8,
).map(tuple)


@every_format
@given(messages=HISTORIES)
def test_any_history_once_repaired_is_accepted(name: str, messages: tuple[Message, ...]) -> None:
    check(name, sent(name, messages))
