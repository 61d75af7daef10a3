from __future__ import annotations

import json
from typing import Any

import pytest

from hermes_daemon.core.ports import CallDelta, Chunk, ReasoningDelta, Reply, Request, TextDelta
from hermes_daemon.providers.ndjson import LineReader
from hermes_daemon.providers.ollama_chat import OllamaReader, request_body
from hermes_daemon.providers.wire import ErrorObject, Malformed, Terms, Traits, Unsendable
from hermes_protocol.content import Message, ReasoningPart, ToolCall, Usage
from tests.support.formats_talk import conversation, lines
from tests.support.model_streams import asking
from tests.support.shared_data import case_bytes


def body(request: Request, **traits: Any) -> dict[str, Any]:
    sent: dict[str, Any] = json.loads(request_body(request, Terms(traits=Traits(**traits))))
    return sent


def read(*pieces: bytes) -> tuple[list[Chunk], Reply | None]:
    framing, reader, chunks = LineReader(), OllamaReader(), list[Chunk]()
    for piece in pieces:
        for event in framing.feed(piece):
            chunks += reader.feed(event.data)
    for event in framing.finish():
        chunks += reader.feed(event.data)
    return chunks, reader.reply()


END = {"message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop"}


def test_case_native_tools_cut_anywhere() -> None:
    stream = case_bytes("stream", "ollama-native-tools", "body.ndjson")
    for cut in range(len(stream) + 1):
        _, reply = read(stream[:cut], stream[cut:])
        assert reply is not None
        calls = reply.message.calls
        assert [(c.name, json.loads(c.arguments)) for c in calls] == [
            ("get_time", {}),
            ("read_file", {"path": "a", "limit": 5}),
        ]
        assert len({c.call_id for c in calls} - {""}) == 2
        assert (reply.stop, reply.usage) == ("tool_calls", Usage(11, 7))


def test_results_are_named_by_their_tool_and_ids_stay_here() -> None:
    sent = body(conversation())
    assert sent["messages"][0] == {"role": "system", "content": "Be brief."}
    assert sent["messages"][2]["tool_calls"] == [
        {"function": {"name": "read_file", "arguments": {"path": "a.txt"}}},
        {"function": {"name": "todo", "arguments": {}}},
    ]
    assert sent["messages"][3:] == [
        {"role": "tool", "content": "result 0", "tool_name": "read_file"},
        {"role": "tool", "content": "result 1", "tool_name": "todo"},
    ]
    assert "call_a" not in json.dumps(sent)


def test_results_that_came_in_another_order_are_put_into_that_of_their_calls() -> None:
    request = conversation()
    turned = Request("m", "", (*request.messages[:2], request.messages[3], request.messages[2]))
    assert [row["content"] for row in body(turned)["messages"][2:]] == ["result 0", "result 1"]


def test_options_say_the_window_and_the_limits() -> None:
    sent = body(asking("x", max_output=50, temperature=0.1), context_length=32_000)
    assert sent["options"] == {"num_ctx": 32_000, "num_predict": 50, "temperature": 0.1}
    assert "options" not in body(asking("x"))
    own = Terms(
        traits=Traits(context_length=32_000), extra={"options": {"num_ctx": 9000, "seed": 1}, "keep_alive": "1h"}
    )
    sent = json.loads(request_body(asking("x"), own))
    assert (sent["options"], sent["keep_alive"]) == ({"num_ctx": 9000, "seed": 1}, "1h")


def test_images_are_plain_base64_beside_the_text() -> None:
    assert body(conversation(image=True))["messages"][1] == {
        "role": "user",
        "content": "What is in a.txt?",
        "images": ["aGk="],
    }


def test_efforts() -> None:
    assert body(asking("x", thinking="none"))["think"] is False
    assert body(asking("x", thinking="high"))["think"] == "high"
    assert "think" not in body(asking("x"))
    with pytest.raises(Unsendable, match="'xhigh'; it takes none, low, medium, high"):
        body(asking("x", thinking="xhigh"))


def test_thinking_goes_back_within_its_turn_only() -> None:
    said = Message("assistant", (ReasoningPart("plan"), ToolCall("c", "todo", "{}")))
    request = conversation(answered=said)
    assert body(request)["messages"][2]["thinking"] == "plan"
    later = Request("m", "", (*request.messages, *asking("next").messages))
    assert "plan" not in json.dumps(body(later))


def test_thinking_text_and_calls_are_streamed() -> None:
    chunks, reply = read(
        *lines(
            {"message": {"thinking": "hm", "content": ""}, "done": False},
            {"message": {"content": "<think>more</think>Hi"}, "done": False},
            {"message": {"tool_calls": [{"function": {"name": "t", "arguments": '{"a": 1}'}}]}, "done": False},
            {**END, "done_reason": "length"},
        )
    )
    assert chunks == [ReasoningDelta("hm"), ReasoningDelta("more"), TextDelta("Hi"), CallDelta(0, "t", 8)]
    assert reply is not None
    assert (reply.message.text, reply.stop, reply.usage) == ("Hi", "length", None)


def test_a_stream_without_its_last_line_is_no_answer_and_a_missing_newline_is_none() -> None:
    said = {"message": {"content": "Hi"}, "done": False}
    assert read(*lines(said))[1] is None
    _, reply = read(*lines(said), json.dumps(END).encode())
    assert reply is not None
    assert reply.message.text == "Hi"


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[1]",
        '{"message": 7}',
        '{"message": {"content": 7}}',
        '{"message": {"tool_calls": 7}}',
        '{"message": {"tool_calls": [{"function": {}}]}}',
        '{"message": {"tool_calls": [7]}}',
    ],
)
def test_what_is_not_the_format_is_malformed(line: str) -> None:
    with pytest.raises(Malformed):
        OllamaReader().feed(line)


def test_an_error_line_is_an_error() -> None:
    with pytest.raises(ErrorObject, match="went away"):
        OllamaReader().feed('{"error": "the model went away"}')
