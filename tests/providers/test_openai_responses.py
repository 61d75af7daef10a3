from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from hermes_daemon.core.ports import Chunk, ProviderFailure, ReasoningDelta, Reply, Request, TextDelta
from hermes_daemon.providers.openai_responses import RESPONSES, request_body
from hermes_daemon.providers.responses_stream import ResponsesReader
from hermes_daemon.providers.sse import SSEReader
from hermes_daemon.providers.wire import ErrorObject, Malformed, Quirks, Terms, Traits, Unsendable
from hermes_protocol.content import Message, ReasoningPart, TextPart, ToolCall, Usage
from tests.support.formats_talk import conversation, recorded, sse
from tests.support.model_streams import asking
from tests.support.sdk_types import check_request
from tests.support.shared_data import case_bytes

PARAMS = "types.responses.response_create_params.ResponseCreateParamsStreaming"


def body(request: Request, quirks: Quirks | None = None, **traits: Any) -> dict[str, Any]:
    sent: dict[str, Any] = json.loads(request_body(request, Terms(quirks or Quirks(), Traits(**traits))))
    check_request(sent, "openai", PARAMS)
    return sent


def read(*pieces: bytes, used: tuple[str, ...] = ()) -> tuple[list[Chunk], Reply | None]:
    sse_reader, reader, chunks = SSEReader(), ResponsesReader(used, "m"), list[Chunk]()
    for piece in pieces:
        for event in sse_reader.feed(piece):
            chunks += reader.feed(event.data)
    return chunks, reader.reply()


def whole(*events: dict[str, Any], status: str = "completed", **response: Any) -> Reply:
    end = {"type": f"response.{status}", "response": {"id": "r", "status": status, **response}}
    reply = read(*sse(*events, end))[1]
    assert reply is not None
    return reply


def item(index: int, raw: dict[str, Any], how: str = "done") -> dict[str, Any]:
    return {"type": f"response.output_item.{how}", "output_index": index, "item": raw}


def text_item(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"type": "message", "id": "m1", "role": "assistant", "status": "completed", "content": list(parts)}


# --- the request ----------------------------------------------------------------------------------------------------


def test_a_round_as_items() -> None:
    sent = body(conversation(max_output=100, temperature=0.3, image=True))
    assert (sent["instructions"], sent["max_output_tokens"], sent["temperature"]) == ("Be brief.", 100, 0.3)
    assert (sent["store"], sent["stream"], sent["prompt_cache_key"]) == (False, True, "s1")
    assert [entry.get("type", entry.get("role")) for entry in sent["input"]] == [
        "user", "assistant", "function_call", "function_call", "function_call_output", "function_call_output",
    ]  # fmt: skip
    assert sent["input"][0]["content"][1]["image_url"] == "data:image/png;base64,aGk="
    assert sent["input"][3]["arguments"] == "{}"
    assert [entry["call_id"] for entry in sent["input"][2:]] == ["call_a", "call_b", "call_a", "call_b"]


def test_efforts_and_what_a_model_without_thinking_is_not_asked() -> None:
    sent = body(asking("x", thinking="xhigh"))
    assert sent["reasoning"] == {"effort": "xhigh", "summary": "auto"}
    assert sent["include"] == ["reasoning.encrypted_content"]
    assert "include" not in body(asking("x"), reasoning=False)
    assert "include" not in body(asking("x"), Quirks(encrypted_reasoning=False))
    with pytest.raises(Unsendable, match=r"'ultra'; it takes none, minimal, low"):
        body(asking("x", thinking="ultra"))


def test_a_refused_option_is_left_out_the_next_time() -> None:
    refusal = "Encrypted content is not supported with this model: reasoning.encrypted_content"
    learned = RESPONSES.otherwise(Quirks(), ProviderFailure("bad_request", refusal, provider="p", status=400))
    assert learned == Quirks(encrypted_reasoning=False)
    hot = ProviderFailure("bad_request", "Unsupported parameter: 'temperature'", provider="p", status=400)
    learned = RESPONSES.otherwise(Quirks(), hot)
    assert learned == Quirks(temperature=False)
    assert "temperature" not in body(asking("x", temperature=1.0), learned)
    assert RESPONSES.otherwise(Quirks(), ProviderFailure("bad_request", "no", provider="p")) is None


# --- thinking that goes back ----------------------------------------------------------------------------------------


