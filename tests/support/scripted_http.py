"""The scripted provider as an OpenAI-compatible endpoint, so that tests and benches compare like with like.

In a test: `async with ScriptedHttp() as server: server.base_url`, with any name after `scripted/` as the model.
As a process: `python -m tests.support.scripted_http [--port N]` prints its base URL and serves until it is ended.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from contextlib import aclosing
from typing import Any

from hermes_daemon.core.ports import (
    CallDelta,
    ProviderFailure,
    ReasoningDelta,
    Reply,
    Request,
    TextDelta,
    ToolSpec,
)
from hermes_daemon.providers.scripted import Scripted
from hermes_protocol.content import Message, Part, TextPart, ToolCall, ToolResult
from tests.support.raw_http import HttpConnection, HttpRequest, RawHttp

STATUS = {
    "auth": 401, "quota": 402, "rate": 429, "overload": 503, "context_overflow": 400, "bad_request": 400,
    "content_filter": 400, "model_missing": 404,
}  # fmt: skip
CODE = {
    "context_overflow": "context_length_exceeded",
    "content_filter": "content_filter",
    "quota": "insufficient_quota",
}
MODELS = ("echo", "words?n=1000", "hang")


class ScriptedHttp(RawHttp):
    def __init__(self, port: int = 0) -> None:
        super().__init__(self._handle, port)
        self._scripted = Scripted()

    @property
    def base_url(self) -> str:
        return f"{self.url}/v1"

    async def _handle(self, request: HttpRequest, connection: HttpConnection) -> None:
        path = request.path.partition("?")[0]
        if request.method == "GET" and path == "/v1/models":
            rows = [{"id": name, "object": "model"} for name in MODELS]
            await connection.answer(200, json.dumps({"object": "list", "data": rows}).encode())
        elif request.method == "POST" and path == "/v1/chat/completions":
            await self._complete(request.json(), connection)
        else:
            await connection.answer(404, json.dumps({"error": {"message": f"no route {path}"}}).encode())

    async def _complete(self, body: dict[str, Any], connection: HttpConnection) -> None:
        begun = False
        async with aclosing(self._scripted.stream(to_request(body))) as chunks:
            try:
                async for chunk in chunks:
                    if not begun:
                        await connection.begin_stream()
                        begun = True
                    await connection.piece(_encode(chunk))
            except ProviderFailure as failure:
                await _fail(connection, failure, begun)
                return
        await connection.piece(b"data: [DONE]\n\n")
        await connection.end_stream()


async def _fail(connection: HttpConnection, failure: ProviderFailure, begun: bool) -> None:
    if failure.kind not in STATUS or begun:
        connection.drop()  # network, stall and the like have no status: the connection breaks
        return
    error = {"message": failure.message, "type": failure.kind, "code": CODE.get(failure.kind, failure.kind)}
    wait = {} if failure.retry_after is None else {"retry_after": f"{failure.retry_after:g}"}
    await connection.answer(STATUS[failure.kind], json.dumps({"error": error}).encode(), **wait)


def to_request(body: dict[str, Any]) -> Request:
    """The Request a chat completions body stands for."""
    messages: list[Message] = []
    for row in body["messages"]:
        if row["role"] == "tool":
            messages.append(Message("tool", (ToolResult(row["tool_call_id"], row["content"]),)))
            continue
        parts: list[Part] = [TextPart(row["content"])] if row.get("content") else []
        for call in row.get("tool_calls") or ():
            parts.append(ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"]))  # noqa: PERF401
        messages.append(Message(row["role"], tuple(parts)))
    tools = tuple(
        ToolSpec(t["function"]["name"], t["function"].get("description", ""), t["function"].get("parameters", {}))
        for t in body.get("tools") or ()
    )
    return Request(body["model"], "", tuple(messages), tools)


def _encode(chunk: object) -> bytes:
    if isinstance(chunk, TextDelta):
        return _event({"content": chunk.text})
    if isinstance(chunk, ReasoningDelta):
        return _event({"reasoning_content": chunk.text})
    if isinstance(chunk, CallDelta):
        return b""  # the whole call follows with the reply
    assert isinstance(chunk, Reply)
    calls = [
        {"index": n, "id": c.call_id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
        for n, c in enumerate(chunk.message.calls)
    ]
    usage = chunk.usage and {"prompt_tokens": chunk.usage.input_tokens, "completion_tokens": chunk.usage.output_tokens}
    head = _event({"tool_calls": calls}) if calls else b""
    finish = "content_filter" if chunk.stop == "refusal" else chunk.stop
    last = json.dumps({"choices": [], "usage": usage}).encode()
    return head + _event({}, finish) + b"data: " + last + b"\n\n"


def _event(delta: dict[str, Any], finish: str | None = None) -> bytes:
    data = {"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta}]}
    if finish is not None:
        data["choices"][0]["finish_reason"] = finish  # type: ignore[index]
    return b"data: " + json.dumps(data, separators=(",", ":")).encode() + b"\n\n"


async def _serve(port: int) -> None:
    async with ScriptedHttp(port) as server:
        print(server.base_url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Serve the scripted models as an OpenAI-compatible endpoint.")
    parser.add_argument("--port", type=int, default=0)
    asyncio.run(_serve(parser.parse_args().port))
