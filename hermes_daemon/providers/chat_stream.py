"""The answer of a chat completions stream, sans IO: the data of events in, chunks out, a Reply at the end.

The format is loosely kept in the wild: tool calls that share an index, ids that are missing or repeated, arguments as
an object, usage in any chunk, `[DONE]` without a finish reason, errors inside a stream that then closes well. The one
rule above all: an answer that was cut is never given out as a whole one.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection
from typing import Any

import msgspec

from hermes_daemon.core.history import is_object
from hermes_daemon.core.ports import CallDelta, Chunk, ReasoningDelta, Reply, Stop, TextDelta
from hermes_daemon.providers.chat_request import FORMAT, REASONING_FIELDS
from hermes_daemon.providers.opaque import seal
from hermes_daemon.providers.prices import count
from hermes_daemon.providers.reasoning_details import ReasoningDetails
from hermes_daemon.providers.think import ThinkFilter
from hermes_daemon.providers.wire import ErrorObject, Malformed
from hermes_protocol.content import Message, Part, ReasoningPart, TextPart, ToolCall, Usage

DONE = "[DONE]"

_STOPS: dict[str, Stop] = {
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "refusal",
    "refusal": "refusal",
}


class _Delta(msgspec.Struct):
    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    reasoning_text: Any = None
    thinking: Any = None
    reasoning_details: Any = None
    refusal: Any = None
    tool_calls: Any = None
    function_call: Any = None


class _Choice(msgspec.Struct):
    index: Any = None
    delta: _Delta | None = None
    message: _Delta | None = None
    finish_reason: Any = None


class _Data(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: Any = None
    error: Any = None
    x_groq: Any = None


class ReplyReader:
    """Reads one answer. `known_tools` are the names that were offered, `used_ids` the call ids of the history, `model`
    is whose signatures are kept."""

    def __init__(self, known_tools: Collection[str] = (), used_ids: Collection[str] = (), model: str = "") -> None:
        self._model = model
        self._decoder = msgspec.json.Decoder(_Data)
        self._think = ThinkFilter()
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._reasoning_field = ""
        self._details = ReasoningDetails()
        self._calls = CallAssembler(known_tools, used_ids, model)
        self._usage: Usage | None = None
        self._refused = False
        self._finish = ""
        self.done = False

    @property
    def finished(self) -> bool:
        """The finish reason has come: what may follow is the usage only."""
        return bool(self._finish)

    @property
    def paused(self) -> bool:
        return False

    def feed(self, data: str) -> list[Chunk]:
        """The chunks of one event. Raises Malformed, ErrorObject."""
        if data.strip() == DONE:
            self.done = True
            return []
        try:
            read = self._decoder.decode(data)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
            raise Malformed(f"{error}: {data[:120]!r}") from None
        if read.error:
            raise ErrorObject(read.error)
        if isinstance(read.x_groq, dict):  # Groq tells usage and errors in an envelope of its own
            if read.x_groq.get("error"):
                raise ErrorObject({"message": str(read.x_groq["error"]), "type": "server_error"})
            read.usage = read.usage or read.x_groq.get("usage")
        if isinstance(read.usage, dict):
            self._usage = _usage(read.usage)
        for choice in read.choices or ():
            if choice.index in (None, 0):
                return self._choice(choice)
        return []

    def reply(self) -> Reply | None:
        """The whole answer, or None when the stream ended before the server said that it had finished."""
        if not self._finish:
            return None
        for chunk in self._think.flush():
            self._keep(chunk)
        parts: list[Part] = []
        details = self._details.whole()
        if self._reasoning or details:
            opaque = seal(FORMAT, self._model, details) if details else self._reasoning_field or None
            parts.append(ReasoningPart("".join(self._reasoning), opaque))
        if text := "".join(self._text):
            parts.append(TextPart(text))
        calls = self._calls.calls()
        parts.extend(calls)
        return Reply(Message("assistant", tuple(parts)), self._stop(bool(calls)), self._usage)

    def _stop(self, has_calls: bool) -> Stop:
        if self._refused:
            return "refusal"
        return _STOPS.get(self._finish) or ("tool_calls" if has_calls else "stop")

    def _choice(self, choice: _Choice) -> list[Chunk]:
        chunks: list[Chunk] = []
        delta = choice.delta or choice.message
        if delta is not None:
            self._delta(delta, chunks)
        if isinstance(choice.finish_reason, str) and choice.finish_reason:
            if choice.finish_reason in ("error", "insufficient_system_resource"):
                words = f"the answer ended with finish_reason {choice.finish_reason}"
                raise ErrorObject({"message": words, "type": "server_error"})
            self._finish = choice.finish_reason
            chunks.extend(self._keep(chunk) for chunk in self._think.flush())
        return chunks

    def _delta(self, delta: _Delta, chunks: list[Chunk]) -> None:
        told = self._details.add(delta.reasoning_details) if delta.reasoning_details else ""
        for field in REASONING_FIELDS:
            thought = getattr(delta, field)
            # Gateways that know both names send the same words in both: the first one counts.
            if isinstance(thought, str) and thought and self._reasoning_field in ("", field):
                self._reasoning_field = field
                chunks.append(self._keep(ReasoningDelta(thought)))
                break
        else:
            if told and not self._reasoning_field:
                chunks.append(self._keep(ReasoningDelta(told)))
        if delta.content is not None:
            self._content(delta.content, chunks)
        if isinstance(delta.refusal, str) and delta.refusal:
            self._refused = True
            chunks.append(self._keep(TextDelta(delta.refusal)))
        if delta.tool_calls:
            if not isinstance(delta.tool_calls, list):
                raise Malformed(f"tool_calls is no list: {str(delta.tool_calls)[:120]!r}")
            chunks.extend(self._calls.add(entry) for entry in delta.tool_calls)
        if isinstance(delta.function_call, dict):  # the format before tools had a name
            chunks.append(self._calls.add({"index": 0, "function": delta.function_call}))

    def _content(self, content: Any, chunks: list[Chunk]) -> None:
        if isinstance(content, str):
            chunks.extend(self._keep(chunk) for chunk in self._think.feed(content))
            return
        if not isinstance(content, list):
            raise Malformed(f"content is neither text nor a list: {str(content)[:120]!r}")
        for part in content:
            kind = part.get("type") if isinstance(part, dict) else None
            if kind == "text" and isinstance(part.get("text"), str):
                chunks.extend(self._keep(chunk) for chunk in self._think.feed(part["text"]))
            elif kind == "thinking":
                chunks.extend(self._keep(ReasoningDelta(thought)) for thought in _thoughts(part.get("thinking")))

    def _keep(self, chunk: TextDelta | ReasoningDelta) -> TextDelta | ReasoningDelta:
        (self._text if isinstance(chunk, TextDelta) else self._reasoning).append(chunk.text)
        return chunk


class _Slot:
    """A call under construction. The arguments are kept in pieces: some servers send one character at a time."""

    def __init__(self, position: int, call_id: str, name: str) -> None:
        self.position, self.id, self.name = position, call_id, name
        self.pieces: list[str] = []
        self.chars = 0
        self.signed: Any = None

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)

    @property
    def complete(self) -> bool:
        """Whether the arguments so far are an object; the cheap look at the end comes first."""
        return bool(self.pieces) and self.pieces[-1].rstrip()[-1:] in ("}", "") and is_object(self.arguments)

    def write(self, arguments: Any) -> None:
        if arguments is None or arguments == "":
            return
        if not isinstance(arguments, str):
            self.pieces = [msgspec.json.encode(arguments).decode()]
        elif len(arguments) == self.chars and self.complete and arguments == self.arguments:
            return  # the whole text once more, at the end
        else:
            self.pieces.append(arguments)
            self.chars += len(arguments)
            return
        self.chars = len(self.pieces[0])

    def extend_name(self, name: str) -> None:
        if name == self.name or self.pieces:
            return  # repeated with every delta
        self.name = name if name.startswith(self.name) else self.name + name


class CallAssembler:
    """Puts tool-call deltas together, whatever identifies them: an index, an id, both, or neither."""

    def __init__(self, known_tools: Collection[str], used_ids: Collection[str], model: str = "") -> None:
        self._model = model
        self._known = frozenset(known_tools)
        self._used = set(used_ids)
        self._slots: list[_Slot] = []
        self._by_index: dict[int | str, _Slot] = {}

    def add(self, entry: Any) -> CallDelta:
        """Take one delta. Raises Malformed."""
        if not isinstance(entry, dict):
            raise Malformed(f"a tool call that is no object: {str(entry)[:120]!r}")
        function = entry.get("function") or {}
        if not isinstance(function, dict):
            raise Malformed(f"a tool call whose function is no object: {str(function)[:120]!r}")
        call_id = entry["id"] if isinstance(entry.get("id"), str) else ""
        name = function["name"] if isinstance(function.get("name"), str) else ""
        index = entry["index"] if isinstance(entry.get("index"), int | str) else None
        slot = self._find(index, call_id)
        if slot is None or self._begins_another(slot, index, call_id, name):
            slot = _Slot(len(self._slots), call_id, name)
            self._slots.append(slot)
        else:
            slot.id = slot.id or call_id
            if name:
                slot.extend_name(name)
        if index is not None:
            self._by_index[index] = slot
        slot.signed = slot.signed or entry.get("extra_content")
        slot.write(function.get("arguments"))
        return CallDelta(slot.position, slot.name, slot.chars)

    def calls(self) -> list[ToolCall]:
        """The calls in the order they were opened. Ids that are missing or were used before get a fresh one.

        Raises Malformed for arguments whose call was never named.
        """
        calls = []
        for slot in self._slots:
            if not slot.name and not slot.pieces:
                continue  # an empty placeholder
            if not slot.name:
                raise Malformed(f"the call at position {slot.position} is half: it has arguments and no name")
            call_id = slot.id
            if not call_id or call_id in self._used:
                call_id = f"call_{uuid.uuid4().hex[:24]}"
            self._used.add(call_id)
            opaque = None if slot.signed is None else seal(FORMAT, self._model, slot.signed)
            calls.append(ToolCall(call_id, slot.name, slot.arguments, opaque))
        return calls

    def _find(self, index: int | str | None, call_id: str) -> _Slot | None:
        """The slot a delta names: a new index is always a new call; an id leads where the index says nothing new."""
        if index is not None and index not in self._by_index:
            return None
        slot = self._by_index[index] if index is not None else self._slots[-1] if self._slots else None
        if slot is not None and call_id and call_id != slot.id:
            return next((other for other in self._slots if other.id == call_id), slot)
        return slot

    def _begins_another(self, slot: _Slot, index: int | str | None, call_id: str, name: str) -> bool:
        """Whether a delta for a slot in use opens a new call instead: servers exist that number every call 0."""
        if not name or (call_id and call_id == slot.id):
            return False
        if slot.complete or (index is None and call_id and slot.id):
            return True
        # Nothing written yet: another call only if it is surely another tool, else a repeated or continued name.
        return not slot.pieces and name != slot.name and name in self._known and slot.name in self._known


def _thoughts(thinking: Any) -> list[str]:
    if isinstance(thinking, str):
        return [thinking] if thinking else []
    if isinstance(thinking, list):
        texts = [piece.get("text") for piece in thinking if isinstance(piece, dict)]
        return [text for text in texts if isinstance(text, str) and text]
    return []


def _usage(raw: dict[str, Any]) -> Usage:
    """Input counts all prompt tokens, those read from a cache included; output all, those spent thinking included."""
    prompt, completion = raw.get("prompt_tokens_details"), raw.get("completion_tokens_details")
    cost = raw.get("cost")
    return Usage(
        input_tokens=count(raw, "prompt_tokens"),
        output_tokens=count(raw, "completion_tokens"),
        cache_read_tokens=count(prompt, "cached_tokens") or count(raw, "prompt_cache_hit_tokens"),
        cache_write_tokens=count(prompt, "cache_write_tokens"),
        reasoning_tokens=count(completion, "reasoning_tokens"),
        cost=float(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) else None,
    )
