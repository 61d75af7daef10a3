from __future__ import annotations

import json
from typing import Any

from hermes_daemon.core.ports import Request, ToolSpec
from hermes_daemon.providers.chat_request import request_body
from hermes_daemon.providers.wire import Quirks, Terms
from hermes_protocol.content import ImagePart, Message, ReasoningPart, TextPart, ToolCall, ToolResult


def user(text: str) -> Message:
    return Message("user", (TextPart(text),))


def body(*messages: Message, system: str = "", quirks: Quirks | None = None, **fields: Any) -> dict[str, Any]:
    extra = fields.pop("extra", {})
    request = Request("m", system, messages, **fields)
    return json.loads(request_body(request, Terms(quirks or Quirks(), extra=extra)))


def test_a_first_request() -> None:
    tools = (ToolSpec("t", "does it", {"type": "object"}),)
    sent = body(user("hi"), system="be brief", tools=tools, max_output=5, temperature=0.5, thinking="low")
    assert sent == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}],
        "tools": [
            {"type": "function", "function": {"name": "t", "description": "does it", "parameters": {"type": "object"}}}
        ],
        "max_tokens": 5,
        "temperature": 0.5,
        "reasoning_effort": "low",
    }


def test_what_a_server_refused_is_said_otherwise() -> None:
    sent = body(user("hi"), quirks=Quirks(include_usage=False, output_limit="max_completion_tokens"), max_output=5)
    assert "stream_options" not in sent
    assert sent["max_completion_tokens"] == 5


def test_a_round_of_calls_and_results() -> None:
    calls = Message("assistant", (TextPart("looking"), ToolCall("c1", "t", '{"a":1}'), ToolCall("c2", "t", " ")))
    sent = body(
        user("x"), calls, Message("tool", (ToolResult("c1", "one"),)), Message("tool", (ToolResult("c2", "2"),))
    )
    assert [row["role"] for row in sent["messages"]] == ["user", "assistant", "tool", "tool"]
    assert sent["messages"][1]["content"] == "looking"
    assert [c["function"]["arguments"] for c in sent["messages"][1]["tool_calls"]] == ['{"a":1}', "{}"]
    assert sent["messages"][2] == {"role": "tool", "tool_call_id": "c1", "content": "one"}


def test_neighbours_of_one_role_are_joined() -> None:
    said = Message("assistant", (TextPart("half an"),))
    sent = body(user("a"), user("b"), said, Message("assistant", (TextPart("answer"), ToolCall("c", "t", "{}"))))
    assert [row["role"] for row in sent["messages"]] == ["user", "assistant"]
    assert sent["messages"][0]["content"] == "a\n\nb"
    assert sent["messages"][1]["content"] == "half an\n\nanswer"
    assert sent["messages"][1]["tool_calls"][0]["id"] == "c"


def test_system_messages_open_the_request_or_become_a_users() -> None:
    note = Message("system", (TextPart("note"),))
    sent = body(note, user("a"), Message("assistant", (TextPart("b"),)), note, system="s")
    assert sent["messages"][0] == {"role": "system", "content": "s\n\nnote"}
    assert sent["messages"][-1] == {"role": "user", "content": "note"}


def test_images_are_sent_as_data_addresses_also_when_joined() -> None:
    picture = Message("user", (TextPart("look"), ImagePart("image/png", "QQ=="), ImagePart("image/png", None, "b1")))
    content = body(user("first"), picture)["messages"][0]["content"]
    assert [part["type"] for part in content] == ["text", "text", "image_url", "text"]
    assert content[2]["image_url"]["url"] == "data:image/png;base64,QQ=="
    assert "not available" in content[3]["text"]


def test_thoughts_of_this_turn_go_back_in_their_field_and_older_ones_do_not() -> None:
    def thinking(call_id: str) -> tuple[Message, Message]:
        parts = (ReasoningPart("hm", "reasoning_content"), ReasoningPart("sig", "other"), ToolCall(call_id, "t", "{}"))
        return Message("assistant", parts), Message("tool", (ToolResult(call_id, "r"),))

    rows = body(user("a"), *thinking("c1"), user("b"), *thinking("c2"))["messages"]
    assert "reasoning_content" not in rows[1]
    assert rows[4]["reasoning_content"] == "hm"
    assert "sig" not in json.dumps(rows)


def test_text_that_no_utf8_holds_is_sent_repaired() -> None:
    sent = body(user("pair \ud83c\udf78, lone \ud83c."))
    assert sent["messages"][0]["content"] == "pair \U0001f378, lone \ufffd."


def test_extra_fields_yield_to_what_the_request_says() -> None:
    sent = body(user("x"), extra={"temperature": 0.1, "cache_prompt": True}, temperature=0.9)
    assert sent["temperature"] == 0.9
    assert sent["cache_prompt"] is True
