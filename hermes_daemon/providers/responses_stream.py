"""The answer of a Responses stream, sans IO: events in, chunks out, a Reply at the end.

What is streamed is shown; what counts is the finished item, where the server sends one. Deltas are routed by
output_index, else by item id, never to "the last one opened". Items of the provider's own tools (web search and the
like) are carried along unread.
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

FORMAT = "openai_responses"


class _Item:
    """One output item under construction."""

    def __init__(self, position: int, raw: dict[str, Any]) -> None:
        self.position = position
        self.raw = raw
        self.kind = str(raw.get("type", ""))
        self.pieces: list[str] = []
        self.chars = 0
        self.refused = False
        self.done = False
        self.settled = False

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def write(self, delta: str) -> None:
        self.pieces.append(delta)
        self.chars += len(delta)

    def settle(self, whole: str) -> None:
        """The server told the whole: it counts instead of the pieces."""
        self.pieces, self.chars, self.settled = [whole], len(whole), True


class ResponsesReader:
    """Reads one answer. `used_ids` are the call ids of the history; `model` is whose encrypted thinking is kept."""

    def __init__(self, used_ids: Collection[str] = (), model: str = "") -> None:
        self._used = set(used_ids)
        self._model = model
        self._items: dict[object, _Item] = {}
        self._by_id: dict[str, _Item] = {}
        self._end: dict[str, Any] | None = None
        self._last_sequence = -1
        self._last_data = ""

    @property
    def finished(self) -> bool:
        """The response is over; nothing follows."""
        return self._end is not None

    @property
    def done(self) -> bool:
        return self._end is not None

    @property
    def paused(self) -> bool:
        return False

    def feed(self, data: str) -> list[Chunk]:
        """The chunks of one event. Raises Malformed, ErrorObject."""
        if data.strip() == "[DONE]":
            return []
        event = decoded(data)
        if self._is_repeated(event, data):
            return []
        kind = event.get("type")
        if kind == "error" or (kind is None and event.get("error")):
            raise ErrorObject(event.get("error") or event)
        if kind is None and isinstance(event.get("output"), list):  # the whole response instead of a stream
            kind, event = f"response.{event.get('status') or 'completed'}", {"response": event}
        if not isinstance(kind, str):
            raise Malformed(f"an event without a type: {data[:120]!r}")
        if kind.startswith("response.output_item."):
            return self._item_event(kind, event)
        if kind in _ENDS:
            return self._ended(kind, event)
        return self._delta(kind, event) if kind.endswith((".delta", ".done", ".added")) else []

    def reply(self) -> Reply | None:
        """The whole answer, or None when the stream ended before the server said that it had finished."""
        if self._end is None:
            return None
        half = next(filter(self._is_half, self._items.values()), None)
        if half is not None:
            raise Malformed(f"the call of {_name(half) or 'no tool'!r} in item {half.position} is half")
        parts: list[Part] = []
        refused = False
        for item in self._ordered():
            refused |= item.refused
            part = self._part(item)
            if part is not None:
                parts.append(part)
        has_calls = any(isinstance(part, ToolCall) for part in parts)
        usage = self._end.get("usage")
        message = Message("assistant", tuple(parts))
        return Reply(message, self._stop(refused, has_calls), _usage(usage) if isinstance(usage, dict) else None)

    # --- events ---

    def _is_repeated(self, event: dict[str, Any], data: str) -> bool:
        """An event that came twice in a row, told by its number. Servers that number nothing repeat nothing."""
        number = event.get("sequence_number")
        repeated = isinstance(number, int) and number == self._last_sequence and data == self._last_data
        if isinstance(number, int):
            self._last_sequence, self._last_data = number, data
        return repeated

    def _item_event(self, kind: str, event: dict[str, Any]) -> list[Chunk]:
        raw = event.get("item")
        if not isinstance(raw, dict):
            raise Malformed(f"{kind} without an item")
        item = self._open(event.get("output_index"), raw)
        if kind.endswith(".done") and not item.done:
            item.done = True
            return self._finish_item(item, raw)
        return [CallDelta(item.position, _name(item), item.chars)] if item.kind == "function_call" else []

    def _open(self, index: object, raw: dict[str, Any]) -> _Item:
        item = self._find({"output_index": index, "item_id": raw.get("id")})
        if item is None:
            item = _Item(len(self._items), raw)
            self._items[index if isinstance(index, int) else f"#{len(self._items)}"] = item
            if isinstance(raw.get("arguments"), str) and raw["arguments"] and item.kind == "function_call":
                item.write(raw["arguments"])
        elif not item.done:
            item.raw = {**item.raw, **raw}
            item.kind = item.kind or str(raw.get("type", ""))
        if isinstance(raw.get("id"), str):
            self._by_id[raw["id"]] = item
        return item

    def _find(self, event: dict[str, Any]) -> _Item | None:
        index, item_id = event.get("output_index"), event.get("item_id")
        if isinstance(index, int):
            return self._items.get(index)
        return self._by_id.get(item_id) if isinstance(item_id, str) else None

    def _finish_item(self, item: _Item, raw: dict[str, Any]) -> list[Chunk]:
        """What the finished item says beyond what was streamed; it is shown only where nothing was."""
        whole = _whole_text(item.kind, raw)
        if item.kind == "function_call":
            if whole:
                item.settle(whole)
            return [CallDelta(item.position, _name(item), item.chars)]
        if item.pieces or not whole:
            return []
        item.write(whole)
        item.refused |= _is_refusal(raw)
        return [ReasoningDelta(whole) if item.kind == "reasoning" else TextDelta(whole)]

    def _delta(self, kind: str, event: dict[str, Any]) -> list[Chunk]:
        what, _, how = kind.removeprefix("response.").rpartition(".")
        to = _STREAMED.get(what)
        if to is None:
            return []  # audio, annotations, logprobs, the provider's own tools: nothing for us
        item = self._find(event)
        if item is None:
            item = self._open(event.get("output_index"), {"type": to, "id": event.get("item_id")})
        if item.done:
            return []
        if how == "done":
            whole = event.get("arguments")
            if to == "function_call" and isinstance(whole, str) and whole:
                item.settle(whole)
            return []
        if how == "added":  # another part of a summary: a new paragraph
            if not item.pieces:
                return []
            item.write("\n\n")
            return [ReasoningDelta("\n\n")]
        delta = event.get("delta")
        if not isinstance(delta, str):
            raise Malformed(f"{kind} whose delta is no text: {str(delta)[:120]!r}")
        if not delta:
            return []
        item.write(delta)
        item.refused |= what == "refusal"
        if to == "function_call":
            return [CallDelta(item.position, _name(item), item.chars)]
        return [ReasoningDelta(delta) if to == "reasoning" else TextDelta(delta)]

    def _ended(self, kind: str, event: dict[str, Any]) -> list[Chunk]:
        response = event.get("response")
        response = response if isinstance(response, dict) else {}
        if kind in ("response.failed", "response.cancelled"):
            raise ErrorObject(response.get("error") or {"message": f"the response ended as {kind}", "code": 500})
        details = response.get("incomplete_details")
        reason = details.get("reason") if isinstance(details, dict) else None
        if kind == "response.incomplete" and reason not in _INCOMPLETE:
            raise ErrorObject({"message": f"the response is incomplete: {reason or 'no reason told'}", "code": 500})
        chunks: list[Chunk] = []
        output = response.get("output")
        for index, raw in enumerate(output if isinstance(output, list) and not self._items else ()):
            if isinstance(raw, dict):
                chunks += self._item_event("response.output_item.done", {"output_index": index, "item": raw})
        self._end = {**response, "_stop": _INCOMPLETE.get(str(reason))}
        return chunks

    # --- the end ---

    def _ordered(self) -> list[_Item]:
        """By output_index where every item has one, else as they came."""
        keys = list(self._items)
        numbers = [key for key in keys if isinstance(key, int)]
        return [self._items[key] for key in (sorted(numbers) if len(numbers) == len(keys) else keys)]

    def _part(self, item: _Item) -> Part | None:
        text = item.text
        if item.kind == "message":
            return TextPart(text) if text else None
        if item.kind == "function_call":
            return self._call(item)
        if item.kind == "reasoning":
            kept = {name: value for name, value in item.raw.items() if name in _REASONING_FIELDS and value is not None}
            sealed = seal(FORMAT, self._model, {"summary": [], **kept}) if kept.get("encrypted_content") else None
            return ReasoningPart(text, sealed) if text or sealed else None
        if item.kind.endswith("_call") and item.done:
            return ReasoningPart("", seal(FORMAT, self._model, item.raw))
        return None

    def _is_half(self, item: _Item) -> bool:
        """A call without a name, or without its end and an object in an answer that was not cut by its limit."""
        assert self._end is not None
        if item.kind != "function_call":
            return False
        if not _name(item):
            return True
        if item.done or item.settled or self._end["_stop"] is not None:
            return False
        return not is_object(item.text)

    def _call(self, item: _Item) -> ToolCall:
        call_id = item.raw.get("call_id")
        if not isinstance(call_id, str) or not call_id or call_id in self._used:
            call_id = f"call_{uuid.uuid4().hex[:24]}"
        self._used.add(call_id)
        return ToolCall(call_id, _name(item), item.text)

    def _stop(self, refused: bool, has_calls: bool) -> Stop:
        assert self._end is not None
        stop: Stop | None = self._end["_stop"]
        if refused or stop is not None:
            return "refusal" if refused else stop or "stop"
        return "tool_calls" if has_calls else "stop"


_ENDS = frozenset(
    {"response.completed", "response.incomplete", "response.failed", "response.cancelled", "response.done"}
)
_INCOMPLETE: dict[str, Stop] = {
    "max_output_tokens": "length",
    "max_tokens": "length",
    "content_filter": "refusal",
}
_STREAMED = {
    "output_text": "message",
    "refusal": "message",
    "function_call_arguments": "function_call",
    "reasoning_summary_text": "reasoning",
    "reasoning_text": "reasoning",
    "reasoning_summary_part": "reasoning",
}
_REASONING_FIELDS = ("type", "id", "summary", "encrypted_content")


def _name(item: _Item) -> str:
    name = item.raw.get("name")
    return name if isinstance(name, str) else ""


def _whole_text(kind: str, raw: dict[str, Any]) -> str:
    if kind == "function_call":
        arguments = raw.get("arguments")
        if arguments is None or isinstance(arguments, str):
            return arguments or ""
        return msgspec.json.encode(arguments).decode()
    parts = raw.get("content") if kind == "message" else raw.get("summary") or raw.get("content")
    texts = [part.get("text") or part.get("refusal") for part in parts or () if isinstance(part, dict)]
    return ("" if kind == "message" else "\n\n").join(text for text in texts if isinstance(text, str))


def _is_refusal(raw: dict[str, Any]) -> bool:
    parts = raw.get("content")
    return isinstance(parts, list) and any(isinstance(p, dict) and p.get("type") == "refusal" for p in parts)


def _usage(raw: dict[str, Any]) -> Usage:
    details, out = raw.get("input_tokens_details"), raw.get("output_tokens_details")
    return Usage(
        input_tokens=count(raw, "input_tokens"),
        output_tokens=count(raw, "output_tokens"),
        cache_read_tokens=count(details, "cached_tokens"),
        cache_write_tokens=count(details, "cache_write_tokens"),
        reasoning_tokens=count(out, "reasoning_tokens"),
    )
