"""One conversation in every wire format: what each format's server would stream for the same answer."""

from __future__ import annotations

import json
from typing import Any

from hermes_daemon.core.ports import Request, ToolSpec
from hermes_protocol.content import ImagePart, Message, TextPart, ToolCall, ToolResult

TOOLS = (
    ToolSpec("read_file", "Reads a file.", {"type": "object", "properties": {"path": {"type": "string"}}}),
    ToolSpec("todo", "Keeps a list.", {"type": "object", "properties": {"n": {"type": "integer"}}}),
)
FORMATS = ("openai_chat", "openai_responses", "anthropic_messages", "ollama")


def sse(*events: dict[str, Any]) -> list[bytes]:
    """Each event as the bytes of one server-sent event, named where it has a type."""
    named = [f"event: {e['type']}\n".encode() if isinstance(e.get("type"), str) else b"" for e in events]
    return [name + b"data: " + json.dumps(e).encode() + b"\n\n" for name, e in zip(named, events, strict=True)]


def lines(*events: dict[str, Any]) -> list[bytes]:
    return [json.dumps(event).encode() + b"\n" for event in events]


def chat(delta: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"id": "c", "object": "chat.completion.chunk", "choices": [
        {"index": 0, "delta": delta, "finish_reason": finish}], **more}  # fmt: skip


def call_delta(index: int, arguments: str, **first: Any) -> dict[str, Any]:
    """A piece of a call; with `id` and `name` its first one."""
    function = {"arguments": arguments, **({"name": first["name"]} if first else {})}
    return {"tool_calls": [{"index": index, "function": function, **({"id": first["id"]} if first else {})}]}


def recorded(format: str) -> list[bytes]:
    """The pieces of a stream that thinks `plan`, says `Let me look.` and calls read_file and todo, usage at the end."""
    return {"openai_chat": _chat, "openai_responses": _responses, "anthropic_messages": _messages, "ollama": _ollama}[
        format
    ]()


def _chat() -> list[bytes]:
    usage = {"prompt_tokens": 20, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 8},
             "completion_tokens_details": {"reasoning_tokens": 3}}  # fmt: skip
    events = [
        chat({"role": "assistant", "content": ""}),
        chat({"reasoning_content": "plan"}),
        chat({"content": "Let me "}),
        chat({"content": "look."}),
        chat(call_delta(0, "", id="call_a", name="read_file")),
        chat(call_delta(0, '{"path": ')),
        chat(call_delta(1, "", id="call_b", name="todo")),
        chat(call_delta(1, '{"n"')),
        chat(call_delta(0, '"a.txt"}')),
        chat(call_delta(1, ": 7}")),
        chat({}, "tool_calls"),
        {"id": "c", "choices": [], "usage": usage},
    ]
    return [*sse(*events), b"data: [DONE]\n\n"]


