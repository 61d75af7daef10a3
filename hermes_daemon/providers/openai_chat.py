"""Chat completions: the format that OpenAI began and nearly every server speaks."""

from __future__ import annotations

import msgspec

from hermes_daemon.core.ports import ProviderFailure, Request
from hermes_daemon.providers.chat_request import request_body
from hermes_daemon.providers.chat_stream import ReplyReader
from hermes_daemon.providers.sse import SSEReader
from hermes_daemon.providers.wire import Quirks, StreamReader, WireFormat, without_temperature


def _reader(request: Request) -> StreamReader:
    used = {call.call_id for message in request.messages for call in message.calls}
    return ReplyReader([tool.name for tool in request.tools], used, request.model)


def _otherwise(quirks: Quirks, refused: ProviderFailure) -> Quirks | None:
    words = refused.message
    if quirks.include_usage and ("stream_options" in words or "include_usage" in words):
        return msgspec.structs.replace(quirks, include_usage=False)
    if quirks.output_limit == "max_tokens" and "max_completion_tokens" in words:
        return msgspec.structs.replace(quirks, output_limit="max_completion_tokens")
    if quirks.cache_key and "prompt_cache_key" in words:
        return msgspec.structs.replace(quirks, cache_key=False)
    return without_temperature(quirks, refused)


CHAT = WireFormat(
    name="openai_chat",
    path="chat/completions",
    models_path="models",
    tails=("/chat/completions",),
    key_header="authorization",
    headers={},
    lines=False,
    framing=SSEReader,
    body=request_body,
    reader=_reader,
    otherwise=_otherwise,
)
