"""The rows a model sees, with running sums, and the changes that compaction makes to them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from hermes_daemon.core.compaction.extract import Extract
from hermes_daemon.core.compaction.identifiers import Mention
from hermes_daemon.core.compaction.rows import Row, said
from hermes_protocol.content import Message


class Memory(msgspec.Struct, frozen=True):
    """What the live marker stands for, as data: it is stored with the marker's row and read back at a resume.

    `users` are texts of user rows a batch pass folded, oldest first; `users_left_out` counts older ones that no longer
    fit. `mentions` are the exact identifiers of everything folded. `by` says who wrote `summary`; `extract`
    is what a mechanical one was made from.
    """

    summary: str = ""
    by: Literal["model", "extract"] = "model"
    extract: Extract | None = None
    mentions: tuple[Mention, ...] = ()
    users: tuple[str, ...] = ()
    users_left_out: int = 0
    folded_rows: int = 0
    folded_tokens: int = 0


class Progress(msgspec.Struct, frozen=True):
    """What the planners remember between passes; stored with the session.

    `cursor` is the index of the first row not yet absorbed. `failures` counts summaries in a row that failed at this
    cursor. `turns` counts finished turns for the cadence. `batch_rearm` and `prune_rearm` are sizes in tokens below
    which no further automatic pass of the kind starts, `defrag_at` the size of the summary at which it is rewritten
    next (0: the limit of the settings).
    """

    cursor: int = 0
    failures: int = 0
    turns: int = 0
    batch_rearm: int = 0
    prune_rearm: int = 0
    defrag_at: int = 0
    passes_total: int = 0
    tokens_saved_total: int = 0


class Replacement(msgspec.Struct, frozen=True):
    """Rows [start, end) of the context before the change give way to `rows` (none: they go)."""

    start: int
    end: int
    rows: tuple[Row, ...]


class Change(msgspec.Struct, frozen=True):
    """One pass, ready to commit: replacements in order and apart, the memory and the progress after it. `cursor` in
    `progress` counts in the rows after the change. `folded_tokens` is the size of the exchanges it absorbed."""

    replacements: tuple[Replacement, ...]
    memory: Memory | None
    progress: Progress
    tokens_before: int
    tokens_after: int
    rows_before: int
    rows_after: int
    folded_tokens: int = 0

    @property
    def saved(self) -> int:
        """Tokens the context loses."""
        return self.tokens_before - self.tokens_after


class Context:
    """The conversation as the model sees it. Sums are kept as rows come and go, so that a pass costs what it absorbs
    and not what the session is long."""

    def __init__(
        self, rows: Iterable[Row] = (), memory: Memory | None = None, progress: Progress | None = None
    ) -> None:
        self.rows: list[Row] = list(rows)
        self.tokens = sum(row.tokens for row in self.rows)
        self.memory = memory
        self.progress = progress or Progress()
        self.marker_at = next((i for i in range(len(self.rows) - 1, -1, -1) if self.rows[i].kind == "summary"), None)

    def append(self, message: Message, row_id: int | None = None) -> None:
        """A new row at the end."""
        row = said(message, row_id)
        self.rows.append(row)
        self.tokens += row.tokens

    def apply(self, change: Change) -> None:
        """Make a change that is committed. ValueError when the context is not the one it was planned for."""
        if (len(self.rows), self.tokens) != (change.rows_before, change.tokens_before):
            raise ValueError("the context has changed since this compaction was planned")
        for item in reversed(change.replacements):
            self.rows[item.start : item.end] = item.rows
            shift = len(item.rows) - (item.end - item.start)
            for offset, row in enumerate(item.rows):
                if row.kind == "summary":
                    self.marker_at = item.start + offset
                    break
            else:
                if self.marker_at is not None and self.marker_at >= item.end:
                    self.marker_at += shift
        self.tokens = change.tokens_after
        self.memory = change.memory
        self.progress = change.progress

    def messages(self) -> tuple[Message, ...]:
        """The rows as messages."""
        return tuple(row.message for row in self.rows)


def changed(context: Context, replacements: Sequence[Replacement], memory: Memory | None, progress: Progress,
            folded_tokens: int = 0) -> Change:  # fmt: skip
    """The change that these replacements make, with its sums. `replacements` are in order and do not overlap."""
    delta = 0
    shift = 0
    for item in replacements:
        delta += sum(row.tokens for row in item.rows) - sum(row.tokens for row in context.rows[item.start : item.end])
        shift += len(item.rows) - (item.end - item.start)
    return Change(
        tuple(replacements),
        memory,
        msgspec.structs.replace(
            progress,
            passes_total=progress.passes_total + 1,
            tokens_saved_total=progress.tokens_saved_total - delta,
        ),
        tokens_before=context.tokens,
        tokens_after=context.tokens + delta,
        rows_before=len(context.rows),
        rows_after=len(context.rows) + shift,
        folded_tokens=folded_tokens,
    )
