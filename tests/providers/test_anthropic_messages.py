from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest

from hermes_daemon.core.ports import Chunk, Reply, Request
from hermes_daemon.core.settings import ProviderSettings
from hermes_daemon.providers.anthropic_messages import request_body
from hermes_daemon.providers.anthropic_stream import MessagesReader
from hermes_daemon.providers.http_provider import HttpProvider
from hermes_daemon.providers.sse import SSEReader
from hermes_daemon.providers.wire import ErrorObject, Malformed, Quirks, Terms, Traits, Unsendable
from hermes_protocol.content import Message, ReasoningPart, TextPart, ToolCall, Usage
from tests.support.formats_talk import block_delta, block_start, conversation, recorded, sse
from tests.support.model_streams import answer, asking
from tests.support.raw_http import HttpConnection, HttpRequest, RawHttp
from tests.support.sdk_types import check_request
from tests.support.shared_data import case_bytes

PARAMS = "types.message_create_params.MessageCreateParamsStreaming"
START = {"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 3, "output_tokens": 1}}}


def body(request: Request, **traits: Any) -> dict[str, Any]:
    sent: dict[str, Any] = json.loads(request_body(request, Terms(traits=Traits(**traits))))
    check_request(sent, "anthropic", PARAMS)
    return sent


def read(*pieces: bytes) -> tuple[list[Chunk], Reply | None]:
    sse_reader, reader, chunks = SSEReader(), MessagesReader(model="m"), list[Chunk]()
    for piece in pieces:
        for event in sse_reader.feed(piece):
            chunks += reader.feed(event.data)
    return chunks, reader.reply()


def ended(*events: dict[str, Any], reason: str = "end_turn") -> Reply:
    end = {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 5}}
    reply = read(*sse(START, *events, end, {"type": "message_stop"}))[1]
    assert reply is not None
    return reply


# --- the request ----------------------------------------------------------------------------------------------------


def test_a_round_in_the_words_of_the_format() -> None:
    sent = body(conversation(max_output=100))
    assert sent["max_tokens"] == 100
    assert [row["role"] for row in sent["messages"]] == ["user", "assistant", "user"]
    calls = [block for block in sent["messages"][1]["content"] if block["type"] == "tool_use"]
    assert [call["input"] for call in calls] == [{"path": "a.txt"}, {}]
    results = sent["messages"][2]["content"]
    assert [(r["tool_use_id"], r["content"], r.get("is_error")) for r in results] == [
        ("call_a", "result 0", None),
        ("call_b", "result 1", True),
    ]
    assert sent["tools"][0]["input_schema"]["properties"] == {"path": {"type": "string"}}


def test_results_stand_before_the_words_of_the_user() -> None:
    request = conversation()
    steered = msgspec.structs.replace(request, messages=(*request.messages, Message("user", (TextPart("Hurry."),))))
    kinds = [block["type"] for block in body(steered)["messages"][-1]["content"]]
    assert kinds == ["tool_result", "tool_result", "text"]


def test_at_most_four_breakpoints_at_stable_places() -> None:
    sent = body(conversation())
    marked = [b for row in sent["messages"] for b in row["content"] if "cache_control" in b]
    assert "cache_control" in sent["tools"][-1]
    assert "cache_control" in sent["system"][-1]
    assert [block["type"] for block in marked] == ["text", "tool_result"]
    text = json.dumps(body(msgspec.structs.replace(conversation(), messages=conversation().messages * 5)))
    assert text.count("cache_control") == 4
    assert "cache_control" not in json.dumps(body(conversation(), cache=False))
    off = request_body(conversation(), Terms(prompt_caching=False))
    assert b"cache_control" not in off


def test_a_history_that_begins_with_the_model_and_has_blank_texts_is_legal() -> None:
    messages = (
        Message("assistant", (TextPart("Hello!"),)),
        Message("user", (TextPart("  "), TextPart("hi"))),
        Message("user", (TextPart("there"),)),
    )
    sent = body(Request("m", "", messages))
    assert [row["role"] for row in sent["messages"]] == ["user", "assistant", "user"]
    assert [block["text"] for block in sent["messages"][2]["content"]] == ["hi", "there"]
    assert "system" not in sent


def test_ids_of_other_providers_are_made_fit_and_still_pair() -> None:
    call = ToolCall("functions.read:0 ü", "read_file", "{}")
    sent = body(conversation(answered=Message("assistant", (call,))))
    given = sent["messages"][1]["content"][0]["id"]
    assert given.isascii()
    assert " " not in given
    assert sent["messages"][2]["content"][0]["tool_use_id"] == given


