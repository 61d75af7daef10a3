"""Rows of sessions: what a list shows, the lease of sequence numbers, tombstones."""

from __future__ import annotations

import base64
import binascii
import sqlite3
from typing import Any

import msgspec

from hermes_daemon.core.ports import Page
from hermes_daemon.core.records import DeleteSession, PutSession, RaiseCeiling, SessionRow
from hermes_daemon.store import blobs
from hermes_daemon.store.failures import WriteRejected
from hermes_daemon.store.reader import Reader
from hermes_daemon.store.search import SearchIndex
from hermes_protocol.content import Usage
from hermes_protocol.methods import SessionOptions

_COLUMNS = (
    "session_id, epoch, cwd, created_at, updated_at, title, model, options, env, rev, usage, occupancy_pct, archived, "
    "parent, ceiling, deleted_at"
)
# Content of a session by table; blobs go by their own rules.
_CONTENT = ("messages", "items", "events", "turns", "queues", "requests", "spent")

_encode = msgspec.json.Encoder().encode
_options = msgspec.json.Decoder(SessionOptions).decode
_env = msgspec.json.Decoder(dict[str, str]).decode
_usage = msgspec.json.Decoder(Usage).decode


# --- writing ----------------------------------------------------------------------------------------------------------


def key(connection: sqlite3.Connection, session_id: str) -> int:
    """The number other tables know the session by. WriteRejected when it is unknown or deleted."""
    row = connection.execute("SELECT id, deleted_at FROM sessions WHERE session_id = ?", (session_id,)).fetchone()
    if row is None:
        raise WriteRejected(f"session {session_id} is unknown: it must be put before anything is written to it")
    if row[1] is not None:
        raise WriteRejected(f"session {session_id} was deleted at {row[1]}: nothing can be written to it")
    return int(row[0])


def put_session(connection: sqlite3.Connection, op: PutSession, index: SearchIndex) -> None:
    """Insert or replace; the ceiling only rises. A deleted id is refused: ids are never used again."""
    row = op.row
    if row.deleted_at is not None:
        raise WriteRejected(f"session {row.session_id} cannot be put as deleted: use DeleteSession")
    # Every column after session_id except deleted_at, in the order of both statements below.
    values = (
        row.epoch, row.cwd, row.created_at, row.updated_at, row.title, row.model, _encode(row.options),
        _encode(row.env), row.rev, _encode(row.usage), row.occupancy_pct, row.archived, row.parent, row.ceiling,
    )  # fmt: skip
    known = connection.execute("SELECT title FROM sessions WHERE session_id = ?", (row.session_id,)).fetchone()
    if known is None:
        connection.execute(
            f"INSERT INTO sessions ({_COLUMNS}) VALUES (?, ?,?,?,?,?,?,?, ?,?,?,?,?,?,?, NULL)",  # noqa: S608
            (row.session_id, *values),
        )
    number = key(connection, row.session_id)
    if known is not None:
        connection.execute(
            "UPDATE sessions SET epoch=?, cwd=?, created_at=?, updated_at=?, title=?, model=?, options=?, env=?, rev=?,"
            " usage=?, occupancy_pct=?, archived=?, parent=?, ceiling=max(ceiling, ?) WHERE id=?",
            (*values, number),
        )
    if row.title != (known[0] if known else ""):
        index.put(connection, number, "", "title", row.title, row.updated_at)


def delete_session(connection: sqlite3.Connection, op: DeleteSession, index: SearchIndex) -> None:
    """Remove the content, keep the id. Deleting twice changes nothing."""
    row = connection.execute("SELECT id, deleted_at FROM sessions WHERE session_id=?", (op.session_id,)).fetchone()
    if row is None:
        raise WriteRejected(f"session {op.session_id} is unknown and cannot be deleted")
    number, deleted_at = row
    if deleted_at is not None:
        return
    index.forget_session(connection, number)
    for table in _CONTENT:
        connection.execute(f"DELETE FROM {table} WHERE session=?", (number,))  # noqa: S608
    connection.execute(
        "UPDATE sessions SET cwd='', title='', model='', options='{}', env='{}', usage='{}', occupancy_pct=NULL,"
        " updated_at=?, deleted_at=? WHERE id=?",
        (op.at, op.at, number),
    )
    blobs.forget_session(connection, number)


def raise_ceiling(connection: sqlite3.Connection, op: RaiseCeiling) -> None:
    """Lease sequence numbers up to `ceiling`; a lower one changes nothing."""
    number = key(connection, op.session_id)
    connection.execute("UPDATE sessions SET ceiling=max(ceiling, ?) WHERE id=?", (op.ceiling, number))


# --- reading ----------------------------------------------------------------------------------------------------------


def number(read: Reader, session_id: str) -> int:
    """The session's number, or 0 (which no session has) when it is unknown."""
    return read.number("SELECT id FROM sessions WHERE session_id=?", session_id)


def get(read: Reader, session_id: str) -> SessionRow | None:
    row = read.one(f"SELECT {_COLUMNS} FROM sessions WHERE session_id=?", session_id)  # noqa: S608
    return _row(row) if row else None


def page(
    read: Reader,
    index: SearchIndex,
    *,
    limit: int,
    cursor: str | None = None,
    cwd: str | None = None,
    query: str | None = None,
    archived: bool | None = None,
) -> Page:
    """Live sessions, last changed first. `archived` None means all; `query` finds titles and what was said.

    The cursor names the last row given (time and id), so sessions that appear or move up meanwhile neither repeat
    nor hide the rows that follow. ValueError for a cursor that is none.
    """
    limit = max(limit, 0)
    where, params = ["deleted_at IS NULL"], list[Any]()
    if cursor is not None:
        where.append("(updated_at, session_id) < (?, ?)")
        params += _read_cursor(cursor)
    if cwd is not None:
        where.append("cwd = ?")
        params.append(cwd)
    if archived is not None:
        where.append("archived = ?")
        params.append(archived)
    if query and query.strip():
        condition, values = index.sessions_matching(query)
        where.append(condition)
        params += values
    rows = read.all(
        f"SELECT {_COLUMNS} FROM sessions WHERE {' AND '.join(where)}"  # noqa: S608
        " ORDER BY updated_at DESC, session_id DESC LIMIT ?",
        *params,
        limit + 1,
    )
    found = tuple(_row(row) for row in rows[:limit])
    return Page(found, _write_cursor(found[-1]) if len(rows) > limit and found else None)


def _row(row: tuple[Any, ...]) -> SessionRow:
    return SessionRow(
        session_id=row[0],
        epoch=row[1],
        cwd=row[2],
        created_at=row[3],
        updated_at=row[4],
        title=row[5],
        model=row[6],
        options=_options(row[7]),
        env=_env(row[8]),
        rev=row[9],
        usage=_usage(row[10]),
        occupancy_pct=row[11],
        archived=bool(row[12]),
        parent=row[13],
        ceiling=row[14],
        deleted_at=row[15],
    )


def _write_cursor(row: SessionRow) -> str:
    return base64.urlsafe_b64encode(f"{row.updated_at} {row.session_id}".encode()).decode().rstrip("=")


def _read_cursor(cursor: str) -> tuple[str, str]:
    try:
        plain = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode()
        updated_at, _, session_id = plain.partition(" ")
    except (binascii.Error, ValueError):
        updated_at = session_id = ""
    if not (updated_at and session_id):
        raise ValueError(f"cursor: expected the nextCursor of an earlier answer, got {cursor[:80]!r}")
    return updated_at, session_id