def test_encrypted_thinking_goes_back_before_what_it_led_to() -> None:
    _, reply = read(*recorded("openai_responses"))
    assert reply is not None
    stored = msgspec.json.decode(msgspec.json.encode(reply.message), type=Message)
    sent = body(conversation(answered=stored))["input"]
    assert sent[1] == {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "plan"}],
        "encrypted_content": "gAAA",
    }
    assert sent[2] == {"role": "assistant", "content": "Let me look."}


def test_thinking_that_led_to_nothing_is_not_sent_alone() -> None:
    reply = whole(item(0, {"type": "reasoning", "id": "r1", "summary": [], "encrypted_content": "gAAA"}))
    assert reply.message.parts[0].opaque  # type: ignore[union-attr]
    request = Request("m", "", (*asking("x").messages, reply.message, *asking("y").messages))
    assert "gAAA" not in json.dumps(body(request))


def test_items_of_the_providers_own_tools_are_carried_along() -> None:
    search = {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "search", "query": "x"},
    }
    quiet = {"type": "response.web_search_call.searching", "item_id": "ws_1", "output_index": 0}
    reply = whole(item(0, search, "added"), quiet, item(0, search), item(1, text_item(_text("Found."))))
    assert (reply.message.text, reply.stop) == ("Found.", "stop")
    request = Request("m", "", (*asking("x").messages, reply.message, *asking("y").messages))
    assert body(request)["input"][1] == search


def _text(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": []}


# --- the answer -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "calls"),
    [
        ("responses-empty-arg-delta", [("call_1", "read_file", {"path": "a.txt"})]),
        ("responses-interleaved-output-index", [("call_a", "todo", {"n": 1}), ("call_b", "todo", {"n": 2})]),
    ],
)
def test_case_streams_cut_anywhere_give_the_same_calls(name: str, calls: list[Any]) -> None:
    stream = case_bytes("stream", name, "body.sse")
    for cut in range(len(stream) + 1):
        _, reply = read(stream[:cut], stream[cut:])
        assert reply is not None
        got = [(call.call_id, call.name, json.loads(call.arguments)) for call in reply.message.calls]
        assert got == calls
        assert reply.stop == "tool_calls"


def test_deltas_are_routed_by_item_id_where_there_is_no_index() -> None:
    def delta(item_id: str, text: str) -> dict[str, Any]:
        return {"type": "response.function_call_arguments.delta", "item_id": item_id, "delta": text}

    def added(item_id: str, call_id: str) -> dict[str, Any]:
        raw = {"type": "function_call", "id": item_id, "call_id": call_id, "name": "t", "arguments": ""}
        return {"type": "response.output_item.added", "item": raw}

    reply = whole(added("a", "c1"), added("b", "c2"), delta("a", '{"x"'), delta("b", "{}"), delta("a", ":1}"))
    assert reply.message.calls == (ToolCall("c1", "t", '{"x":1}'), ToolCall("c2", "t", "{}"))


def test_the_finished_item_counts_more_than_its_pieces() -> None:
    raw = {"type": "function_call", "id": "a", "call_id": "c", "name": "t", "arguments": ""}
    piece = {"type": "response.function_call_arguments.delta", "item_id": "a", "output_index": 0, "delta": '{"n":1'}
    done = {"type": "response.function_call_arguments.done", "item_id": "a", "output_index": 0, "arguments": '{"n":1}'}
    for ends in ([done], [item(0, {**raw, "arguments": '{"n":1}'})]):
        reply = whole(item(0, raw, "added"), piece, piece, *ends)  # a piece came twice
        assert reply.message.calls == (ToolCall("c", "t", '{"n":1}'),)


def test_an_event_that_comes_twice_counts_once_where_events_are_numbered() -> None:
    pieces = recorded("openai_responses")
    _, expected = read(*pieces)
    for at in range(len(pieces) - 1):
        assert read(*pieces[: at + 1], *pieces[at:])[1] == expected


def test_a_call_that_was_begun_and_not_finished_makes_no_answer() -> None:
    raw = {"type": "function_call", "id": "a", "call_id": "c", "name": "t", "arguments": ""}
    end = {"type": "response.completed", "response": {"status": "completed", "output": []}}
    with pytest.raises(Malformed, match="the call of 't' in item 0 is half"):
        read(*sse(item(0, raw, "added"), end))
    cut = {"type": "response.incomplete", "response": {"incomplete_details": {"reason": "max_output_tokens"}}}
    reply = read(*sse(item(0, raw, "added"), cut))[1]
    assert reply is not None
    assert reply.stop == "length"


