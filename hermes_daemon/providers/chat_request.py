"""A Request in the words of the chat completions format. Pure.

Many servers behind this format fill a chat template that accepts nothing but an opening system message and
alternating roles, and nobody can tell from outside which. So neighbouring rows of one role are joined here, on the
wire only, and a system message that stands later is sent as a user's; the stronger servers read that just as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from hermes_daemon.core.history import sendable_arguments
from hermes_daemon.core.ports import Request
from hermes_protocol.content import ImagePart, Message, ReasoningPart, TextPart

REASONING_FIELDS = ("reasoning_content", "reasoning")


class Dialect(msgspec.Struct, frozen=True):
    """What differs between servers of this format; learned from their refusals while running."""

    include_usage: bool = True
    output_limit: str = "max_tokens"


def request_body(request: Request, dialect: Dialect, extra: Mapping[str, Any]) -> bytes:
    """The JSON body of one streaming call. `extra` is added as it is, below what the request says itself."""
    body: dict[str, Any] = dict(extra)
    body.update(model=request.model, messages=_messages(request), stream=True)
    if dialect.include_usage:
        body["stream_options"] = {"include_usage": True}
    if request.tools:
        body["tools"] = [
            {"type": "function", "function": {"name": t.name, "description": t.description, "parameters": t.parameters}}
            for t in request.tools
        ]
    if request.max_output is not None:
        body[dialect.output_limit] = request.max_output
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.thinking is not None:
        body["reasoning_effort"] = request.thinking
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:  # a lone surrogate somewhere: no UTF-8 holds it
        return msgspec.json.encode(_encodable(body))


def _messages(request: Request) -> list[dict[str, Any]]:
    system = [request.system] if request.system else []
    rows: list[dict[str, Any]] = []
    turn_start = max((i for i, m in enumerate(request.messages) if m.role == "user"), default=-1)
    for index, message in enumerate(request.messages):
        if message.role == "system" and not rows:
            system.append(message.text)
        elif message.role == "assistant":
            _add_assistant(rows, message, current_turn=index > turn_start)
        elif message.role == "tool":
            rows.extend({"role": "tool", "tool_call_id": r.call_id, "content": r.text} for r in message.results)
        else:
            _add_user(rows, message)
    head = [{"role": "system", "content": "\n\n".join(system)}] if system else []
    return head + rows


def _add_user(rows: list[dict[str, Any]], message: Message) -> None:
    content = _user_content(message)
    if rows and rows[-1]["role"] == "user":
        rows[-1]["content"] = _joined(rows[-1]["content"], content)
    else:
        rows.append({"role": "user", "content": content})


def _user_content(message: Message) -> str | list[dict[str, Any]]:
    texts = [part.text for part in message.parts if isinstance(part, TextPart)]
    if not any(isinstance(part, ImagePart) for part in message.parts):
        return "\n".join(texts)
    content: list[dict[str, Any]] = []
    for part in message.parts:
        if isinstance(part, ImagePart) and part.data:
            content.append({"type": "image_url", "image_url": {"url": f"data:{part.mime};base64,{part.data}"}})
        elif isinstance(part, ImagePart):
            content.append({"type": "text", "text": f"[image {part.mime}, not available any more]"})
        elif isinstance(part, TextPart):
            content.append({"type": "text", "text": part.text})
    return content


def _joined(first: str | list[dict[str, Any]], second: str | list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n\n{second}"
    as_parts = [[{"type": "text", "text": side}] if isinstance(side, str) else side for side in (first, second)]
    return as_parts[0] + as_parts[1]


def _add_assistant(rows: list[dict[str, Any]], message: Message, *, current_turn: bool) -> None:
    row: dict[str, Any] = {"role": "assistant", "content": message.text or None}
    if message.calls:
        row["tool_calls"] = [
            {
                "id": call.call_id,
                "type": "function",
                "function": {"name": call.name, "arguments": sendable_arguments(call.arguments)},
            }
            for call in message.calls
        ]
        if current_turn:
            row.update(_reasoning(message.parts))
    last = rows[-1] if rows else None
    if last is not None and last["role"] == "assistant" and "tool_calls" not in last:
        texts = [text for text in (last["content"], row["content"]) if text]
        row["content"] = "\n\n".join(texts) or None
        rows.pop()
    rows.append(row)


def _reasoning(parts: Iterable[object]) -> dict[str, str]:
    """Servers that think between tool calls want the thoughts of this turn back, in the field they came in."""
    fields: dict[str, str] = {}
    for part in parts:
        if isinstance(part, ReasoningPart) and part.opaque in REASONING_FIELDS:
            fields[part.opaque] = fields.get(part.opaque, "") + part.text
    return fields


def _encodable(value: Any) -> Any:
    """The same value with surrogate pairs joined and lone surrogates replaced."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_encodable(key): _encodable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_encodable(item) for item in value]
    return value
