"""What the engine must remember to begin again: turns, queues, receipts, open requests, children and grants."""

from __future__ import annotations

import sqlite3

import msgspec

from hermes_daemon.core.records import (
    CloseRequest,
    DropProcess,
    ProcessRow,
    PutGrant,
    PutProcess,
    PutQueue,
    PutReceipt,
    PutRequest,
    PutTurn,
    QueueRow,
    ReceiptRow,
    RequestRow,
    TurnRow,
)
from hermes_daemon.store import blobs, sessions
from hermes_daemon.store.failures import WriteRejected
from hermes_daemon.store.reader import Reader
from hermes_protocol.content import Usage
from hermes_protocol.events import QueueEntry, RequestOpened

_encode = msgspec.json.Encoder().encode
_usage = msgspec.json.Decoder(Usage).decode
_entries = msgspec.json.Decoder(tuple[QueueEntry, ...]).decode
_request = msgspec.json.Decoder(RequestOpened).decode


# --- writing ----------------------------------------------------------------------------------------------------------


def put_turn(connection: sqlite3.Connection, op: PutTurn) -> None:
    row = op.row
    connection.execute(
        "INSERT INTO turns (turn_id, session, status, started_at, ended_at, model, rounds, usage)"
        " VALUES (?,?,?,?,?,?,?,?) ON CONFLICT (turn_id) DO UPDATE SET status=excluded.status,"
        " started_at=excluded.started_at, ended_at=excluded.ended_at, model=excluded.model, rounds=excluded.rounds,"
        " usage=excluded.usage",
        (
            row.turn_id,
            sessions.key(connection, row.session_id),
            row.status,
            row.started_at,
            row.ended_at,
            row.model,
            row.rounds,
            _encode(row.usage),
        ),
    )


def put_queue(connection: sqlite3.Connection, op: PutQueue) -> None:
    row = op.row
    session = sessions.key(connection, row.session_id)
    connection.execute(
        "INSERT OR REPLACE INTO queues (session, entries, rev, paused) VALUES (?,?,?,?)",
        (session, _encode(row.entries), row.rev, row.paused),
    )
    blobs.refer_from_queue(connection, session, (entry.input for entry in row.entries))


def put_receipt(connection: sqlite3.Connection, op: PutReceipt) -> None:
    """Insert. A second receipt for a key fails its write, and with it the second effect."""
    row = op.row
    try:
        connection.execute(
            "INSERT INTO receipts (scope, method, key, body, receipt, at) VALUES (?,?,?,?,?,?)",
            (row.scope, row.method, row.key, row.body, row.receipt, row.at),
        )
    except sqlite3.IntegrityError as error:
        raise WriteRejected(f"{row.method} of {row.scope} already has a receipt for key {row.key!r}") from error


def put_request(connection: sqlite3.Connection, op: PutRequest) -> None:
    request = op.row.request
    connection.execute(
        "INSERT INTO requests (request_id, session, body) VALUES (?,?,?)"
        " ON CONFLICT (request_id) DO UPDATE SET body=excluded.body",
        (request.request_id, sessions.key(connection, request.session_id), _encode(request)),
    )


def close_request(connection: sqlite3.Connection, op: CloseRequest) -> None:
    connection.execute("DELETE FROM requests WHERE request_id=?", (op.request_id,))


def put_process(connection: sqlite3.Connection, op: PutProcess) -> None:
    row = op.row
    connection.execute(
        "INSERT OR REPLACE INTO processes (pid, started, marker, session_id, command) VALUES (?,?,?,?,?)",
        (row.pid, row.started, row.marker, row.session_id, row.command),
    )


def drop_process(connection: sqlite3.Connection, op: DropProcess) -> None:
    connection.execute("DELETE FROM processes WHERE pid=?", (op.pid,))


def put_grant(connection: sqlite3.Connection, op: PutGrant) -> None:
    connection.execute('INSERT OR IGNORE INTO grants ("grant") VALUES (?)', (op.grant,))


# --- reading ----------------------------------------------------------------------------------------------------------


def open_turns(read: Reader) -> tuple[TurnRow, ...]:
    """Turns with status running, oldest first."""
    rows = read.all(
        "SELECT turn_id, session_id, status, started_at, ended_at, t.model, rounds, t.usage"
        " FROM turns t JOIN sessions s ON s.id = t.session WHERE status = 'running' ORDER BY started_at, t.rowid"
    )
    return tuple(
        TurnRow(
            turn_id=row[0],
            session_id=row[1],
            status=row[2],
            started_at=row[3],
            ended_at=row[4],
            model=row[5],
            rounds=row[6],
            usage=_usage(row[7]),
        )
        for row in rows
    )


def queue(read: Reader, session_id: str) -> QueueRow | None:
    row = read.one("SELECT entries, rev, paused FROM queues WHERE session=?", sessions.number(read, session_id))
    if row is None:
        return None
    return QueueRow(session_id=session_id, entries=_entries(row[0]), rev=row[1], paused=bool(row[2]))


def queued_sessions(read: Reader) -> tuple[str, ...]:
    """Ids of the sessions whose queue holds something."""
    rows = read.all(
        "SELECT s.session_id FROM queues q JOIN sessions s ON s.id = q.session WHERE q.entries <> ? ORDER BY s.id",
        _encode(()),
    )
    return tuple(session_id for (session_id,) in rows)


def receipt(read: Reader, scope: str, method: str, key: str) -> ReceiptRow | None:
    row = read.one("SELECT body, receipt, at FROM receipts WHERE scope=? AND method=? AND key=?", scope, method, key)
    if row is None:
        return None
    return ReceiptRow(scope=scope, method=method, key=key, body=row[0], receipt=row[1], at=row[2])


def open_requests(read: Reader) -> tuple[RequestRow, ...]:
    """Questions not yet resolved, oldest first."""
    rows = read.all("SELECT body FROM requests ORDER BY rowid")
    return tuple(RequestRow(request=_request(body)) for (body,) in rows)


def processes(read: Reader) -> tuple[ProcessRow, ...]:
    rows = read.all("SELECT pid, started, marker, session_id, command FROM processes ORDER BY pid")
    return tuple(
        ProcessRow(pid=row[0], started=row[1], marker=row[2], session_id=row[3], command=row[4]) for row in rows
    )


def grants(read: Reader) -> tuple[str, ...]:
    """Permanent approvals, in the order they were given."""
    return tuple(grant for (grant,) in read.all('SELECT "grant" FROM grants ORDER BY rowid'))
