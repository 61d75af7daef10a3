"""A model request as Hermes middleware knows it: a dict in the shape of chat completions, and back.

What is not changed keeps its own form: a request that comes back as it went is the very same request. Keys that a
request does not have go into `extra_body`, which providers merge into what they send.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from hermes_daemon.core.ports import Request, ToolSpec
from hermes_protocol.content import (
    ImagePart,
    Message,
    Part,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolResult,
)

_KNOWN = frozenset({"model", "messages", "tools", "max_tokens", "temperature", "reasoning_effort", "stream",
                    "extra_body", "extra_headers"})  # fmt: skip

_FIELDS: dict[str, tuple[str, Any]] = {
    "model": ("model", str),
    "max_tokens": ("max_output", int),
    "temperature": ("temperature", (int, float)),
    "reasoning_effort": ("thinking", str),
}


def as_dict(request: Request) -> dict[str, Any]:
    """A fresh dict: model, messages (the system prompt first), tools, sampling, extra_body, extra_headers."""
    shape: dict[str, Any] = {"model": request.model, "messages": _messages(request), "stream": True}
    if request.tools:
        shape["tools"] = [
            {"type": "function", "function": {"name": tool.name, "description": tool.description,
                                              "parameters": msgspec.to_builtins(tool.parameters)}}
            for tool in request.tools
        ]  # fmt: skip
    optional = {
        "max_tokens": request.max_output,
        "temperature": request.temperature,
        "reasoning_effort": request.thinking,
    }
    shape |= {key: value for key, value in optional.items() if value is not None}
    if request.extra_body:
        shape["extra_body"] = msgspec.to_builtins(request.extra_body)
    if request.extra_headers:
        shape["extra_headers"] = dict(request.extra_headers)
    return shape


def from_dict(shape: dict[str, Any], before: Request) -> Request:
    """The request that `shape` stands for. ValueError naming the key that does not fit."""
    old = as_dict(before)
    fields: dict[str, Any] = {}
    for key, (field, kind) in _FIELDS.items():
        value = shape.get(key)
        if value == old.get(key):
            continue
        if value is not None and not isinstance(value, kind):
            raise ValueError(f"request.{key}: got {type(value).__name__}")
        fields[field] = value
    if shape.get("messages") != old["messages"]:
        fields["system"], fields["messages"] = _read(shape.get("messages"), before)
    if shape.get("tools") != old.get("tools"):
        fields["tools"] = tuple(_tool(each) for each in shape.get("tools") or ())
    extra = dict(shape.get("extra_body") or {}) | {key: value for key, value in shape.items() if key not in _KNOWN}
    if extra != before.extra_body:
        fields["extra_body"] = extra
    headers = {str(key): str(value) for key, value in (shape.get("extra_headers") or {}).items()}
    if headers != before.extra_headers:
        fields["extra_headers"] = headers
    return msgspec.structs.replace(before, **fields) if fields else before


def _messages(request: Request) -> list[dict[str, Any]]:
    system = [{"role": "system", "content": request.system}] if request.system else []
    return [*system, *(_message(message) for message in request.messages)]


def _message(message: Message) -> dict[str, Any]:
    if message.role == "tool":
        [result] = message.results
        return {"role": "tool", "tool_call_id": result.call_id, "content": result.text}
    shape: dict[str, Any] = {"role": message.role, "content": _content(message.parts)}
    thoughts = "".join(part.text for part in message.parts if isinstance(part, ReasoningPart))
    if thoughts:
        shape["reasoning_content"] = thoughts
    if message.calls:
        shape["tool_calls"] = [
            {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.calls
        ]
    return shape


def _content(parts: Sequence[Part]) -> Any:
    if not any(isinstance(part, ImagePart) for part in parts):
        return "".join(part.text for part in parts if isinstance(part, TextPart))
    content: list[dict[str, Any]] = []
    for part in parts:
        if isinstance(part, TextPart):
            content.append({"type": "text", "text": part.text})
        elif isinstance(part, ImagePart):
            content.append({"type": "image", "mime": part.mime, "blob_id": part.blob_id})
    return content


def _read(messages: Any, before: Request) -> tuple[str, tuple[Message, ...]]:
    if not isinstance(messages, list):
        raise ValueError(f"request.messages: expected a list, got {type(messages).__name__}")
    kept = {_key(_message(message)): message for message in before.messages}
    system: list[str] = []
    read: list[Message] = []
    for index, each in enumerate(messages):
        if not isinstance(each, dict) or not isinstance(each.get("role"), str):
            raise ValueError(f"request.messages[{index}]: expected an object with a role")
        if each["role"] in ("system", "developer"):
            system.append(_text(each.get("content")))
        else:
            read.append(kept.get(_key(each)) or _new(each, index))
    return "\n\n".join(system), tuple(read)


def _key(shape: dict[str, Any]) -> bytes:
    return msgspec.json.encode(shape, order="deterministic")


def _new(shape: dict[str, Any], index: int) -> Message:
    text = _text(shape.get("content"))
    match shape["role"]:
        case "user":
            return Message("user", (TextPart(text),))
        case "tool":
            return Message("tool", (ToolResult(str(shape.get("tool_call_id") or ""), text),))
        case "assistant":
            calls = tuple(_call(each, index) for each in shape.get("tool_calls") or ())
            return Message("assistant", (*((TextPart(text),) if text else ()), *calls))
    raise ValueError(f"request.messages[{index}].role: expected system, user, assistant or tool, got {shape['role']!r}")


def _call(shape: Any, index: int) -> ToolCall:
    try:
        function = shape["function"]
        return ToolCall(str(shape["id"]), str(function["name"]), str(function["arguments"]))
    except (KeyError, TypeError) as error:
        raise ValueError(f"request.messages[{index}].tool_calls: {error} is missing") from error


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(str(each.get("text", "")) for each in content if isinstance(each, dict))
    return ""


def _tool(shape: Any) -> ToolSpec:
    try:
        function = shape["function"]
        return ToolSpec(function["name"], function.get("description", ""), function.get("parameters") or {})
    except (KeyError, TypeError) as error:
        raise ValueError(f"request.tools: {error} is missing") from error