def test_a_temperature_is_sent_while_not_thinking() -> None:
    assert json.loads(request_body(asking("x", temperature=0.3), Terms()))["temperature"] == 0.3
    assert "temperature" not in json.loads(request_body(asking("x", temperature=0.3, thinking="low"), Terms()))
    refused = Terms(Quirks(temperature=False))
    assert "temperature" not in json.loads(request_body(asking("x", temperature=0.3), refused))


def test_efforts_become_budgets_that_leave_room_for_the_answer() -> None:
    sent = body(asking("x", thinking="high"))
    assert sent["thinking"] == {"type": "enabled", "budget_tokens": 16_384}
    assert sent["max_tokens"] > 16_384
    small = body(asking("x", thinking="max", max_output=8000))
    assert small["thinking"]["budget_tokens"] == 4000
    assert "thinking" not in body(asking("x", thinking="none"))
    assert "thinking" not in body(asking("x"))
    with pytest.raises(Unsendable, match="no room to think"):
        body(asking("x", thinking="low", max_output=1500))


def test_models_that_choose_their_budget_are_told_the_effort() -> None:
    sent = body(asking("x", thinking="xhigh"), adaptive_thinking=True)
    assert sent["thinking"] == {"type": "adaptive"}
    assert sent["output_config"] == {"effort": "xhigh"}
    assert body(asking("x", thinking="none"), adaptive_thinking=True)["thinking"] == {"type": "disabled"}
    with pytest.raises(Unsendable, match=r"'minimal'; it takes none, low"):
        body(asking("x", thinking="minimal"), adaptive_thinking=True)
    with pytest.raises(Unsendable, match="'ultra'"):
        body(asking("x", thinking="ultra"))
    with pytest.raises(Unsendable, match="does not reason"):
        body(asking("x", thinking="low"), reasoning=False)


def test_calls_of_an_answer_without_thinking_are_answered_without_thinking() -> None:
    assert "thinking" not in body(conversation(thinking="low"))
    signed = ended(*_thinking(), reason="tool_use").message
    assert "thinking" in body(conversation(answered=signed, thinking="low"))


# --- thinking that goes back ----------------------------------------------------------------------------------------


def _thinking() -> list[dict[str, Any]]:
    return [
        block_start(0, {"type": "thinking", "thinking": "", "signature": ""}),
        block_delta(0, "thinking_delta", thinking="plan"),
        block_delta(0, "signature_delta", signature="sig"),
        {"type": "content_block_stop", "index": 0},
        block_start(1, {"type": "tool_use", "id": "t1", "name": "todo", "input": {}}),
        block_delta(1, "input_json_delta", partial_json='{"n":1}'),
        {"type": "content_block_stop", "index": 1},
    ]


def test_case_signatures_in_pieces_go_back_whole_and_first() -> None:
    stream = case_bytes("stream", "anthropic-signature-pieces", "body.sse")
    expected = [
        {"type": "thinking", "thinking": "plan", "signature": "AbCdEf"},
        {"type": "redacted_thinking", "data": "ZZZ"},
        {"type": "tool_use", "id": "tu1", "name": "todo", "input": {"a": 1}},
    ]
    for cut in range(len(stream) + 1):
        _, reply = read(stream[:cut], stream[cut:])
        assert reply is not None
        assert reply.stop == "tool_calls"
        assert reply.message.parts[0].text == "plan"  # type: ignore[union-attr]
        assert reply.usage == Usage(1, 5)
        if cut % 100 == 0:
            assert body(conversation(answered=reply.message))["messages"][1]["content"] == expected


def test_a_part_survives_being_stored() -> None:
    reply = ended(*_thinking(), reason="tool_use")
    stored = msgspec.json.decode(msgspec.json.encode(reply.message), type=Message)
    sent = body(conversation(answered=stored))
    assert sent["messages"][1]["content"][0] == {"type": "thinking", "thinking": "plan", "signature": "sig"}


def test_thinking_without_a_signature_is_shown_and_not_sent_back() -> None:
    reply = ended(block_start(0, {"type": "thinking", "thinking": "hm"}), block_start(1, {"type": "text", "text": "a"}))
    assert reply.message.parts == (ReasoningPart("hm"), TextPart("a"))
    request = Request("m", "", (*asking("x").messages, reply.message, *asking("y").messages))
    assert "hm" not in json.dumps(body(request))


# --- the answer -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "refusal"),
        ("pause_turn", "stop"),
        ("a_new_reason", "stop"),
    ],
)
def test_reasons_of_the_end(reason: str, stop: str) -> None:
    assert ended(block_start(0, {"type": "text", "text": "a"}), reason=reason).stop == stop


