"""The prune: old tool results give way to one line each, without a model. Arguments of calls are never rewritten."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from hermes_daemon.core.compaction.boundaries import head_end, newest_round
from hermes_daemon.core.compaction.context import Change, Context, Replacement, changed
from hermes_daemon.core.compaction.limits import Limits
from hermes_daemon.core.compaction.rows import Row
from hermes_daemon.core.compaction.source import clip
from hermes_daemon.core.history import readable_arguments
from hermes_daemon.core.window import message_tokens
from hermes_protocol.content import ImagePart, Message, Part, TextPart, ToolCall, ToolResult

Idle: TypeAlias = Literal["below_trigger", "not_rearmed", "tail_only", "nothing_eligible", "reclaim_below_minimum"]

DUPLICATE_CHARS = 200
IMAGES_KEPT = 1
"""User messages whose images stay: the newest."""


def plan(context: Context, limits: Limits) -> Change | Idle:
    """The change of a proactive prune, or why there is none. It re-arms once the context has grown by what it gave
    back, by the trigger or by the minimum, whichever is most, so that it breaks the prompt's cache seldom."""
    progress = context.progress
    if not limits.prune_trigger or context.tokens < limits.prune_trigger:
        return "below_trigger"
    if context.tokens < progress.prune_rearm:
        return "not_rearmed"
    rows = context.rows
    start = head_end(rows, limits.head_rows)
    end = min(len(rows) - limits.prune_keep_rows, newest_round(rows, start))
    if end <= start:
        return "tail_only"
    replacements = _pruned(rows, start, end, limits.prune_result_chars)
    if not replacements:
        return "nothing_eligible"
    change = changed(context, replacements, context.memory, progress)
    if change.saved < limits.prune_reclaim:
        return "reclaim_below_minimum"
    rearm = change.tokens_after + max(change.saved, limits.prune_trigger, limits.prune_reclaim)
    return msgspec.structs.replace(change, progress=msgspec.structs.replace(change.progress, prune_rearm=rearm))


def age_images(context: Context) -> Change | None:
    """The change that puts a line of text in the place of images before the newest user message that has one."""
    rows = context.rows
    holders = [at for at, row in enumerate(rows) if any(isinstance(part, ImagePart) for part in row.message.parts)]
    replacements: list[Replacement] = []
    for at in holders[:-IMAGES_KEPT]:
        parts: tuple[Part, ...] = tuple(
            TextPart(f"[image {part.mime}, shown earlier]") if isinstance(part, ImagePart) else part
            for part in rows[at].message.parts
        )
        replacements.append(Replacement(at, at + 1, (_with_parts(rows[at], parts),)))
    return changed(context, replacements, context.memory, context.progress) if replacements else None


def clipped_result(row: Row, most: int) -> Row:
    """The row with its result cut to head and tail to about `most` tokens; the same row if it is smaller."""
    if row.message.role != "tool" or row.tokens <= most:
        return row
    parts: list[Part] = []
    for part in row.message.parts:
        if isinstance(part, ToolResult):
            length = max(len(part.text) * most // row.tokens, DUPLICATE_CHARS)
            part = ToolResult(part.call_id, clip(part.text, length, length * 2 // 3, length // 4), part.is_error)
        parts.append(part)
    smaller = _with_parts(row, tuple(parts))
    return smaller if smaller.tokens < row.tokens else row


def _pruned(rows: list[Row], start: int, end: int, least_chars: int) -> list[Replacement]:
    calls = {call.call_id: call for row in rows[start:end] for call in row.message.calls}
    newest: dict[str, int] = {}
    for at in range(start, len(rows)):
        for result in rows[at].message.results:
            if len(result.text) >= DUPLICATE_CHARS:
                newest[result.text] = at
    replacements: list[Replacement] = []
    for at in range(start, end):
        results = rows[at].message.results
        if len(results) != 1:
            continue
        line = _line(results[0], calls.get(results[0].call_id), newest.get(results[0].text, at) > at, least_chars)
        if line is not None:
            result = ToolResult(results[0].call_id, line, results[0].is_error)
            replacements.append(Replacement(at, at + 1, (_with_parts(rows[at], (result,)),)))
    return replacements


def _line(result: ToolResult, call: ToolCall | None, repeated: bool, least_chars: int) -> str | None:
    """What stands in the place of a result, None when it stays."""
    if repeated:
        return "[The same result stands in full further down.]"
    if len(result.text) < least_chars:
        return None
    name = call.name if call else "tool"
    arguments = readable_arguments(call.arguments) if call else None
    what = " ".join(str(value) for value in (arguments or {}).values() if isinstance(value, str | int))
    what = " ".join(what.split())[:80]
    lines = result.text.count("\n") + 1
    failed = "failed, " if result.is_error else ""
    size = f"{failed}{lines:,} lines, {len(result.text):,} characters"
    return f"[{name} {what}: {size}; left out to save room, call again if needed]"


def _with_parts(row: Row, parts: tuple[Part, ...]) -> Row:
    message: Message = msgspec.structs.replace(row.message, parts=parts)
    return Row(message, message_tokens(message), row.kind)
