"""The product's own compaction behind the contract of the handed bench.

`python -m tests.bench.compaction_goals` runs everything; for single runs give the bench's run.py
`--adapter tests.bench.compaction_adapter:Ours` with the repository on PYTHONPATH. Options: `mode` (micro, batch, seed),
`summaries` (model, extract), and any setting of `compression`. The bench's messages are dictionaries in the form of
chat completions; beside them stands a `Context` whose rows are kept in step.
"""

from __future__ import annotations

from typing import Any

import msgspec

from hermes_daemon.core.compaction import batch, micro, prune
from hermes_daemon.core.compaction.context import Change, Context, Memory, Progress
from hermes_daemon.core.compaction.limits import limits
from hermes_daemon.core.compaction.rows import Row
from hermes_daemon.core.redact import redact
from hermes_daemon.core.settings import CompressionSettings
from hermes_protocol.content import ImagePart, Message, Part, TextPart, ToolCall, ToolResult

Dict = dict[str, Any]


class Saved(msgspec.Struct, frozen=True):
    """What is on disk: rows, the same in the bench's form, memory and progress."""

    rows: tuple[Row, ...]
    messages: list[Dict]
    memory: Memory | None
    progress: Progress


class Ours:
    """One session's compaction. Batch always, micro unless `mode=batch`."""

    name = "ours"
    head_messages = 2
    users_verbatim = "micro-only"

    def __init__(self, summarizer: Any, window: int, **opts: str) -> None:
        self.summarizer, self.window, self.opts = summarizer, window, opts
        self.mode = opts.get("mode", "micro")
        self.by_extract = opts.get("summaries") == "extract"
        given = {key: value for key, value in opts.items() if key not in ("mode", "summaries")}
        settings = msgspec.convert(
            {"threshold": 0.75, **given, "micro_compact_compat": "seed" if self.mode == "seed" else ""},
            CompressionSettings,
            strict=False,
        )
        self.limits = limits(settings, window)
        self.threshold, self.tail_tokens = self.limits.threshold, self.limits.tail
        self.context = Context()
        self.outcomes: dict[str, int] = {}

    def begin(self, messages: list[Dict]) -> None:
        """The rows come with on_append."""

    def on_append(self, messages: list[Dict], start: int) -> None:
        for message in messages[start:]:
            self.context.append(to_message(message), row_id=1)

    def maybe_batch(self, messages: list[Dict]) -> list[Dict]:
        context = self.context
        before = messages
        if self.limits.prune_trigger and isinstance(pruned := prune.plan(context, self.limits), Change):
            messages = self._commit(messages, pruned)
        if not batch.due(context, self.limits):
            return messages
        if planned := batch.plan(context, self.limits, redact):
            result: Change | str | None = "unreachable"
            if not planned.parts or self.by_extract:
                result = batch.fold_extract(context, self.limits, planned, redact)
            else:
                answer = self._summary(planned.previous, planned.parts, planned.max_tokens)
                if answer is not None:
                    result = batch.fold(context, self.limits, planned, *answer, redact)
                if isinstance(result, str):
                    self._count(f"batch_{result}")
                    result = batch.fold_extract(context, self.limits, planned, redact)
            if isinstance(result, Change):
                messages = self._commit(messages, result)
                self._count("batch")
        if relief := batch.relieve(context, self.limits):
            messages = self._commit(messages, relief)
            self._count("relief")
        batch.settled(context, self.limits)
        return messages if messages is not before else before

    def after_turn(self, messages: list[Dict]) -> list[Dict]:
        if self.mode == "batch":
            return messages
        context = self.context
        context.progress, due = micro.turn_finished(context.progress, self.limits)
        if not due:
            return messages
        planned = micro.plan(context, self.limits, redact)
        if isinstance(planned, str):
            self._count(planned)
            return messages
        if self.by_extract:
            result = micro.fold_extract(context, self.limits, planned, redact)
        else:
            answer = self._summary(planned.previous, planned.parts or ("",), planned.max_tokens)
            if answer is None:
                result = micro.failed(context, planned, "unreachable")
            else:
                result = micro.fold(context, self.limits, planned, *answer, redact)
        if isinstance(result, micro.Failed):
            self._count("exchange_skipped" if result.skipped else f"failed_{result.reason}")
            context.progress = result.progress
            return messages
        self._count(planned.kind)
        return self._commit(messages, result)

    def is_marker(self, message: Dict) -> bool:
        return message.get("_kind") == "summary"

    def persist(self, messages: list[Dict]) -> bytes:
        return msgspec.json.encode(
            Saved(tuple(self.context.rows), messages, self.context.memory, self.context.progress)
        )

    def resume(self, state: bytes) -> list[Dict]:
        saved = msgspec.json.decode(state, type=Saved)
        self.context = Context(saved.rows, saved.memory, saved.progress)
        return saved.messages

    def stats(self) -> dict[str, int]:
        memory = self.context.memory or Memory()
        cut = sum("characters left out ..." in text for text in memory.users)
        return {**self.outcomes, "users_behind_a_pointer": memory.users_left_out + cut}

    def close(self) -> None:
        """Nothing is held open."""

    def _commit(self, messages: list[Dict], change: Change) -> list[Dict]:
        after = list(messages)
        for item in reversed(change.replacements):
            after[item.start : item.end] = [to_dict(row) for row in item.rows]
        self.context.apply(change)
        return after

    def _summary(self, previous: str, parts: tuple[str, ...], most: int) -> tuple[str, str] | None:
        text, finish = previous, "stop"
        for part in parts:
            try:
                text, finish = self.summarizer.merge(text, part, most)
            except RuntimeError:
                return None
            if finish == "length":
                break
        return text, finish

    def _count(self, outcome: str) -> None:
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1


def to_message(row: Dict) -> Message:
    """A chat-completions row as a Message."""
    content = row.get("content") or ""
    if row["role"] == "tool":
        text = content if isinstance(content, str) else "\n".join(piece.get("text", "") for piece in content)
        return Message("tool", (ToolResult(row["tool_call_id"], text),))
    parts: list[Part] = []
    if isinstance(content, str):
        parts += [TextPart(content)] if content else []
    else:
        for piece in content:
            url = piece.get("image_url", {}).get("url", "")
            parts.append(TextPart(piece["text"]) if piece["type"] == "text" else ImagePart("image/png", url))
    for call in row.get("tool_calls") or ():
        parts.append(ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"]))
    return Message(row["role"], tuple(parts))


def to_dict(row: Row) -> Dict:
    """A row as the chat-completions dictionary that the bench compares."""
    message = row.message
    if message.role == "tool":
        result = message.results[0]
        return {"role": "tool", "tool_call_id": result.call_id, "content": result.text, "_kind": row.kind}
    images = [part for part in message.parts if isinstance(part, ImagePart)]
    content: Any = message.text
    if images:
        content = [
            {"type": "text", "text": part.text}
            if isinstance(part, TextPart)
            else {"type": "image_url", "image_url": {"url": part.data}}
            for part in message.parts
            if isinstance(part, TextPart | ImagePart)
        ]
    out: Dict = {"role": message.role, "content": content, "_kind": row.kind}
    if message.calls:
        out["tool_calls"] = [
            {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.calls
        ]
    return out
