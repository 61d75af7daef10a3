"""Taking a session back to an item, and beginning a new one from there."""

from __future__ import annotations

import sqlite3

import msgspec

from hermes_daemon.core.records import CopySession, PutSession, TruncateSession
from hermes_daemon.store import sessions
from hermes_daemon.store.failures import WriteRejected
from hermes_daemon.store.search import SearchIndex
from hermes_protocol.content import Message

_encode = msgspec.json.Encoder().encode


def copy_session(connection: sqlite3.Connection, op: CopySession, index: SearchIndex) -> None:
    """Make the new session. WriteRejected when its id was ever used, or the source or its item is unknown."""
    source = sessions.key(connection, op.source)
    last = _position(connection, source, op.source, op.last_item)
    if connection.execute("SELECT 1 FROM sessions WHERE session_id=?", (op.row.session_id,)).fetchone():
        raise WriteRejected(f"session {op.row.session_id} is there already: a copy needs a new id")
    sessions.put_session(connection, PutSession(row=op.row), index)
    target = sessions.key(connection, op.row.session_id)
    connection.execute(
        "INSERT INTO items (session, item_id, open, body) SELECT ?, item_id, 0, body FROM items"
        " WHERE session=? AND id<=? AND NOT open ORDER BY id",
        (target, source, last),
    )
    connection.execute(
        "INSERT INTO messages (session, turn_id, body) SELECT ?, turn_id, body FROM"
        " (SELECT id, turn_id, body FROM messages WHERE session=? ORDER BY id LIMIT ?) ORDER BY id",
        (target, source, op.messages),
    )
    connection.execute(
        "INSERT INTO blob_refs (session, item_id, blob_id) SELECT i.session, r.item_id, r.blob_id FROM items i"
        " JOIN blob_refs r ON r.session=? AND r.item_id = i.item_id WHERE i.session=?",
        (source, target),
    )
    index.copy(connection, source, target)
    _add_tail(connection, target, _first_behind(connection, source, op.messages), op.tail)


def truncate_session(connection: sqlite3.Connection, op: TruncateSession, index: SearchIndex) -> None:
    """Remove what stands behind. WriteRejected when the session or the item is unknown."""
    session = sessions.key(connection, op.session_id)
    last = _position(connection, session, op.session_id, op.last_item)
    index.forget_behind(connection, session, last)
    connection.execute(
        "DELETE FROM events WHERE session=?1 AND delta AND item_id IN (SELECT item_id FROM items WHERE session=?1"
        " AND id>?2)",
        (session, last),
    )
    connection.execute("DELETE FROM items WHERE session=? AND id>?", (session, last))
    behind = _first_behind(connection, session, op.messages)
    if behind is not None:
        connection.execute("DELETE FROM messages WHERE session=? AND id>=?", (session, behind[0]))
    _add_tail(connection, session, behind, op.tail)


def _position(connection: sqlite3.Connection, session: int, session_id: str, item_id: str | None) -> int:
    if item_id is None:
        return 0
    row = connection.execute("SELECT id FROM items WHERE session=? AND item_id=?", (session, item_id)).fetchone()
    if row is None:
        raise WriteRejected(f"session {session_id} has no item {item_id}")
    return int(row[0])


def _first_behind(connection: sqlite3.Connection, session: int, messages: int) -> tuple[int, str | None] | None:
    """(id, turn) of the first message behind so many."""
    found: tuple[int, str | None] | None = connection.execute(
        "SELECT id, turn_id FROM messages WHERE session=? ORDER BY id LIMIT 1 OFFSET ?", (session, messages)
    ).fetchone()
    return found


def _add_tail(
    connection: sqlite3.Connection, session: int, behind: tuple[int, str | None] | None, tail: tuple[Message, ...]
) -> None:
    """The tail stands for the first messages that were left out, and so belongs to their turn."""
    turn_id = behind[1] if behind is not None else None
    connection.executemany(
        "INSERT INTO messages (session, turn_id, body) VALUES (?,?,?)",
        [(session, turn_id, _encode(message)) for message in tail],
    )
