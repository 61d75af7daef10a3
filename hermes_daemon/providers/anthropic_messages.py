"""Anthropic's Messages format.

Rows of one role are one message here, results of calls before anything else in it. Cache breakpoints stand where the
prefix is stable: behind the tools, behind the system text, and behind the last two messages of the user, so that each
round reads what the one before it wrote. Thinking goes back with its signature, before the call it led to.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from hermes_daemon.core.history import sendable_arguments
from hermes_daemon.core.ports import Request
from hermes_daemon.providers.anthropic_stream import FORMAT, MessagesReader
from hermes_daemon.providers.call_ids import plain_id
from hermes_daemon.providers.efforts import ADAPTIVE, BUDGETS, check_effort
from hermes_daemon.providers.images import seen
from hermes_daemon.providers.opaque import unseal
from hermes_daemon.providers.sse import SSEReader
from hermes_daemon.providers.wire import (
    StreamReader,
    Terms,
    Traits,
    Unsendable,
    WireFormat,
    encoded,
    without_temperature,
)
from hermes_protocol.content import ImagePart, Message, ReasoningPart, TextPart, ToolCall, ToolResult

VERSION = "2023-06-01"
MAX_OUTPUT = 8192  # the API wants a limit; what to say when nobody knows the model's own
MOST_UNASKED = 32_000  # what is asked for is taken from the window, so not always all that a model could write
LEAST_BUDGET = 1024
CACHED = {"type": "ephemeral"}


def request_body(request: Request, terms: Terms) -> bytes:
    """The JSON body of one streaming call. Raises Unsendable for an effort or an image the model does not take."""
    request = seen(request, terms)
    rows = _rows(request)
    body: dict[str, Any] = {**terms.extra}
    body.update(model=request.model, messages=rows, stream=True)
    system = [request.system] if request.system.strip() else []
    system += [message.text for message in _opening(request) if message.text.strip()]
    if system:
        body["system"] = [{"type": "text", "text": "\n\n".join(system)}]
    if request.tools:
        body["tools"] = [
            {"name": t.name, "description": t.description, "input_schema": t.parameters} for t in request.tools
        ]
    body["max_tokens"] = request.max_output or min(terms.traits.max_output or MAX_OUTPUT, MOST_UNASKED)
    thinks = _add_thinking(body, request, terms.traits, rows)
    if request.temperature is not None and terms.quirks.temperature and not thinks:  # thinking allows no temperature
        body["temperature"] = request.temperature
    if terms.prompt_caching and terms.traits.cache is not False:
        _add_breakpoints(body)
    return encoded(body)


# --- messages ---


def _opening(request: Request) -> list[Message]:
    """The system messages that the history begins with."""
    opening: list[Message] = []
    for message in request.messages:
        if message.role != "system":
            break
        opening.append(message)
    return opening


def _rows(request: Request) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for message in request.messages[len(_opening(request)) :]:
        role = "assistant" if message.role == "assistant" else "user"
        content = list(_assistant(message, request.model) if role == "assistant" else _user(message))
        if not content:
            continue
        if not rows and role == "assistant":
            rows.append({"role": "user", "content": [{"type": "text", "text": "(The conversation goes on.)"}]})
        if rows and rows[-1]["role"] == role:
            rows[-1]["content"] += content
        else:
            rows.append({"role": role, "content": content})
    for row in rows:
        if row["role"] == "user":  # a stable sort: results first, as the API demands
            row["content"].sort(key=lambda block: block["type"] != "tool_result")
    return rows


def _user(message: Message) -> Iterator[dict[str, Any]]:
    for part in message.parts:
        if isinstance(part, ToolResult):
            block = {"type": "tool_result", "tool_use_id": plain_id(part.call_id), "content": part.text}
            yield {**block, "is_error": True} if part.is_error else block
        elif isinstance(part, TextPart) and part.text.strip():
            yield {"type": "text", "text": part.text}
        elif isinstance(part, ImagePart):
            yield {"type": "image", "source": {"type": "base64", "media_type": part.mime, "data": part.data}}


def _assistant(message: Message, model: str) -> Iterator[dict[str, Any]]:
    for part in message.parts:
        if isinstance(part, ReasoningPart):
            kept = unseal(part.opaque, FORMAT, model)
            if isinstance(kept, dict) and isinstance(kept.get("block"), dict):
                yield kept["block"]
            elif isinstance(kept, dict) and "signature" in kept:
                yield {"type": "thinking", "thinking": part.text, "signature": kept["signature"]}
        elif isinstance(part, TextPart) and part.text.strip():
            yield {"type": "text", "text": part.text}
        elif isinstance(part, ToolCall):
            arguments = msgspec.json.decode(sendable_arguments(part.arguments))
            yield {"type": "tool_use", "id": plain_id(part.call_id), "name": part.name, "input": arguments}


# --- thinking ---


def _add_thinking(body: dict[str, Any], request: Request, traits: Traits, rows: list[dict[str, Any]]) -> bool:
    """Say how much to think; whether the model will."""
    effort = request.thinking
    if effort is None:
        return False
    known = ADAPTIVE if traits.adaptive_thinking else ("none", *BUDGETS)
    check_effort(effort, tuple(w for w in known if traits.efforts is None or w in traits.efforts), traits)
    if effort == "none":
        if traits.adaptive_thinking:
            body["thinking"] = {"type": "disabled"}
        return False
    if _began_without_thinking(rows):
        return False
    if traits.adaptive_thinking:
        body["thinking"] = {"type": "adaptive"}
        body["output_config"] = {**body.get("output_config", {}), "effort": effort}
        return True
    budget = BUDGETS[effort]
    if request.max_output is None:
        body["max_tokens"] = min(traits.max_output or budget + MAX_OUTPUT, max(budget + MAX_OUTPUT, body["max_tokens"]))
    if budget >= body["max_tokens"]:
        budget = body["max_tokens"] // 2
    if budget < LEAST_BUDGET:
        raise Unsendable(
            f"An output of at most {body['max_tokens']} tokens leaves no room to think: raise max_output above "
            f"{2 * LEAST_BUDGET} or say effort none."
        )
    body["thinking"] = {"type": "enabled", "budget_tokens": budget}
    return True


def _began_without_thinking(rows: list[dict[str, Any]]) -> bool:
    """Whether the calls being answered came from an answer without thinking, for instance another model's: the API
    then refuses to think before the next question."""
    if len(rows) < 2 or rows[-1]["content"][0]["type"] != "tool_result":
        return False
    return rows[-2]["content"][0]["type"] not in ("thinking", "redacted_thinking")


# --- caching ---


def _add_breakpoints(body: dict[str, Any]) -> None:
    """Four at most, which is what the API takes."""
    for name in ("tools", "system"):
        if body.get(name):
            _mark(body[name])
    users = [row for row in body["messages"] if row["role"] == "user"]
    for row in users[-2:]:
        _mark(row["content"])


def _mark(blocks: list[dict[str, Any]]) -> None:
    blocks[-1] = {**blocks[-1], "cache_control": CACHED}


def _reader(request: Request) -> StreamReader:
    used = {call.call_id for message in request.messages for call in message.calls}
    return MessagesReader(used, request.model)


MESSAGES = WireFormat(
    name="anthropic_messages",
    path="v1/messages",
    models_path="v1/models",
    tails=("/v1/messages", "/v1"),
    key_header="x-api-key",
    headers={"anthropic-version": VERSION},
    lines=False,
    framing=SSEReader,
    body=request_body,
    reader=_reader,
    otherwise=without_temperature,
)
