from __future__ import annotations

import json
from typing import Any

import pytest

from hermes_daemon.core.ports import CallDelta, Chunk, ReasoningDelta, Reply, TextDelta
from hermes_daemon.providers.chat_stream import ReplyReader
from hermes_daemon.providers.sse import SSEReader
from hermes_daemon.providers.wire import ErrorObject, Malformed
from hermes_protocol.content import ReasoningPart, Usage
from tests.support.shared_data import case_bytes


def event(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> str:
    return json.dumps({"choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}], **more})


def call(arguments: Any = None, **fields: Any) -> dict[str, Any]:
    name = fields.pop("name", None)
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return {"tool_calls": [{"function": function, **fields}]}


def read(*data: str, tools: tuple[str, ...] = (), used: tuple[str, ...] = ()) -> tuple[list[Chunk], Reply]:
    reader = ReplyReader(tools, used)
    chunks = [chunk for one in data for chunk in reader.feed(one)]
    reply = reader.reply()
    assert reply is not None
    return chunks, reply


def replay(name: str, file: str = "body.sse") -> Reply | None:
    body = case_bytes("stream", name, file)
    reader, sse = ReplyReader(), SSEReader()
    for one in sse.feed(body) + sse.finish():
        if not reader.done:
            reader.feed(one.data)
    return reader.reply()


def pairs(reply: Reply) -> list[tuple[str, str]]:
    return [(one.name, one.arguments) for one in reply.message.calls]


def test_text_and_usage_of_an_ordinary_stream() -> None:
    chunks, reply = read(
        event({"role": "assistant", "content": ""}), event({"content": "Hel"}), event({"content": "lo"}),
        event({}, "stop"),
        json.dumps({"choices": [], "usage": {
            "prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4},
            "completion_tokens_details": {"reasoning_tokens": 1}}}),
        "[DONE]",
    )  # fmt: skip
    assert chunks == [TextDelta("Hel"), TextDelta("lo")]
    assert reply.message.text == "Hello"
    assert reply.stop == "stop"
    assert reply.usage == Usage(9, 2, cache_read_tokens=4, reasoning_tokens=1)


def test_usage_that_grows_with_every_chunk_is_counted_once() -> None:
    _, reply = read(
        event({"content": "a"}, usage={"prompt_tokens": 5, "completion_tokens": 1}),
        event({"content": "b"}, "stop", usage={"prompt_tokens": 5, "completion_tokens": 2}),
    )
    assert reply.usage == Usage(5, 2)


def test_usage_of_nonsense_is_no_failure() -> None:
    _, reply = read(event({}, "stop", usage={"prompt_tokens": "many", "completion_tokens": -1, "cost": True}))
    assert reply.usage == Usage()
    assert read(event({}, "stop", usage=None))[1].usage is None


def test_both_names_of_the_reasoning_field_and_no_word_twice() -> None:
    for field in ("reasoning_content", "reasoning"):
        chunks, reply = read(event({field: "hm"}), event({"content": "yes"}, "stop"))
        assert chunks == [ReasoningDelta("hm"), TextDelta("yes")]
        assert reply.message.parts[0] == ReasoningPart("hm", field)
    _, reply = read(event({"reasoning_content": "hm", "reasoning": "hm"}), event({}, "stop"))
    assert reply.message.parts == (ReasoningPart("hm", "reasoning_content"),)


def test_content_given_as_a_list_of_parts() -> None:
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "yes"}]
    chunks, _ = read(event({"content": parts}, "stop"))
    assert chunks == [ReasoningDelta("hm"), TextDelta("yes")]


@pytest.mark.parametrize(
    ("finish", "stop"),
    [("stop", "stop"), ("eos", "stop"), ("length", "length"), ("max_tokens", "length"), ("content_filter", "refusal")],
)
def test_finish_reasons(finish: str, stop: str) -> None:
    assert read(event({"content": "x"}, finish))[1].stop == stop


def test_a_refusal_is_text_and_a_stop_of_its_own() -> None:
    chunks, reply = read(event({"refusal": "I will not."}), event({}, "stop"))
    assert chunks == [TextDelta("I will not.")]
    assert reply.stop == "refusal"


def test_calls_make_the_stop_whatever_the_finish_reason_says() -> None:
    assert read(event(call("{}", index=0, id="a", name="t")), event({}, "stop"))[1].stop == "tool_calls"
    assert read(event({"content": "x"}), event({}, "tool_calls"))[1].stop == "stop"
    assert read(event(call('{"a', index=0, id="a", name="t")), event({}, "length"))[1].stop == "length"


def test_only_the_first_choice_is_read() -> None:
    data = {"choices": [{"index": 1, "delta": {"content": "other"}}, {"index": 0, "delta": {"content": "mine"}}]}
    chunks, _ = read(json.dumps(data), event({}, "stop"))
    assert chunks == [TextDelta("mine")]


def test_a_whole_completion_instead_of_a_stream_is_read_too() -> None:
    message = {"content": "hi", "tool_calls": [{"id": "a", "function": {"name": "t", "arguments": "{}"}}]}
    chunks, reply = read(json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}))
    assert chunks == [TextDelta("hi"), CallDelta(0, "t", 2)]
    assert pairs(reply) == [("t", "{}")]


