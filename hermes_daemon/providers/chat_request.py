"""A Request in the words of the chat completions format. Pure.

Many servers behind this format fill a chat template that accepts nothing but an opening system message and
alternating roles, and nobody can tell from outside which. So neighbouring rows of one role are joined here, on the
wire only, and a system message that stands later is sent as a user's; the stronger servers read that just as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hermes_daemon.core.history import sendable_arguments
from hermes_daemon.core.ports import Request
from hermes_daemon.providers.call_ids import nine_id
from hermes_daemon.providers.efforts import effort_fields
from hermes_daemon.providers.images import seen
from hermes_daemon.providers.opaque import unseal
from hermes_daemon.providers.wire import Terms, encoded
from hermes_protocol.content import ImagePart, Message, ReasoningPart, TextPart, ToolCall

FORMAT = "openai_chat"
REASONING_FIELDS = ("reasoning_content", "reasoning", "reasoning_text", "thinking")


def request_body(request: Request, terms: Terms) -> bytes:
    """The JSON body of one streaming call. `terms.extra` is added as it is, below what the request says itself.

    Raises Unsendable for an effort or an image that the model does not take.
    """
    request = seen(request, terms)
    quirks = terms.quirks
    effort = dict(effort_fields(quirks.efforts, request.thinking, terms.traits))
    template = "chat_template_kwargs"
    if isinstance(terms.extra.get(template), dict) and template in effort:
        effort[template] = {**terms.extra[template], **effort[template]}
    body: dict[str, Any] = {**terms.extra, **effort}
    body.update(model=request.model, messages=_messages(request, short_ids=quirks.nine_character_ids), stream=True)
    if quirks.include_usage:
        body["stream_options"] = {"include_usage": True}
    if request.tools:
        body["tools"] = [
            {"type": "function", "function": {"name": t.name, "description": t.description, "parameters": t.parameters}}
            for t in request.tools
        ]
    if request.max_output is not None:
        body[quirks.output_limit] = request.max_output
    if request.temperature is not None and quirks.temperature:
        body["temperature"] = request.temperature
    if quirks.cache_key and terms.prompt_caching and request.session_id:
        body["prompt_cache_key"] = request.session_id
    return encoded(body)


def _messages(request: Request, *, short_ids: bool) -> list[dict[str, Any]]:
    system = [request.system] if request.system else []
    rows: list[dict[str, Any]] = []
    turn_start = max((i for i, m in enumerate(request.messages) if m.role == "user"), default=-1)
    for index, message in enumerate(request.messages):
        if message.role == "system" and not rows:
            system.append(message.text)
        elif message.role == "assistant":
            _add_assistant(rows, message, request.model, current_turn=index > turn_start)
        elif message.role == "tool":
            rows.extend({"role": "tool", "tool_call_id": r.call_id, "content": r.text} for r in message.results)
        else:
            _add_user(rows, message)
    if short_ids:
        _shorten_ids(rows)
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
        if isinstance(part, ImagePart):
            content.append({"type": "image_url", "image_url": {"url": f"data:{part.mime};base64,{part.data}"}})
        elif isinstance(part, TextPart):
            content.append({"type": "text", "text": part.text})
    return content


def _joined(first: str | list[dict[str, Any]], second: str | list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n\n{second}"
    as_parts = [[{"type": "text", "text": side}] if isinstance(side, str) else side for side in (first, second)]
    return as_parts[0] + as_parts[1]


def _add_assistant(rows: list[dict[str, Any]], message: Message, model: str, *, current_turn: bool) -> None:
    row: dict[str, Any] = {"role": "assistant", "content": message.text or None}
    if message.calls:
        row["tool_calls"] = [_call(call, model) for call in message.calls]
        if current_turn:
            row.update(_reasoning(message.parts, model))
    last = rows[-1] if rows else None
    if last is not None and last["role"] == "assistant" and "tool_calls" not in last:
        texts = [text for text in (last["content"], row["content"]) if text]
        row["content"] = "\n\n".join(texts) or None
        rows.pop()
    rows.append(row)


def _call(call: ToolCall, model: str) -> dict[str, Any]:
    arguments = sendable_arguments(call.arguments)
    row = {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": arguments}}
    signed = unseal(call.opaque, FORMAT, model)
    return row if signed is None else {**row, "extra_content": signed}


def _reasoning(parts: Iterable[object], model: str) -> dict[str, Any]:
    """Servers that think between tool calls want the thoughts of this turn back, in the field they came in."""
    fields: dict[str, Any] = {}
    for part in parts:
        if not isinstance(part, ReasoningPart):
            continue
        if part.opaque in REASONING_FIELDS:
            fields[part.opaque] = fields.get(part.opaque, "") + part.text
        elif details := unseal(part.opaque, FORMAT, model):
            fields["reasoning_details"] = [*fields.get("reasoning_details", ()), *details]
    return fields


def _shorten_ids(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        if "tool_call_id" in row:
            row["tool_call_id"] = nine_id(row["tool_call_id"])
        for call in row.get("tool_calls", ()):
            call["id"] = nine_id(call["id"])
