"""What model calls used: a row for each, and their sums by model and task."""

from __future__ import annotations

import sqlite3
from typing import Literal

from hermes_daemon.core.records import AddUsage
from hermes_daemon.store import sessions
from hermes_daemon.store.reader import Reader
from hermes_protocol.content import Usage
from hermes_protocol.methods import SpentRow

_SUMS = (
    "sum(calls), sum(input), sum(output), sum(cache_read), sum(cache_write), sum(reasoning), sum(cost),"
    " count(cost) < count(*)"
)


def add_usage(connection: sqlite3.Connection, op: AddUsage) -> None:
    """Keep what a call used."""
    usage = op.usage or Usage()
    connection.execute(
        "INSERT INTO spent (session, turn_id, round, task, model, at, calls, input, output, cache_read, cache_write,"
        " reasoning, cost) VALUES (?,?,?,?,?,?,1,?,?,?,?,?,?)",
        (
            sessions.key(connection, op.session_id), op.turn_id, op.round, op.task, op.model, op.at,
            usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens,
            usage.reasoning_tokens, usage.cost,
        ),
    )  # fmt: skip


def spent(read: Reader, session_id: str | None, by: Literal["model", "task"]) -> tuple[SpentRow, ...]:
    """The sums of a session, or of all, for each model or task; the most tokens first."""
    where, values = _of(read, session_id)
    rows = read.all(
        f"SELECT {by}, {_SUMS} FROM spent {where}"  # noqa: S608
        " GROUP BY 1 ORDER BY sum(input) + sum(output) DESC, 1",
        *values,
    )
    return tuple(SpentRow(row[0], row[1], _usage(row[2:])) for row in rows)


def usage(read: Reader, session_id: str | None) -> tuple[Usage, int]:
    """The sum of a session, or of all, and how many turns there were."""
    where, values = _of(read, session_id)
    row = read.one(f"SELECT {_SUMS} FROM spent {where}", *values)  # noqa: S608
    turns = read.number(f"SELECT count(*) FROM turns {where}", *values)  # noqa: S608
    return (_usage(row[1:]) if row is not None and row[0] else Usage()), turns


def _of(read: Reader, session_id: str | None) -> tuple[str, tuple[int, ...]]:
    return ("", ()) if session_id is None else ("WHERE session=?", (sessions.number(read, session_id),))


def _usage(sums: tuple[object, ...]) -> Usage:
    """SQLite's sum leaves NULL out and is NULL of nothing else: an unknown cost stays unknown."""
    put, got, read, written, thought, cost, partial = sums
    return Usage(put, got, read, written, thought, cost, bool(partial) and cost is not None)  # type: ignore[arg-type]