# --- tool calls -----------------------------------------------------------------------------------------------------


def test_interleaved_parallel_calls_are_routed_by_index() -> None:
    chunks, reply = read(
        event(call("", index=1, id="b", name="two")), event(call("", index=0, id="a", name="one")),
        event(call('{"n"', index=0)), event(call('{"m"', index=1)), event(call(":1}", index=0)),
        event(call(":2}", index=1)), event({}, "tool_calls"),
    )  # fmt: skip
    assert pairs(reply) == [("two", '{"m":2}'), ("one", '{"n":1}')]
    assert chunks[-1] == CallDelta(0, "two", 7)


def test_deltas_of_two_ids_on_one_index_are_routed_by_id() -> None:
    _, reply = read(
        event(call('{"n":1}', index=0, id="a", name="t")), event(call('{"n"', index=0, id="b", name="t")),
        event(call(":2}", index=0, id="b")), event({}, "tool_calls"),
    )  # fmt: skip
    assert pairs(reply) == [("t", '{"n":1}'), ("t", '{"n":2}')]


def test_an_id_that_changes_with_every_delta_is_one_call() -> None:
    _, reply = read(
        event(call('{"n"', index=0, id="r1", name="t")), event(call(":1", index=0, id="r2")),
        event(call("}", index=0, id="r3")), event({}, "tool_calls"),
    )  # fmt: skip
    assert pairs(reply) == [("t", '{"n":1}')]


def test_without_any_index_a_new_id_is_a_new_call() -> None:
    _, reply = read(
        event(call("", id="a", name="t")), event(call('{"n":1}')), event(call("", id="b", name="t")),
        event(call('{"n":2}')), event({}, "tool_calls"),
    )  # fmt: skip
    assert pairs(reply) == [("t", '{"n":1}'), ("t", '{"n":2}')]


def test_a_name_repeated_or_in_pieces() -> None:
    _, reply = read(
        event(call('{"n"', index=0, id="a", name="read")), event(call(":1}", index=0, id="a", name="read")),
        event({}, "tool_calls"),
    )  # fmt: skip
    assert pairs(reply) == [("read", '{"n":1}')]
    _, reply = read(
        event(call(index=0, id="a", name="read_")), event(call(index=0, name="file")), event(call("{}", index=0)),
        event({}, "tool_calls"), tools=("read_file",),
    )  # fmt: skip
    assert pairs(reply) == [("read_file", "{}")]


def test_two_known_tools_without_arguments_on_one_index_are_two_calls() -> None:
    _, reply = read(
        event(call("", index=0, name="today")), event(call("", index=0, name="weather")), event({}, "tool_calls"),
        tools=("today", "weather"),
    )  # fmt: skip
    assert pairs(reply) == [("today", ""), ("weather", "")]


