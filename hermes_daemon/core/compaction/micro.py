"""Micro passes: after a turn the oldest finished exchanges give way to a summary, user rows stay where they are.

By default a pass waits until it gives back enough to be worth a broken prompt cache (`Limits.gate`) and then absorbs
all of it in one request; an older marker becomes a line of text in its place. In seed mode it is one exchange a turn
and older markers go.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from hermes_daemon.core.compaction.boundaries import exchanges, head_end, tail_start
from hermes_daemon.core.compaction.context import Change, Context, Memory, Progress, Replacement, changed
from hermes_daemon.core.compaction.extract import Extract, extracted, rendered
from hermes_daemon.core.compaction.identifiers import merged
from hermes_daemon.core.compaction.limits import Limits
from hermes_daemon.core.compaction.marker import marker
from hermes_daemon.core.compaction.rows import STUB, written
from hermes_daemon.core.compaction.source import Redact, mentioned, source_parts
from hermes_daemon.core.compaction.verdict import Fault, cleaned, fault
from hermes_daemon.core.window import text_tokens

Idle: TypeAlias = Literal["not_due", "nothing_to_absorb", "below_reclaim"]

ATTEMPTS = 3
_STUB = written("assistant", STUB, "stub")
_WORTH = 3 * _STUB.tokens
"""A smaller exchange stays as it is: a stub would save next to nothing."""


class Plan(msgspec.Struct, frozen=True):
    """What a pass would do. absorb: merge `parts` one after the other into `previous`; defrag: rewrite `previous`.
    `spans` are the exchanges (indexes of the context), `folded_tokens` their size."""

    kind: Literal["absorb", "defrag"]
    previous: str
    parts: tuple[str, ...]
    max_tokens: int
    spans: tuple[tuple[int, int], ...] = ()
    folded_tokens: int = 0


class Failed(msgspec.Struct, frozen=True):
    """Nothing changes but the progress: why, and whether the exchange is passed over from now on."""

    reason: Fault | Literal["growth"]
    progress: Progress
    skipped: bool = False


def turn_finished(progress: Progress, limits: Limits) -> tuple[Progress, bool]:
    """The progress after one more turn, and whether a pass is due by the cadence."""
    turns = progress.turns + 1
    due = turns >= limits.every_n_turns
    return msgspec.structs.replace(progress, turns=0 if due else turns), due


def plan(context: Context, limits: Limits, redact: Redact) -> Plan | Idle:
    """The next pass over the context. `below_reclaim`: there is something, but not worth a pass yet."""
    rows, memory = context.rows, context.memory
    summary = memory.summary if memory else ""
    if limits.seed and memory and _defrag_due(memory, context.progress, limits):
        return Plan("defrag", summary, (), limits.marker(memory.folded_tokens))
    head = head_end(rows, limits.head_rows)
    start = max(context.progress.cursor, head)
    end = tail_start(rows, limits.tail, start)
    spans: list[tuple[int, int]] = []
    total = 0
    single = limits.seed or limits.gate == 0
    room = limits.summary_input - text_tokens(summary)
    for first, last in exchanges(rows, start, end):
        size = sum(row.tokens for row in rows[first:last])
        if size < _WORTH and not limits.seed:
            continue
        if spans and total + size > room:
            break
        spans.append((first, last))
        total += size
        if single:
            break
    if not spans:
        return "nothing_to_absorb"
    old_marker = rows[context.marker_at].tokens if context.marker_at is not None else 0
    grown = max(limits.marker(memory.folded_tokens if memory else 0) - old_marker, 0)
    if limits.gate and not context.progress.failures and total - grown // 2 - len(spans) * _STUB.tokens < limits.gate:
        return "below_reclaim"
    if not limits.seed and memory and _defrag_due(memory, context.progress, limits):
        return Plan("defrag", summary, (), limits.marker(memory.folded_tokens))
    spans = spans[: _attempted(len(spans), context.progress.failures)]
    folded = [row for first, last in spans for row in rows[first:last]]
    size = sum(row.tokens for row in folded)
    ahead = (memory.folded_tokens if memory else 0) + size
    parts = source_parts(folded, redact, max(limits.summary_input - limits.marker(ahead), 1_000))
    return Plan("absorb", summary, parts, limits.marker(ahead), tuple(spans), size)


def fold(context: Context, limits: Limits, planned: Plan, text: str, finish: str, redact: Redact) -> Change | Failed:
    """The change that a model's summary makes, or what was wrong with it. The context is not touched."""
    text = cleaned(text)
    wrong = fault(text, finish, previous=planned.previous, new="\n\n".join(planned.parts), most=planned.max_tokens)
    if wrong:
        return failed(context, planned, wrong)
    if planned.kind == "defrag":
        return _defragged(context, limits, planned, text)
    change = _absorbed(context, limits, planned, text, None, redact)
    if change.saved <= 0 and not limits.seed:
        return failed(context, planned, "growth")
    return change


