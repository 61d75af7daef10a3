"""The answer of a Messages stream, sans IO: events in, chunks out, a Reply at the end.

Blocks keep the order they were opened in, because thinking has to stand before the call it led to. Signatures come in
pieces and are joined; blocks that only the provider can read are carried along unread.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection
from typing import Any

import msgspec

from hermes_daemon.core.history import is_object
from hermes_daemon.core.ports import CallDelta, Chunk, ReasoningDelta, Reply, Stop, TextDelta
from hermes_daemon.providers.opaque import seal
from hermes_daemon.providers.prices import count
from hermes_daemon.providers.wire import ErrorObject, Malformed, decoded
from hermes_protocol.content import Message, Part, ReasoningPart, TextPart, ToolCall, Usage

FORMAT = "anthropic_messages"
PAUSED = "pause_turn"

_STOPS: dict[str, Stop] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}


class _Block:
    """One content block under construction. `carried` blocks go back as they are."""

    def __init__(self, index: int, raw: dict[str, Any]) -> None:
        self.index = index
        self.raw = raw
        self.kind = str(raw.get("type", ""))
        self.text: list[str] = []
        self.signature: list[str] = []
        self.json: list[str] = []
        self.chars = 0
        self.closed = False


class MessagesReader:
    """Reads one answer. `used_ids` are the call ids of the history; `model` is whose signatures are kept."""

    def __init__(self, used_ids: Collection[str] = (), model: str = "") -> None:
        self._used = set(used_ids)
        self._model = model
        self._blocks: dict[int, _Block] = {}
        self._usage: dict[str, Any] = {}
        self._reason = ""
        self._started = False
        self._done = False

    @property
    def finished(self) -> bool:
        """The stop reason has come."""
        return bool(self._reason)

    @property
    def done(self) -> bool:
        return self._done

    @property
    def paused(self) -> bool:
        """The provider's own tools want another request that goes on from here."""
        return self._reason == PAUSED

    def feed(self, data: str) -> list[Chunk]:
        """The chunks of one event. Raises Malformed, ErrorObject."""
        if data.strip() == "[DONE]":
            return []
        event = decoded(data)
        kind = event.get("type")
        if kind == "content_block_delta":
            return self._delta(event)
        if kind == "content_block_start":
            return self._start(event)
        if kind == "content_block_stop":
            self._block(event).closed = True
        elif kind == "message_start":
            self._begin(event)
        elif kind == "message_delta":
            self._end(event)
        elif kind == "message_stop":
            self._done = bool(self._reason)
        elif kind == "error" or event.get("error"):
            raise ErrorObject(event.get("error") or event)
        elif kind == "message":
            return self._whole(event)
        elif not isinstance(kind, str):
            raise Malformed(f"an event without a type: {data[:120]!r}")
        return []  # ping, and what is not known yet

    def reply(self) -> Reply | None:
        """The whole answer, or None when the stream ended before the server said that it had finished."""
        if not self._reason:
            return None
        half = next(filter(self._is_half, self._blocks.values()), None)
        if half is not None:
            raise Malformed(f"the call of {_name(half) or 'no tool'!r} in block {half.index} is half")
        parts = [part for block in self._blocks.values() if (part := self._part(block)) is not None]
        has_calls = any(isinstance(part, ToolCall) for part in parts)
        stop = _STOPS.get(self._reason) or ("tool_calls" if has_calls else "stop")
        return Reply(Message("assistant", tuple(parts)), stop, _usage(self._usage) if self._usage else None)

    # --- events ---

    def _begin(self, event: dict[str, Any]) -> None:
        if self._started and self._blocks:
            raise Malformed("a second message_start in the middle of the answer")
        self._started = True
        message = event.get("message")
        usage = message.get("usage") if isinstance(message, dict) else None
        if isinstance(usage, dict):
            self._usage = dict(usage)

    def _start(self, event: dict[str, Any]) -> list[Chunk]:
        raw, index = event.get("content_block"), event.get("index")
        if not isinstance(raw, dict) or not isinstance(index, int):
            raise Malformed(f"content_block_start without a block or an index: {str(event)[:120]!r}")
        if index in self._blocks:
            return []  # told twice
        block = self._blocks[index] = _Block(index, raw)
        if block.kind == "text" and isinstance(raw.get("text"), str) and raw["text"]:
            block.text.append(raw["text"])
            return [TextDelta(raw["text"])]
        if block.kind == "thinking":
            block.signature += [raw["signature"]] if isinstance(raw.get("signature"), str) else []
            if isinstance(raw.get("thinking"), str) and raw["thinking"]:
                block.text.append(raw["thinking"])
                return [ReasoningDelta(raw["thinking"])]
        return [CallDelta(index, _name(block), 0)] if block.kind == "tool_use" else []

    def _block(self, event: dict[str, Any]) -> _Block:
        index = event.get("index")
        block = self._blocks.get(index) if isinstance(index, int) else None
        if block is None:
            raise Malformed(f"{event.get('type')} for a block {index!r} that was never begun")
        return block

    def _delta(self, event: dict[str, Any]) -> list[Chunk]:
        block, delta = self._block(event), event.get("delta")
        if not isinstance(delta, dict):
            raise Malformed(f"content_block_delta without a delta: {str(event)[:120]!r}")
        kind = delta.get("type")
        if block.closed and kind in _TEXT_OF:
            raise Malformed(f"{kind} for block {block.index}, which is over")
        text = delta.get(_TEXT_OF.get(str(kind), ""))
        if kind not in _TEXT_OF or text is None:
            return []  # citations, and what is not known yet
        if not isinstance(text, str):
            raise Malformed(f"{kind} that holds no text: {str(text)[:120]!r}")
        if kind == "signature_delta":
            block.signature.append(text)
            return []
        if kind == "input_json_delta":
            block.json.append(text)
            block.chars += len(text)
            return [CallDelta(block.index, _name(block), block.chars)] if block.kind == "tool_use" else []
        block.text.append(text)
        if not text:
            return []
        return [ReasoningDelta(text) if kind == "thinking_delta" else TextDelta(text)]

    def _end(self, event: dict[str, Any]) -> None:
        delta, usage = event.get("delta"), event.get("usage")
        if isinstance(delta, dict) and isinstance(delta.get("stop_reason"), str):
            self._reason = delta["stop_reason"]
        if isinstance(usage, dict):  # the counts are sums, not differences
            self._usage.update({name: value for name, value in usage.items() if value is not None})

    def _whole(self, message: dict[str, Any]) -> list[Chunk]:
        """An answer that was not streamed."""
        chunks: list[Chunk] = []
        content = message.get("content")
        for index, block in enumerate(content if isinstance(content, list) else ()):
            chunks += self._start({"content_block": block, "index": index})
        self._end({"delta": {"stop_reason": message.get("stop_reason")}, "usage": message.get("usage")})
        self._done = bool(self._reason)
        return chunks

    # --- the end ---

    def _part(self, block: _Block) -> Part | None:
        text = "".join(block.text)
        if block.kind == "text":
            return TextPart(text) if text else None
        if block.kind == "thinking":
            signature = "".join(block.signature)
            return ReasoningPart(text, seal(FORMAT, self._model, {"signature": signature}) if signature else None)
        if block.kind == "redacted_thinking":
            return ReasoningPart("", seal(FORMAT, self._model, {"block": block.raw}))
        if block.kind == "tool_use":
            return self._call(block)
        if block.kind and block.closed:  # the provider's own tools and their results
            raw = {**block.raw, "input": _parsed(block.json)} if block.json else block.raw
            return ReasoningPart("", seal(FORMAT, self._model, {"block": raw}))
        return None

    def _is_half(self, block: _Block) -> bool:
        """A call without a name, or without its end and an object in an answer that was not cut by its limit."""
        if block.kind != "tool_use":
            return False
        if not _name(block):
            return True
        if block.closed or block.raw.get("input"):
            return False
        return self._reason not in _STOPS and not is_object("".join(block.json))

    def _call(self, block: _Block) -> ToolCall:
        call_id = block.raw.get("id")
        if not isinstance(call_id, str) or not call_id or call_id in self._used:
            call_id = f"call_{uuid.uuid4().hex[:24]}"
        self._used.add(call_id)
        arguments = "".join(block.json)
        told = block.raw.get("input")
        if not arguments and told:  # all of it at the start, as some gateways send it
            arguments = told if isinstance(told, str) else msgspec.json.encode(told).decode()
        return ToolCall(call_id, _name(block), arguments)


_TEXT_OF = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "input_json_delta": "partial_json",
}


def _name(block: _Block) -> str:
    name = block.raw.get("name")
    return name if isinstance(name, str) else ""


def _parsed(pieces: list[str]) -> Any:
    try:
        return msgspec.json.decode("".join(pieces))
    except (msgspec.DecodeError, UnicodeEncodeError):
        return {}


def _usage(raw: dict[str, Any]) -> Usage:
    """The API counts cached tokens apart from the others; ours are among the input."""
    read, written = count(raw, "cache_read_input_tokens"), count(raw, "cache_creation_input_tokens")
    return Usage(
        input_tokens=count(raw, "input_tokens") + read + written,
        output_tokens=count(raw, "output_tokens"),
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=count(raw.get("output_tokens_details"), "thinking_tokens", "reasoning_tokens"),
    )