def test_text_that_was_not_streamed_is_shown_from_the_finished_item() -> None:
    chunks, reply = read(
        *sse(
            item(0, {"type": "reasoning", "id": "r", "summary": [{"text": "a"}, {"text": "b"}]}),
            item(1, text_item(_text("Hello"))),
            {"type": "response.completed", "response": {"output": []}},
        )
    )
    assert chunks == [ReasoningDelta("a\n\nb"), TextDelta("Hello")]
    assert reply is not None
    assert reply.message.parts == (ReasoningPart("a\n\nb"), TextPart("Hello"))
    assert reply.usage is None


def test_an_answer_that_only_its_end_holds_is_read() -> None:
    call = {"type": "function_call", "id": "f", "call_id": "c", "name": "t", "arguments": {"n": 1}}
    reply = whole(output=[text_item(_text("Hi")), call], usage={"input_tokens": 1, "output_tokens": 2})
    assert reply.message.parts == (TextPart("Hi"), ToolCall("c", "t", '{"n":1}'))
    reader = ResponsesReader()
    reader.feed(json.dumps({"id": "r", "status": "completed", "output": [text_item(_text("Hi"))]}))
    unstreamed = reader.reply()
    assert unstreamed is not None
    assert unstreamed.message.text == "Hi"


def test_a_refusal_is_text_and_a_stop() -> None:
    refusal = {"type": "response.refusal.delta", "item_id": "m1", "output_index": 0, "delta": "I won't."}
    reply = whole(item(0, text_item(), "added"), refusal)
    assert (reply.message.text, reply.stop) == ("I won't.", "refusal")
    reply = whole(item(0, text_item({"type": "refusal", "refusal": "No."})))
    assert (reply.message.text, reply.stop) == ("No.", "refusal")


@pytest.mark.parametrize(("reason", "stop"), [("max_output_tokens", "length"), ("content_filter", "refusal")])
def test_reasons_of_incomplete_answers(reason: str, stop: str) -> None:
    reply = whole(item(0, text_item(_text("a"))), status="incomplete", incomplete_details={"reason": reason})
    assert reply.stop == stop


def test_other_ends_are_errors() -> None:
    for status, told, words in (
        ("failed", {"error": {"code": "server_error", "message": "It broke."}}, "It broke."),
        ("failed", {}, "response.failed"),
        ("cancelled", {}, "response.cancelled"),
        ("incomplete", {"incomplete_details": {"reason": "odd"}}, "odd"),
        ("incomplete", {}, "no reason told"),
    ):
        with pytest.raises(ErrorObject, match=words):
            whole(status=status, **told)
    with pytest.raises(ErrorObject, match="Bad day"):
        ResponsesReader().feed('{"type": "error", "code": "server_error", "message": "Bad day"}')


@pytest.mark.parametrize(
    "event",
    [
        "{",
        "7",
        "{}",
        '{"type": "response.output_item.added", "output_index": 0}',
        '{"type": "response.output_text.delta", "output_index": 0, "delta": 7}',
    ],
)
def test_what_is_not_the_format_is_malformed(event: str) -> None:
    with pytest.raises(Malformed):
        ResponsesReader().feed(event)


def test_ids_that_are_missing_or_used_are_replaced_and_usage_is_counted() -> None:
    raw = {"type": "function_call", "id": "f", "call_id": "c", "name": "t", "arguments": "{}"}
    end = {"type": "response.completed", "response": {"usage": {
        "input_tokens": 9, "output_tokens": 4, "input_tokens_details": {"cached_tokens": 2},
        "output_tokens_details": {"reasoning_tokens": 1}}}}  # fmt: skip
    _, reply = read(*sse(item(0, raw), item(1, {**raw, "call_id": ""}), end), used=("c",))
    assert reply is not None
    ids = [call.call_id for call in reply.message.calls]
    assert len({*ids, "c", ""}) == 4
    assert reply.usage == Usage(9, 4, cache_read_tokens=2, reasoning_tokens=1)


def test_the_sdk_reads_what_the_recordings_hold() -> None:
    responses = pytest.importorskip("openai", reason="the openai SDK is not installed").types.responses
    from pydantic import TypeAdapter

    judge = TypeAdapter(responses.ResponseStreamEvent)
    for piece in recorded("openai_responses"):
        event = json.loads(piece.split(b"data: ")[1])
        if ".output_" in event["type"]:
            for part in event.get("item", {}).get("content", ()):
                part.setdefault("annotations", [])
            event.setdefault("content_index", 0)
            event.setdefault("logprobs", [])
            judge.validate_python(event)