def fold_extract(context: Context, limits: Limits, planned: Plan, redact: Redact) -> Change | Failed:
    """The same with a mechanical summary, for a daemon that has no model for summaries."""
    rows = context.rows
    first = planned.spans[0][0]
    while first > 0 and rows[first - 1].message.role == "user":
        first -= 1
    extract = extracted(earlier(context.memory), rows[first : planned.spans[-1][1]], redact)
    change = _absorbed(context, limits, planned, rendered(extract, planned.max_tokens), extract, redact)
    return change if change.saved > 0 else failed(context, planned, "growth")


def failed(context: Context, planned: Plan, reason: Fault | Literal["growth"]) -> Failed:
    """Nothing was folded. The third failure in a row passes the exchange over; a defrag waits for growth."""
    progress = context.progress
    if planned.kind == "defrag":
        later = text_tokens(planned.previous) * 3 // 2
        return Failed(reason, msgspec.structs.replace(progress, defrag_at=later))
    if progress.failures + 1 < ATTEMPTS:
        return Failed(reason, msgspec.structs.replace(progress, failures=progress.failures + 1))
    return Failed(reason, msgspec.structs.replace(progress, failures=0, cursor=planned.spans[-1][1]), skipped=True)


def earlier(memory: Memory | None) -> Extract:
    """What a mechanical summary starts from: the one before, or a model's text carried on."""
    if memory is None:
        return Extract()
    return memory.extract or Extract(carried=memory.summary)


def _absorbed(context: Context, limits: Limits, planned: Plan, text: str, extract: Extract | None,
              redact: Redact) -> Change:  # fmt: skip
    rows, before = context.rows, context.memory or Memory()
    folded = [row for first, last in planned.spans for row in rows[first:last]]
    progress = context.progress
    memory = msgspec.structs.replace(
        before,
        summary=text,
        by="model" if extract is None else "extract",
        extract=extract,
        mentions=() if limits.seed else merged(before.mentions, mentioned(folded, redact), progress.passes_total + 1),
        folded_rows=before.folded_rows + len(folded),
        folded_tokens=before.folded_tokens + planned.folded_tokens,
    )
    superseded = () if limits.seed else (_STUB,)
    replacements = (
        [] if context.marker_at is None else [Replacement(context.marker_at, context.marker_at + 1, superseded)]
    )
    replacements += [Replacement(first, last, (_STUB,)) for first, last in planned.spans[:-1]]
    first, last = planned.spans[-1]
    replacements.append(Replacement(first, last, (marker(memory, limits),)))
    replacements.sort(key=lambda item: item.start)
    shift = sum(len(item.rows) - (item.end - item.start) for item in replacements)
    after = msgspec.structs.replace(progress, cursor=last + shift, failures=0)
    return changed(context, replacements, memory, after, planned.folded_tokens)


def _defrag_due(memory: Memory, progress: Progress, limits: Limits) -> bool:
    """Whether the summary, its index not counted, has grown past the limit and past the last attempt's back-off."""
    least = limits.defrag if limits.seed else max(limits.defrag, limits.marker(memory.folded_tokens))
    return text_tokens(memory.summary) >= max(least, progress.defrag_at)


def _defragged(context: Context, limits: Limits, planned: Plan, text: str) -> Change | Failed:
    """The marker with the rewritten summary. One that is not a fifth shorter is kept, but the next attempt waits."""
    was, now = text_tokens(planned.previous), text_tokens(text)
    if now >= was or context.marker_at is None or context.memory is None:
        return failed(context, planned, "growth")
    memory = msgspec.structs.replace(context.memory, summary=text, by="model", extract=None)
    later = now * 3 // 2 if now > was * 0.8 else 0
    at = context.marker_at
    replacement = Replacement(at, at + 1, (marker(memory, limits),))
    return changed(context, [replacement], memory, msgspec.structs.replace(context.progress, defrag_at=later))


def _attempted(count: int, failures: int) -> int:
    """After a failure half of the exchanges are tried, then the first alone, so that only a bad one is passed over."""
    return count if failures == 0 else max(count // 2, 1) if failures == 1 else 1
