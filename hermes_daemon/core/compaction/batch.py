"""Batch passes: at the threshold everything between head and tail gives way to one marker. User texts of that part are
quoted in it; where the cut goes through a running turn its request is told again behind the marker."""

from __future__ import annotations

import msgspec

from hermes_daemon.core.compaction.boundaries import head_end, newest_round, open_round, tail_start
from hermes_daemon.core.compaction.context import Change, Context, Memory, Replacement, changed
from hermes_daemon.core.compaction.extract import Extract, extracted, rendered
from hermes_daemon.core.compaction.identifiers import merged
from hermes_daemon.core.compaction.limits import Limits
from hermes_daemon.core.compaction.marker import RESTATED, fitted, marker
from hermes_daemon.core.compaction.micro import earlier
from hermes_daemon.core.compaction.prune import clipped_result
from hermes_daemon.core.compaction.rows import Row, written
from hermes_daemon.core.compaction.source import Redact, clip, mentioned, source_parts
from hermes_daemon.core.compaction.verdict import Fault, cleaned, fault
from hermes_daemon.core.window import text_tokens

LEAST_ROWS = 2
REGROWTH = 0.1  # share of the threshold a context must grow by after a pass that helped too little
RESTATED_MOST = 2_000
ROUND_SHARE = 0.2  # share of the window that the newest tool round may keep under pressure


class Plan(msgspec.Struct, frozen=True):
    """Rows [start, end) are to be folded: merge `parts` one after the other into `previous`. Without parts (only older
    summaries and user rows lie there) the previous summary stays as it is and no model is needed."""

    start: int
    end: int
    previous: str
    parts: tuple[str, ...]
    max_tokens: int


def due(context: Context, limits: Limits, overhead: int = 0) -> bool:
    """Whether an automatic pass should run before the next request. `overhead` is what the request holds beside the
    rows (system prompt, tools). After a pass that left too much, not before the context has grown."""
    total = context.tokens + overhead
    return total >= limits.threshold and total >= context.progress.batch_rearm


def plan(context: Context, limits: Limits, redact: Redact) -> Plan | None:
    """The next pass; None when nothing lies between head and tail that may be folded."""
    rows = context.rows
    start = head_end(rows, limits.head_rows)
    end = _end(rows, limits, start)
    if end - start < LEAST_ROWS or all(row.kind != "said" for row in rows[start:end]):
        return None
    before = context.memory or Memory()
    folded = rows[start:end]
    ahead = before.folded_tokens + sum(row.tokens for row in folded if row.kind == "said")
    most = limits.marker(ahead)
    parts = source_parts(folded, redact, max(limits.summary_input - most, 1_000))
    return Plan(start, end, before.summary, parts, most)


def fold(context: Context, limits: Limits, planned: Plan, text: str, finish: str, redact: Redact) -> Change | Fault:
    """The change that a model's summary makes, or what is wrong with it: then use `fold_extract`, or leave it."""
    text = cleaned(text)
    wrong = fault(text, finish, previous=planned.previous, new="\n\n".join(planned.parts), most=planned.max_tokens)
    if wrong:
        return wrong
    change = _folded(context, limits, planned, text, None, redact)
    return change if change.saved > 0 else "too_long"


def fold_extract(context: Context, limits: Limits, planned: Plan, redact: Redact) -> Change | None:
    """The change with a mechanical summary; None when even that would not make the context smaller."""
    extract = extracted(earlier(context.memory), context.rows[planned.start : planned.end], redact)
    change = _folded(context, limits, planned, rendered(extract, planned.max_tokens), extract, redact)
    return change if change.saved > 0 else None


def relieve(context: Context, limits: Limits, overhead: int = 0) -> Change | None:
    """For a context that is over its threshold though nothing is left to fold: results in the tail are cut down to head
    and tail, the newest round's only as far as it exceeds a fifth of the window. None when that gives nothing."""
    if context.tokens + overhead < limits.threshold:
        return None
    rows = context.rows
    start = head_end(rows, limits.head_rows)
    newest = newest_round(rows, start)
    replacements: list[Replacement] = []
    for at in range(start, len(rows)):
        most = limits.tail // 10 if at < newest else int(limits.window * ROUND_SHARE)
        row = clipped_result(rows[at], most)
        if row is not rows[at]:
            replacements.append(Replacement(at, at + 1, (row,)))
    if not replacements:
        return None
    return changed(context, replacements, context.memory, context.progress)


def settled(context: Context, limits: Limits, overhead: int = 0) -> None:
    """Call when the passes before a request are over: one that left the context above its threshold, or found nothing,
    is not repeated until the context has grown by a tenth of the threshold."""
    total = context.tokens + overhead
    rearm = total + int(limits.threshold * REGROWTH) if total >= limits.threshold else 0
    context.progress = msgspec.structs.replace(context.progress, batch_rearm=rearm)


def _end(rows: list[Row], limits: Limits, start: int) -> int:
    """Where the tail begins: at a user row when that costs at most half a tail more, else at the start of a round."""
    end = tail_start(rows, limits.tail, start)
    at, extra = end, 0
    while at > start and not rows[at if at < len(rows) else at - 1].is_user:
        at -= 1
        extra += rows[at].tokens
        if extra > limits.tail // 2:
            break
    if at > start and at < len(rows) and rows[at].is_user:
        end = at
        while end > start and rows[end - 1].is_user:
            end -= 1
    newest = newest_round(rows, start)
    if newest >= end or newest == len(rows):
        return min(end, open_round(rows, start))
    return end


def _folded(
    context: Context, limits: Limits, planned: Plan, text: str, extract: Extract | None, redact: Redact
) -> Change:
    rows, before, progress = context.rows, context.memory or Memory(), context.progress
    region = rows[planned.start : planned.end]
    folded = [row for row in region if row.kind == "said"]
    users, left_out = fitted(
        [*before.users, *(row.message.text for row in region if row.is_user and row.message.text.strip())],
        before.users_left_out,
        limits.users,
    )
    memory = Memory(
        summary=text,
        by="model" if extract is None else "extract",
        extract=extract,
        mentions=() if limits.seed else merged(before.mentions, mentioned(folded, redact), progress.passes_total + 1),
        users=users,
        users_left_out=left_out,
        folded_rows=before.folded_rows + len(folded),
        folded_tokens=before.folded_tokens + sum(row.tokens for row in folded),
    )
    fresh = [marker(memory, limits), *_bridge(rows, planned)]
    cursor = planned.start + len(fresh)
    after = msgspec.structs.replace(progress, cursor=cursor, failures=0, defrag_at=0)
    return changed(
        context, [Replacement(planned.start, planned.end, tuple(fresh))], memory, after, memory.folded_tokens
    )


def _bridge(rows: list[Row], planned: Plan) -> list[Row]:
    """The row between the marker and a tail that does not begin with a user's: the running request once more."""
    if planned.end < len(rows) and rows[planned.end].message.role == "user":
        return []
    request = next((rows[at] for at in range(planned.end - 1, -1, -1) if rows[at].message.role == "user"), None)
    if request is None:
        return [written("user", RESTATED, "restated")]
    if request.kind == "restated":
        return [request]
    text = request.message.text
    size = text_tokens(text)
    if size > RESTATED_MOST:
        share = len(text) * RESTATED_MOST // size
        text = clip(text, share, share * 2 // 3, share // 4)
    return [written("user", f"{RESTATED}\n\n{text}", "restated")]
