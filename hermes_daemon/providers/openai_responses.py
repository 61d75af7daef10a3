"""OpenAI's Responses format: a conversation as a flat list of typed items.

Nothing is stored at the provider (`store: false`), so thinking goes back and forth encrypted: a reasoning item is kept
with the message it came in and stands again before the item it led to, as the API demands. So do items of the
provider's own tools.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from hermes_daemon.core.history import sendable_arguments
from hermes_daemon.core.ports import ProviderFailure, Request
from hermes_daemon.providers.call_ids import plain_id
from hermes_daemon.providers.efforts import effort_fields
from hermes_daemon.providers.images import seen
from hermes_daemon.providers.opaque import unseal
from hermes_daemon.providers.responses_stream import FORMAT, ResponsesReader
from hermes_daemon.providers.sse import SSEReader
from hermes_daemon.providers.wire import Quirks, StreamReader, Terms, WireFormat, encoded, without_temperature
from hermes_protocol.content import ImagePart, Message, ReasoningPart, TextPart, ToolCall

ENCRYPTED = "reasoning.encrypted_content"


def request_body(request: Request, terms: Terms) -> bytes:
    """The JSON body of one streaming call. Raises Unsendable for an effort or an image the model does not take."""
    request = seen(request, terms)
    body: dict[str, Any] = {**terms.extra, **effort_fields("responses", request.thinking, terms.traits)}
    body.update(model=request.model, input=list(_items(request)), stream=True, store=False)
    head = [request.system] if request.system else []
    head += [message.text for message in _opening(request)]
    if head:
        body["instructions"] = "\n\n".join(head)
    if request.tools:
        body["tools"] = [
            {"type": "function", "name": t.name, "description": t.description, "parameters": t.parameters,
             "strict": False}
            for t in request.tools
        ]  # fmt: skip
    if request.max_output is not None:
        body["max_output_tokens"] = request.max_output
    if request.temperature is not None and terms.quirks.temperature:
        body["temperature"] = request.temperature
    if terms.quirks.encrypted_reasoning and terms.traits.reasoning is not False:
        body["include"] = [*body.get("include", ()), ENCRYPTED]
    if terms.prompt_caching and request.session_id:
        body["prompt_cache_key"] = request.session_id
    return encoded(body)


def _opening(request: Request) -> list[Message]:
    """The system messages that the history begins with."""
    opening: list[Message] = []
    for message in request.messages:
        if message.role != "system":
            break
        opening.append(message)
    return opening


def _items(request: Request) -> Iterator[dict[str, Any]]:
    for message in request.messages[len(_opening(request)) :]:
        if message.role == "assistant":
            yield from _assistant(message, request.model)
        elif message.role == "tool":
            for result in message.results:
                yield {"type": "function_call_output", "call_id": plain_id(result.call_id), "output": result.text}
        else:
            yield {"role": "user", "content": [_content(part) for part in message.parts if _is_content(part)]}


def _assistant(message: Message, model: str) -> Iterator[dict[str, Any]]:
    led: list[dict[str, Any]] = []  # thinking that waits for the item it led to: alone it is refused
    for part in message.parts:
        if isinstance(part, ReasoningPart):
            item = unseal(part.opaque, FORMAT, model)
            if isinstance(item, dict):
                led.append(item)
            continue
        if isinstance(part, TextPart) and part.text:
            yield from led
            led = []
            yield {"role": "assistant", "content": part.text}
        elif isinstance(part, ToolCall):
            yield from led
            led = []
            arguments = sendable_arguments(part.arguments)
            yield {"type": "function_call", "call_id": plain_id(part.call_id), "name": part.name,
                   "arguments": arguments}  # fmt: skip


def _is_content(part: object) -> bool:
    return isinstance(part, TextPart | ImagePart)


def _content(part: object) -> dict[str, Any]:
    if isinstance(part, ImagePart):
        return {"type": "input_image", "image_url": f"data:{part.mime};base64,{part.data}", "detail": "auto"}
    assert isinstance(part, TextPart)
    return {"type": "input_text", "text": part.text}


def _reader(request: Request) -> StreamReader:
    used = {call.call_id for message in request.messages for call in message.calls}
    return ResponsesReader(used, request.model)


def _otherwise(quirks: Quirks, refused: ProviderFailure) -> Quirks | None:
    if quirks.encrypted_reasoning and ("encrypted_content" in refused.message or "'include" in refused.message):
        return msgspec.structs.replace(quirks, encrypted_reasoning=False)
    return without_temperature(quirks, refused)


RESPONSES = WireFormat(
    name="openai_responses",
    path="responses",
    models_path="models",
    tails=("/responses",),
    key_header="authorization",
    headers={},
    lines=False,
    framing=SSEReader,
    body=request_body,
    reader=_reader,
    otherwise=_otherwise,
)