def test_arguments_as_an_object_and_the_whole_text_once_more_at_the_end() -> None:
    _, reply = read(event(call({"a": 1}, index=0, id="x", name="t")), event({}, "tool_calls"))
    assert pairs(reply) == [("t", '{"a":1}')]
    _, reply = read(
        event(call('{"a"', index=0, id="x", name="t")), event(call(":1}", index=0)),
        event(call('{"a":1}', index=0)), event({}, "tool_calls"),
    )  # fmt: skip
    assert pairs(reply) == [("t", '{"a":1}')]


def test_missing_and_repeated_ids_become_unique_and_fresh() -> None:
    _, reply = read(
        event(call("{}", index=0, id="call_0", name="t")), event(call("{}", index=1, id="call_0", name="t")),
        event(call("{}", index=2, name="t")), event({}, "tool_calls"),
    )  # fmt: skip
    ids = [one.call_id for one in reply.message.calls]
    assert ids[0] == "call_0"
    assert len(set(ids)) == 3
    assert all(ids)
    _, reply = read(event(call("{}", index=0, id="call_0", name="t")), event({}, "tool_calls"), used=("call_0",))
    assert reply.message.calls[0].call_id != "call_0"


def test_an_empty_placeholder_is_no_call() -> None:
    _, reply = read(event(call("", index=0)), event({"content": "x"}, "stop"))
    assert reply.message.calls == ()


def test_the_older_function_call_field() -> None:
    _, reply = read(event({"function_call": {"name": "t", "arguments": "{}"}}), event({}, "function_call"))
    assert pairs(reply) == [("t", "{}")]


# --- what is wrong -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    ["{", "[]", "7", '{"choices": 4}', '{"choices": [7]}', event({"content": 7}), event({"tool_calls": {"a": 1}}),
     event({"tool_calls": ["x"]}), event({"tool_calls": [{"function": "x"}]})],
)  # fmt: skip
def test_what_the_format_does_not_know_is_malformed(data: str) -> None:
    with pytest.raises(Malformed):
        ReplyReader().feed(data)


def test_an_error_object_and_an_error_finish_are_errors() -> None:
    with pytest.raises(ErrorObject) as caught:
        ReplyReader().feed('{"error": {"message": "overloaded", "code": 503}}')
    assert caught.value.error["code"] == 503
    with pytest.raises(ErrorObject):
        ReplyReader().feed(event({"content": "x"}, "error"))


# --- handed cases ---------------------------------------------------------------------------------------------------


def test_case_error_object_and_done_without_finish() -> None:
    with pytest.raises(ErrorObject, match="upstream disconnected"):
        replay("chat-error-then-done", "error.sse")
    assert replay("chat-error-then-done", "bare.sse") is None


def test_case_parallel_calls_that_share_an_index() -> None:
    reply = replay("stream-parallel-same-index")
    assert reply is not None
    assert [(c.call_id, c.arguments) for c in reply.message.calls] == [
        ("x1", '{"query":"Emma"}'),
        ("x2", '{"query":"Virginia"}'),
    ]
    reply = replay("stream-parallel-same-index-no-id")
    assert reply is not None
    assert pairs(reply) == [("add", '{"a":2,"b":2}'), ("weather", '{"place":"Tokyo"}')]
    assert len({c.call_id for c in reply.message.calls}) == 2


def test_case_usage_in_the_last_content_chunk() -> None:
    reply = replay("stream-usage-with-content")
    assert reply is not None
    assert reply.message.text == "last words"
    assert reply.usage == Usage(5, 2)


def test_case_no_space_and_keepalive_comments() -> None:
    plain, commented = replay("stream-data-no-space"), replay("stream-keepalive-comment")
    assert plain is not None
    assert commented is not None
    assert plain.message.text == "AB"
    assert commented.message.text == "hi"


def test_case_a_malformed_chunk_is_never_a_whole_answer() -> None:
    with pytest.raises(Malformed):
        replay("stream-malformed-chunk")


@pytest.mark.parametrize(("file", "text"), [("orphan.json", "Fine."), ("mid.json", "The tag `</think>` closes it.")])
def test_case_orphan_think_close(file: str, text: str) -> None:
    deltas = json.loads(case_bytes("stream", "think-orphan-close", file))
    _, reply = read(*map(event, deltas), event({}, "stop"))
    assert reply.message.text == text