def _responses() -> list[bytes]:
    thought = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "plan"}],
               "encrypted_content": "gAAA"}  # fmt: skip
    message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
               "content": [{"type": "output_text", "text": "Let me look.", "annotations": []}]}  # fmt: skip
    usage = {"input_tokens": 20, "output_tokens": 9, "total_tokens": 29,
             "input_tokens_details": {"cached_tokens": 8}, "output_tokens_details": {"reasoning_tokens": 3},
             }  # fmt: skip
    calls = [
        {"type": "function_call", "id": "fc_1", "call_id": "call_a", "name": "read_file", "arguments": ""},
        {"type": "function_call", "id": "fc_2", "call_id": "call_b", "name": "todo", "arguments": ""},
    ]
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {"id": "r", "status": "in_progress"}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**thought, "summary": []}},
        {"type": "response.reasoning_summary_text.delta", "item_id": "rs_1", "output_index": 0, "delta": "plan"},
        {"type": "response.output_item.done", "output_index": 0, "item": thought},
        {"type": "response.output_item.added", "output_index": 1, "item": {**message, "content": []}},
        {"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 1, "delta": "Let me "},
        {"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 1, "delta": "look."},
        {"type": "response.output_item.done", "output_index": 1, "item": message},
        {"type": "response.output_item.added", "output_index": 2, "item": calls[0]},
        {"type": "response.output_item.added", "output_index": 3, "item": calls[1]},
        _arguments(2, "fc_1", '{"path": '),
        _arguments(3, "fc_2", '{"n"'),
        _arguments(2, "fc_1", '"a.txt"}'),
        _arguments(3, "fc_2", ": 7}"),
        {
            "type": "response.output_item.done",
            "output_index": 2,
            "item": {**calls[0], "arguments": '{"path": "a.txt"}'},
        },
        {"type": "response.output_item.done", "output_index": 3, "item": {**calls[1], "arguments": '{"n": 7}'}},
        {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": [], "usage": usage}},
    ]
    return sse(*({**event, "sequence_number": number} for number, event in enumerate(events)))


def _done(index: int, item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def _arguments(index: int, item: str, delta: str) -> dict[str, Any]:
    return {"type": "response.function_call_arguments.delta", "item_id": item, "output_index": index, "delta": delta}


def _messages() -> list[bytes]:
    usage = {"input_tokens": 12, "cache_read_input_tokens": 8, "cache_creation_input_tokens": 0, "output_tokens": 1}
    return sse(
        {"type": "message_start", "message": {"id": "m", "role": "assistant", "content": [], "usage": usage}},
        block_start(0, {"type": "thinking", "thinking": "", "signature": ""}),
        {"type": "ping"},
        block_delta(0, "thinking_delta", thinking="plan"),
        block_delta(0, "signature_delta", signature="AbC"),
        block_delta(0, "signature_delta", signature="dEf"),
        {"type": "content_block_stop", "index": 0},
        block_start(1, {"type": "text", "text": ""}),
        block_delta(1, "text_delta", text="Let me "),
        block_delta(1, "text_delta", text="look."),
        {"type": "content_block_stop", "index": 1},
        block_start(2, {"type": "tool_use", "id": "call_a", "name": "read_file", "input": {}}),
        block_delta(2, "input_json_delta", partial_json=""),
        block_delta(2, "input_json_delta", partial_json='{"path": '),
        block_delta(2, "input_json_delta", partial_json='"a.txt"}'),
        {"type": "content_block_stop", "index": 2},
        block_start(3, {"type": "tool_use", "id": "call_b", "name": "todo", "input": {}}),
        block_delta(3, "input_json_delta", partial_json='{"n"'),
        block_delta(3, "input_json_delta", partial_json=": 7}"),
        {"type": "content_block_stop", "index": 3},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": None},
         "usage": {"output_tokens": 9, "output_tokens_details": {"thinking_tokens": 3}}},
        {"type": "message_stop"},
    )  # fmt: skip


def block_start(index: int, block: dict[str, Any]) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def block_delta(index: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def _ollama() -> list[bytes]:
    def said(**message: Any) -> dict[str, Any]:
        return {"model": "m", "created_at": "2026-01-01T00:00:00Z", "done": False,
                "message": {"role": "assistant", "content": "", **message}}  # fmt: skip

    return lines(
        said(thinking="plan"),
        said(content="Let me "),
        said(content="look."),
        said(tool_calls=[{"function": {"name": "read_file", "arguments": {"path": "a.txt"}}}]),
        said(tool_calls=[{"function": {"name": "todo", "arguments": {"n": 7}}}]),
        {**said(), "done": True, "done_reason": "stop", "prompt_eval_count": 20, "eval_count": 9},
    )


def conversation(*, answered: Message | None = None, image: bool = False, **fields: Any) -> Request:
    """A request in the middle of a turn: a question, the model's answer with two calls, and their results."""
    question: tuple[Any, ...] = (TextPart("What is in a.txt?"),)
    if image:
        question += (ImagePart("image/png", "aGk="),)
    said = answered or Message(
        "assistant",
        (
            TextPart("Let me look."),
            ToolCall("call_a", "read_file", '{"path": "a.txt"}'),
            ToolCall("call_b", "todo", ""),
        ),
    )
    results = [Message("tool", (ToolResult(call.call_id, f"result {n}", n == 1),)) for n, call in enumerate(said.calls)]
    messages = (Message("user", question), said, *results)
    return Request("m", "Be brief.", messages, TOOLS, session_id="s1", **fields)