def test_usage_counts_cached_tokens_among_the_input_and_sums_are_no_differences() -> None:
    usage = {"input_tokens": 10, "cache_read_input_tokens": 70, "cache_creation_input_tokens": 20, "output_tokens": 1}
    start = {"type": "message_start", "message": {"usage": usage}}
    middle = {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 4}}
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}}
    _, reply = read(*sse(start, middle, end))
    assert reply is not None
    assert reply.usage == Usage(100, 9, cache_read_tokens=70, cache_write_tokens=20)
    _, silent = read(*sse({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}))
    assert silent is not None
    assert silent.usage is None


def test_the_whole_input_at_the_start_of_a_block_counts() -> None:
    reply = ended(block_start(0, {"type": "tool_use", "id": "t", "name": "todo", "input": {"n": 1}}), reason="tool_use")
    assert reply.message.calls == (ToolCall("t", "todo", '{"n":1}'),)


def test_a_call_without_arguments_is_whole_only_when_its_block_is() -> None:
    start = block_start(0, {"type": "tool_use", "id": "t", "name": "todo", "input": {}})
    end = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}}
    with pytest.raises(Malformed, match="the call of 'todo' in block 0 is half"):
        read(*sse(START, start, end))
    assert read(*sse(START, start, {"type": "content_block_stop", "index": 0}, end))[1] is not None


def test_an_id_that_the_history_has_is_replaced() -> None:
    reader = MessagesReader({"t"}, "m")
    for event in (
        block_start(0, {"type": "tool_use", "id": "t", "name": "todo", "input": {"n": 1}}),
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
    ):
        reader.feed(json.dumps(event))
    reply = reader.reply()
    assert reply is not None
    assert reply.message.calls[0].call_id not in ("", "t")


@pytest.mark.parametrize(
    "event",
    [
        "{",
        "[]",
        '{"no": "type"}',
        '{"type": "content_block_delta", "index": 9, "delta": {"type": "text_delta", "text": "x"}}',
        '{"type": "content_block_start", "index": 0}',
        '{"type": "content_block_stop"}',
    ],
)
def test_what_is_not_the_format_is_malformed(event: str) -> None:
    with pytest.raises(Malformed):
        MessagesReader().feed(event)


def test_an_error_event_is_an_error() -> None:
    with pytest.raises(ErrorObject, match="Overloaded"):
        MessagesReader().feed('{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}')


def test_an_answer_that_was_not_streamed_is_read_too() -> None:
    reader = MessagesReader(model="m")
    whole = {"type": "message", "content": [{"type": "text", "text": "Hello"}], "stop_reason": "end_turn",
             "usage": {"input_tokens": 2, "output_tokens": 1}}  # fmt: skip
    reader.feed(json.dumps(whole))
    reply = reader.reply()
    assert reply is not None
    assert (reply.message.text, reply.usage) == ("Hello", Usage(2, 1))


def test_a_paused_answer_is_asked_on_and_given_as_one() -> None:
    """The provider's own tools may end a response in their middle; what they did goes back unread."""
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
    first = sse(
        START,
        block_start(0, search),
        block_delta(0, "input_json_delta", partial_json='{"query": "x"}'),
        {"type": "content_block_stop", "index": 0},
        block_start(1, found),
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": "pause_turn"}, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    )
    second = sse(
        START,
        block_start(0, {"type": "text", "text": "Found."}),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    )

    async def handler(request: HttpRequest, connection: HttpConnection) -> None:
        await connection.begin_stream()
        await connection.piece(b"".join(first if len(request.json()["messages"]) == 1 else second))
        await connection.end_stream()

    async def run() -> None:
        async with RawHttp(handler) as server:
            settings = ProviderSettings(base_url=server.url, format="anthropic_messages")
            provider = HttpProvider("acme", settings, {}.get)
            reply = await answer(provider, asking("x"))
            assert (reply.message.text, reply.stop) == ("Found.", "stop")
            assert reply.usage == Usage(6, 7)
            sent = server.requests[1].json()["messages"][1]
            assert sent == {"role": "assistant", "content": [{**search, "input": {"query": "x"}}, found]}
            await provider.close()

    asyncio.run(run())


def test_the_sdk_reads_what_the_recordings_hold() -> None:
    """The recording that the other tests use is one that the vendor's own types accept."""
    types = pytest.importorskip("anthropic", reason="the anthropic SDK is not installed").types
    from pydantic import TypeAdapter

    judge = TypeAdapter(types.RawMessageStreamEvent)
    for piece in recorded("anthropic_messages"):
        event = json.loads(piece.split(b"data: ")[1])
        if event["type"] not in ("ping", "message_start"):
            judge.validate_python(event)
