"""A request as a dict in the shape of chat completions, and back."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_daemon.core.ports import Request, ToolSpec
from hermes_daemon.middleware.request_shape import as_dict, from_dict
from hermes_protocol.content import ImagePart, Message, ReasoningPart, TextPart, ToolCall, ToolResult

HISTORY = (
    Message("user", (TextPart("look"), ImagePart("image/png", None, "blob_1"))),
    Message("assistant", (ReasoningPart("hm"), TextPart("I look"), ToolCall("c1", "read_file", '{"path": "a"}'))),
    Message("tool", (ToolResult("c1", "text"),)),
)
REQUEST = Request("m", "be kind", HISTORY, (ToolSpec("read_file", "reads", {"type": "object"}),), 100, 0.5, "high")


def test_a_request_that_comes_back_as_it_went_is_the_very_same() -> None:
    assert from_dict(as_dict(REQUEST), REQUEST) is REQUEST


@given(st.lists(st.sampled_from(range(3)), max_size=6))
def test_messages_that_are_moved_or_left_out_keep_their_own_form(order: list[int]) -> None:
    shape = as_dict(REQUEST)
    shape["messages"] = [shape["messages"][index + 1] for index in order]
    changed = from_dict(shape, REQUEST)
    assert changed.system == ""
    assert [message is HISTORY[index] for message, index in zip(changed.messages, order, strict=True)] == [True] * len(
        order
    )


def test_new_messages_are_read() -> None:
    shape = as_dict(REQUEST)
    shape["messages"] += [
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "c2", "type": "function", "function": {"name": "ls", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c2", "content": "a b"},
        {"role": "user", "content": [{"type": "text", "text": "go"}]},
    ]  # fmt: skip
    assert from_dict(shape, REQUEST).messages[3:] == (
        Message("assistant", (ToolCall("c2", "ls", "{}"),)),
        Message("tool", (ToolResult("c2", "a b"),)),
        Message("user", (TextPart("go"),)),
    )


def test_keys_that_a_request_does_not_have_go_into_the_body() -> None:
    changed = from_dict(
        {**as_dict(REQUEST), "top_p": 0.9, "extra_body": {"x": 1}, "extra_headers": {"h": "v"}}, REQUEST
    )
    assert changed.extra_body == {"x": 1, "top_p": 0.9}
    assert changed.extra_headers == {"h": "v"}


def test_a_key_that_is_taken_out_is_not_sent() -> None:
    shape = as_dict(REQUEST)
    del shape["temperature"], shape["reasoning_effort"], shape["tools"]
    changed = from_dict(shape, REQUEST)
    assert (changed.temperature, changed.thinking, changed.tools) == (None, None, ())


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("model", 3, "request.model: got int"),
        ("messages", None, "request.messages: expected a list, got NoneType"),
        ("messages", ["x"], r"request.messages\[0\]: expected an object with a role"),
        ("messages", [{"role": "wizard"}], r"request.messages\[0\].role: expected system, user, assistant or tool"),
        ("messages", [{"role": "assistant", "tool_calls": [{}]}], r"request.messages\[0\].tool_calls: 'function'"),
        ("tools", [{"name": "flat"}], "request.tools: 'function' is missing"),
    ],
)
def test_what_does_not_fit_names_the_key(key: str, value: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        from_dict({**as_dict(REQUEST), key: value}, REQUEST)
