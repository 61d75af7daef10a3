"""Where a context may be cut: the head, the tail, the exchanges between user rows. A call is never parted from its
results, and one that has no result yet is never folded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hermes_daemon.core.compaction.rows import Row


def head_end(rows: Sequence[Row], head_rows: int = 0) -> int:
    """The end of the head: the system prompt and the first user rows, and `head_rows` rows at least. It ends behind a
    user row, so that what follows may be the assistant's; 0 when there is no user row at all."""
    end = 0
    while end < len(rows) and not (end >= head_rows and end > 0 and rows[end - 1].is_user and not rows[end].is_user):
        if rows[end].kind in ("summary", "stub"):
            break  # a resumed context: what stood behind it is folded already
        end += 1
    while end > 0 and not rows[end - 1].is_user:
        end -= 1
    return end


def tail_start(rows: Sequence[Row], budget: int, head: int) -> int:
    """The smallest suffix that holds `budget` tokens and begins with no tool row; `head` when all behind it fits."""
    held = 0
    at = len(rows)
    while at > head and held < budget:
        at -= 1
        held += rows[at].tokens
    while at > head and rows[at].message.role == "tool":
        at -= 1
    return min(max(at, head), open_round(rows, head))


def open_round(rows: Sequence[Row], head: int) -> int:
    """The index of the newest assistant row when one of its calls has no result yet; else the number of rows."""
    answered: set[str] = set()
    for at in range(len(rows) - 1, head - 1, -1):
        message = rows[at].message
        if message.role == "tool":
            answered.update(result.call_id for result in message.results)
        elif message.role == "assistant":
            return at if any(call.call_id not in answered for call in message.calls) else len(rows)
    return len(rows)


def newest_round(rows: Sequence[Row], head: int) -> int:
    """The index of the newest assistant row with calls; the number of rows when none stands behind the head."""
    for at in range(len(rows) - 1, head - 1, -1):
        if rows[at].message.calls:
            return at
    return len(rows)


def exchanges(rows: Sequence[Row], start: int, end: int) -> Iterator[tuple[int, int]]:
    """The whole exchanges in [start, end): runs of assistant and tool rows that a user row closes before `end` or at
    it. Markers and stubs belong to none."""
    at = start
    while at < end:
        while at < end and (rows[at].message.role in ("user", "system") or rows[at].kind != "said"):
            at += 1
        first = at
        while at < end and rows[at].message.role in ("assistant", "tool") and rows[at].kind == "said":
            at += 1
        if first < at < len(rows) and rows[at].message.role == "user":
            yield first, at
