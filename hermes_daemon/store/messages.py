"""The live history a model reads, and the items that clients show."""

from __future__ import annotations

import sqlite3
from typing import Any, Literal

import msgspec

from hermes_daemon.core.ports import Page
from hermes_daemon.core.records import AddMessage, DropItem, ItemRow, PutItem
from hermes_daemon.store import blobs, journal, sessions
from hermes_daemon.store.reader import Reader
from hermes_daemon.store.search import SearchIndex
from hermes_protocol.content import Message, input_text
from hermes_protocol.events import AgentMessage, AnyItem, UserMessage

_encode = msgspec.json.Encoder().encode
_message = msgspec.json.Decoder(Message).decode
_item = msgspec.json.Decoder(AnyItem).decode


# --- writing ----------------------------------------------------------------------------------------------------------


def add_message(connection: sqlite3.Connection, op: AddMessage) -> None:
    connection.execute(
        "INSERT INTO messages (session, turn_id, body) VALUES (?,?,?)",
        (sessions.key(connection, op.session_id), op.turn_id, _encode(op.message)),
    )


def put_item(connection: sqlite3.Connection, op: PutItem, index: SearchIndex) -> None:
    """Insert at the end or replace in place. A completed item holds its text itself, so its deltas go."""
    session, item = sessions.key(connection, op.session_id), op.item
    is_open = item.status == "inProgress"
    connection.execute(
        "INSERT INTO items (session, item_id, open, body) VALUES (?,?,?,?)"
        " ON CONFLICT (session, item_id) DO UPDATE SET open=excluded.open, body=excluded.body",
        (session, item.item_id, is_open, _encode(item)),
    )
    blobs.refer(connection, session, item)
    if is_open:
        return
    journal.fold(connection, session, item.item_id)
    at = item.completed_at or item.created_at
    if isinstance(item, UserMessage):
        index.put(connection, session, item.item_id, "user", item.text or input_text(item.input), at)
    elif isinstance(item, AgentMessage):
        index.put(connection, session, item.item_id, "assistant", item.text, at)


def drop_item(connection: sqlite3.Connection, op: DropItem, index: SearchIndex) -> None:
    """Remove a discarded item and its deltas; an unknown one changes nothing."""
    session = sessions.key(connection, op.session_id)
    connection.execute("DELETE FROM items WHERE session=? AND item_id=?", (session, op.item_id))
    journal.fold(connection, session, op.item_id)
    index.forget(connection, session, op.item_id)


# --- reading ----------------------------------------------------------------------------------------------------------


def history(read: Reader, session_id: str) -> tuple[Message, ...]:
    session = sessions.number(read, session_id)
    return tuple(
        _message(body) for (body,) in read.all("SELECT body FROM messages WHERE session=? ORDER BY id", session)
    )


def get_item(read: Reader, session_id: str, item_id: str) -> ItemRow | None:
    session = sessions.number(read, session_id)
    row = read.one("SELECT open, body FROM items WHERE session=? AND item_id=?", session, item_id)
    if row is None:
        return None
    text = journal.delta_text(read, session, item_id) if row[0] else ""
    return ItemRow(session_id=session_id, item=_item(row[1]), text=text)


def open_items(read: Reader, session_id: str) -> tuple[ItemRow, ...]:
    session = sessions.number(read, session_id)
    rows = read.all("SELECT item_id, body FROM items WHERE session=? AND open ORDER BY id", session)
    return tuple(
        ItemRow(session_id=session_id, item=_item(body), text=journal.delta_text(read, session, item_id))
        for item_id, body in rows
    )


def item_page(
    read: Reader,
    session_id: str,
    *,
    limit: int,
    before: str | None = None,
    after: str | None = None,
    order: Literal["asc", "desc"] = "asc",
) -> Page:
    """Up to `limit` items that are no longer in progress, in `order` of position.

    They are the nearest to the one anchor given; without an anchor or between two, they start at the oldest for
    "asc" and at the newest for "desc". `next_cursor` is the id of the outermost item given: pass it as `before` when
    the page went backwards, else as `after`. KeyError with the id when an anchor is unknown.
    """
    limit, session = max(limit, 0), sessions.number(read, session_id)
    where, params = ["session=?", "NOT open"], list[Any]([session])
    for anchor, comparison in ((before, "id < ?"), (after, "id > ?")):
        if anchor is not None:
            where.append(comparison)
            params.append(_position(read, session, anchor))
    backwards = order == "desc" if (before is None) == (after is None) else before is not None
    direction = "DESC" if backwards else "ASC"
    rows = read.all(
        f"SELECT item_id, body FROM items WHERE {' AND '.join(where)} ORDER BY id {direction} LIMIT ?",  # noqa: S608
        *params,
        limit + 1,
    )
    more, rows = len(rows) > limit, rows[:limit]
    found = [ItemRow(session_id=session_id, item=_item(body)) for _, body in rows]
    if backwards != (order == "desc"):
        found.reverse()
    return Page(tuple(found), rows[-1][0] if more and rows else None)


def items_behind(read: Reader, session_id: str, item_id: str | None) -> int:
    """How many items stand behind this one; all of them for None. KeyError when it is unknown."""
    session = sessions.number(read, session_id)
    position = 0 if item_id is None else _position(read, session, item_id)
    return read.number("SELECT count(*) FROM items WHERE session=? AND id>?", session, position)


def _position(read: Reader, session: int, item_id: str) -> int:
    row = read.one("SELECT id FROM items WHERE session=? AND item_id=?", session, item_id)
    if row is None:
        raise KeyError(item_id)
    return int(row[0])
