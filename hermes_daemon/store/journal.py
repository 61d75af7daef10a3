"""The event journal: numbered rows for replay, folding of deltas, and pruning of what nobody replays any more."""

from __future__ import annotations

import sqlite3

import msgspec

from hermes_daemon.core.records import AddEvents, EventRow
from hermes_daemon.store import sessions
from hermes_daemon.store.failures import WriteRejected
from hermes_daemon.store.reader import Reader
from hermes_protocol.events import ItemDelta

_delta = msgspec.json.Decoder(ItemDelta).decode


# --- writing ----------------------------------------------------------------------------------------------------------


def add_events(connection: sqlite3.Connection, op: AddEvents) -> None:
    """Append rows. A number that is already there is an error: numbers are never given twice."""
    numbers = {session_id: sessions.key(connection, session_id) for session_id in {row.session_id for row in op.rows}}
    rows = [
        (numbers[row.session_id], row.seq, row.first, row.ts, row.kind, row.turn_id, row.item_id, row.delta, row.data)
        for row in op.rows
    ]
    insert = (
        "INSERT INTO events (session, seq, first, ts, kind, turn_id, item_id, delta, data) VALUES (?,?,?,?,?,?,?,?,?)"
    )
    try:
        connection.executemany(insert, rows)
    except sqlite3.IntegrityError as error:
        given = ", ".join(f"{row.seq} of session {row.session_id}" for row in op.rows[:10])
        raise WriteRejected(f"one of these event numbers was given before: {given} ({error})") from error


def fold(connection: sqlite3.Connection, session: int, item_id: str) -> None:
    """Remove an item's deltas; replay skips their numbers."""
    connection.execute("DELETE FROM events WHERE session=? AND item_id=? AND delta", (session, item_id))


def prune(connection: sqlite3.Connection, session: int, *, keep: int, before: str, batch: int) -> int:
    """Remove up to `batch` of the oldest rows and return how many went.

    A row stays while it is one of the newest `keep`, or not older than `before` (a time), or needed to tell the text
    of an item that is still open. Only a run from the oldest row on is removed, so what stays has no holes.
    """
    limits = [
        connection.execute(query, params).fetchone()
        for query, params in (
            ("SELECT seq FROM events WHERE session=? ORDER BY seq DESC LIMIT 1 OFFSET ?", (session, keep - 1)),
            ("SELECT seq FROM events WHERE session=? AND ts >= ? ORDER BY seq LIMIT 1", (session, before)),
            (
                "SELECT min(seq) FROM events WHERE session=? AND delta AND item_id IN"
                " (SELECT item_id FROM items WHERE session=? AND open)",
                (session, session),
            ),
        )
    ]
    newest = limits[0]
    if newest is None:  # there are fewer than `keep`
        return 0
    bound = min(row[0] for row in limits if row is not None and row[0] is not None)
    return connection.execute(
        "DELETE FROM events WHERE session=?1 AND seq IN"
        " (SELECT seq FROM events WHERE session=?1 AND seq < ?2 ORDER BY seq LIMIT ?3)",
        (session, bound, batch),
    ).rowcount


# --- reading ----------------------------------------------------------------------------------------------------------


def events(read: Reader, session_id: str, after: int, limit: int) -> tuple[EventRow, ...]:
    """Up to `limit` rows with seq > after, oldest first. A merged run that ends after `after` is given whole."""
    rows = read.all(
        "SELECT seq, ts, kind, data, turn_id, item_id, delta, first FROM events WHERE session=? AND seq > ?"
        " ORDER BY seq LIMIT ?",
        sessions.number(read, session_id),
        after,
        max(limit, 0),
    )
    return tuple(
        EventRow(
            session_id=session_id,
            seq=row[0],
            ts=row[1],
            kind=row[2],
            data=row[3],
            turn_id=row[4],
            item_id=row[5],
            delta=bool(row[6]),
            first=row[7],
        )
        for row in rows
    )


def size_after(read: Reader, session_id: str, after: int) -> int:
    """Bytes of the data of all rows with seq > after."""
    session = sessions.number(read, session_id)
    return read.number("SELECT sum(length(data)) FROM events WHERE session=? AND seq > ?", session, after)


def event_range(read: Reader, session_id: str) -> tuple[int, int]:
    """(oldest number retained, newest number); a merged run counts from its first event. (0, 0) when empty."""
    session = sessions.number(read, session_id)
    oldest = read.one("SELECT seq, first FROM events WHERE session=? ORDER BY seq LIMIT 1", session)
    if oldest is None:
        return 0, 0
    return oldest[1] or oldest[0], read.number("SELECT max(seq) FROM events WHERE session=?", session)


def delta_text(read: Reader, session: int, item_id: str) -> str:
    """What the journaled deltas of an open item add up to. A delta that overlaps corrects what was there."""
    rows = read.all("SELECT data FROM events WHERE session=? AND item_id=? AND kind='item.delta' AND delta"
                    " ORDER BY seq", session, item_id)  # fmt: skip
    parts, length = list[str](), 0
    for (data,) in rows:
        delta = _delta(data)
        if delta.offset < length:
            parts = ["".join(parts)[: delta.offset]]
            length = delta.offset
        parts.append(delta.text)
        length += len(delta.text)
    return "".join(parts)
