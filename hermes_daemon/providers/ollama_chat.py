"""Ollama's own chat format: a line of JSON for each piece.

It knows no ids of calls, so ours stay here: results go back in order, named by their tool. Unlike its compatible
endpoint it takes the size of the window (`num_ctx`), without which long conversations are cut silently.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import msgspec

from hermes_daemon.core.history import sendable_arguments
from hermes_daemon.core.ports import CallDelta, Chunk, ProviderFailure, ReasoningDelta, Reply, Request, Stop, TextDelta
from hermes_daemon.providers.efforts import effort_fields
from hermes_daemon.providers.images import seen
from hermes_daemon.providers.ndjson import LineReader
from hermes_daemon.providers.prices import count
from hermes_daemon.providers.think import ThinkFilter
from hermes_daemon.providers.wire import (
    ErrorObject,
    Malformed,
    Quirks,
    StreamReader,
    Terms,
    WireFormat,
    decoded,
    encoded,
)
from hermes_protocol.content import ImagePart, Message, Part, ReasoningPart, TextPart, ToolCall, ToolResult, Usage

FORMAT = "ollama"


def request_body(request: Request, terms: Terms) -> bytes:
    """The JSON body of one streaming call. Raises Unsendable for an effort or an image the model does not take."""
    request = seen(request, terms)
    body: dict[str, Any] = {**terms.extra, **effort_fields("ollama", request.thinking, terms.traits)}
    body.update(model=request.model, messages=list(_rows(request)), stream=True)
    if request.tools:
        body["tools"] = [
            {"type": "function", "function": {"name": t.name, "description": t.description, "parameters": t.parameters}}
            for t in request.tools
        ]
    options = {
        "num_ctx": terms.traits.context_length,
        "num_predict": request.max_output,
        "temperature": request.temperature,
    }
    said = {name: value for name, value in options.items() if value is not None}
    if said:
        body["options"] = {**said, **body.get("options", {})}
    return encoded(body)


def _rows(request: Request) -> Iterator[dict[str, Any]]:
    made: dict[str, tuple[int, str]] = {}  # call id -> position among all calls, tool
    if request.system:
        yield {"role": "system", "content": request.system}
    turn_start = max((i for i, m in enumerate(request.messages) if m.role == "user"), default=-1)
    results: list[ToolResult] = []
    for index, message in enumerate(request.messages):
        if message.role == "tool":
            results += message.results
            continue
        yield from _answers(results, made)
        results.clear()
        row: dict[str, Any] = {"role": message.role, "content": message.text}
        if images := [part.data for part in message.parts if isinstance(part, ImagePart)]:
            row["images"] = images
        if message.calls:
            made |= {call.call_id: (len(made) + n, call.name) for n, call in enumerate(message.calls)}
            row["tool_calls"] = [
                {
                    "function": {
                        "name": call.name,
                        "arguments": msgspec.json.decode(sendable_arguments(call.arguments)),
                    }
                }
                for call in message.calls
            ]
            thoughts = "".join(part.text for part in message.parts if isinstance(part, ReasoningPart))
            if thoughts and index > turn_start:
                row["thinking"] = thoughts
        yield row
    yield from _answers(results, made)


def _answers(results: list[ToolResult], made: dict[str, tuple[int, str]]) -> Iterator[dict[str, Any]]:
    """Results in the order of their calls: without ids, the order tells two calls of one tool apart."""
    for result in sorted(results, key=lambda result: made.get(result.call_id, (0, ""))[0]):
        row = {"role": "tool", "content": result.text}
        yield {**row, "tool_name": made[result.call_id][1]} if result.call_id in made else row


class OllamaReader:
    """Reads one answer."""

    def __init__(self) -> None:
        self._think = ThinkFilter()
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[tuple[str, str]] = []
        self._end: dict[str, Any] | None = None

    @property
    def finished(self) -> bool:
        """The line that says `done` has come."""
        return self._end is not None

    @property
    def done(self) -> bool:
        return self._end is not None

    @property
    def paused(self) -> bool:
        return False

    def feed(self, data: str) -> list[Chunk]:
        """The chunks of one line. Raises Malformed, ErrorObject."""
        line = decoded(data)
        if line.get("error"):
            raise ErrorObject(line)
        message = line.get("message")
        if message is not None and not isinstance(message, dict):
            raise Malformed(f"a message that is no object: {data[:120]!r}")
        chunks = self._message(message or {}) if self._end is None else []
        if line.get("done") is True:
            chunks += [self._keep(chunk) for chunk in self._think.flush()]
            self._end = line
        return chunks

    def reply(self) -> Reply | None:
        """The whole answer, or None when the stream ended before the line that says `done`."""
        if self._end is None:
            return None
        parts: list[Part] = []
        if self._reasoning:
            parts.append(ReasoningPart("".join(self._reasoning)))
        if text := "".join(self._text):
            parts.append(TextPart(text))
        for name, arguments in self._calls:
            parts.append(ToolCall(f"call_{uuid.uuid4().hex[:24]}", name, arguments))
        cut = self._end.get("done_reason") == "length"
        stop: Stop = "length" if cut else "tool_calls" if self._calls else "stop"
        return Reply(Message("assistant", tuple(parts)), stop, _usage(self._end))

    def _message(self, message: dict[str, Any]) -> list[Chunk]:
        chunks: list[Chunk] = []
        # Servers that only look like Ollama keep the name that thinking has elsewhere.
        thought, content = message.get("thinking") or message.get("reasoning_content"), message.get("content")
        if isinstance(thought, str) and thought:
            chunks.append(self._keep(ReasoningDelta(thought)))
        if isinstance(content, str) and content:
            chunks.extend(self._keep(chunk) for chunk in self._think.feed(content))
        elif content is not None and not isinstance(content, str):
            raise Malformed(f"content that is no text: {str(content)[:120]!r}")
        calls = message.get("tool_calls") or []
        if not isinstance(calls, list):
            raise Malformed(f"tool_calls is no list: {str(calls)[:120]!r}")
        chunks.extend(self._call(entry) for entry in calls)
        return chunks

    def _call(self, entry: Any) -> Chunk:
        function = entry.get("function") if isinstance(entry, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise Malformed(f"a tool call without a function and its name: {str(entry)[:120]!r}")
        given = function.get("arguments")
        arguments = given if isinstance(given, str) else msgspec.json.encode({} if given is None else given).decode()
        self._calls.append((function["name"], arguments))
        return CallDelta(len(self._calls) - 1, function["name"], len(arguments))

    def _keep(self, chunk: TextDelta | ReasoningDelta) -> TextDelta | ReasoningDelta:
        (self._text if isinstance(chunk, TextDelta) else self._reasoning).append(chunk.text)
        return chunk


def _usage(line: dict[str, Any]) -> Usage | None:
    if "prompt_eval_count" not in line and "eval_count" not in line:
        return None
    return Usage(input_tokens=count(line, "prompt_eval_count"), output_tokens=count(line, "eval_count"))


def _reader(request: Request) -> StreamReader:
    return OllamaReader()


def _otherwise(quirks: Quirks, refused: ProviderFailure) -> Quirks | None:
    return None


OLLAMA = WireFormat(
    name="ollama",
    path="api/chat",
    models_path="api/tags",
    tails=("/api/chat", "/api", "/v1"),
    key_header="authorization",
    headers={},
    lines=True,
    framing=LineReader,
    body=request_body,
    reader=_reader,
    otherwise=_otherwise,
)
