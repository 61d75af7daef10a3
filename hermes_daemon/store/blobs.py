"""Big outputs and inputs: bytes that grow by appending and are read in pages.

A blob is kept while an item, or the queue, of any session speaks of it (`blob_refs`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from hermes_daemon.core.records import BlobRow, PutBlob
from hermes_daemon.store import sessions
from hermes_daemon.store.failures import WriteRejected
from hermes_daemon.store.reader import Reader
from hermes_protocol.content import FileBlock, ImageBlock, InputBlock
from hermes_protocol.events import AnyItem, ToolCallItem, UserMessage

CHUNK_BYTES = 65_536
"""The largest row: a page of a big blob is read without touching the rest."""


def put_blob(connection: sqlite3.Connection, op: PutBlob) -> None:
    """Append; the blob is made by its first bytes. A blob belongs to one session."""
    session = sessions.key(connection, op.session_id)
    known = connection.execute("SELECT id, session, size FROM blobs WHERE blob_id=?", (op.blob_id,)).fetchone()
    if known is None:
        insert = "INSERT INTO blobs (blob_id, session, mime, size, created_at) VALUES (?,?,?,0,?)"
        blob, size = connection.execute(insert, (op.blob_id, session, op.mime, op.at)).lastrowid, 0
    elif known[1] == session:
        blob, size = known[0], known[2]
    else:
        raise WriteRejected(f"blob {op.blob_id} belongs to another session than {op.session_id}")
    chunks = [
        (blob, size + start, op.data[start : start + CHUNK_BYTES]) for start in range(0, len(op.data), CHUNK_BYTES)
    ]
    connection.executemany("INSERT INTO blob_chunks (blob, offset, data) VALUES (?,?,?)", chunks)
    connection.execute("UPDATE blobs SET size=?, growing=? WHERE id=?", (size + len(op.data), op.growing, blob))


def refer(connection: sqlite3.Connection, session: int, item: AnyItem) -> None:
    """Note the blobs that an item speaks of."""
    if isinstance(item, UserMessage):
        named = named_in(item.input)
    elif isinstance(item, ToolCallItem) and item.output is not None and item.output.blob is not None:
        named = [item.output.blob.id]
    else:
        return
    _refer(connection, session, item.item_id, named)


def refer_from_queue(connection: sqlite3.Connection, session: int, inputs: Iterable[tuple[InputBlock, ...]]) -> None:
    """Note the blobs that the queued inputs speak of, in place of those noted before."""
    connection.execute("DELETE FROM blob_refs WHERE session=? AND item_id=''", (session,))
    _refer(connection, session, "", [blob_id for blocks in inputs for blob_id in named_in(blocks)])


def named_in(blocks: Iterable[InputBlock]) -> list[str]:
    """The blob ids in an input."""
    return [block.blob_id for block in blocks if isinstance(block, ImageBlock | FileBlock) and block.blob_id]


def _refer(connection: sqlite3.Connection, session: int, item_id: str, named: list[str]) -> None:
    insert = "INSERT OR IGNORE INTO blob_refs (session, item_id, blob_id) VALUES (?,?,?)"
    connection.executemany(insert, [(session, item_id, blob_id) for blob_id in named])


def forget_session(connection: sqlite3.Connection, session: int) -> None:
    """Remove what a session that was just marked as deleted held, but for blobs that another one speaks of."""
    connection.execute("DELETE FROM blob_refs WHERE session=?", (session,))
    _remove(
        connection,
        "session IN (SELECT id FROM sessions WHERE deleted_at IS NOT NULL)"
        " AND NOT EXISTS (SELECT 1 FROM blob_refs r WHERE r.blob_id = blobs.blob_id)",
        (),
    )


def sweep(connection: sqlite3.Connection, before: str, batch: int) -> int:
    """Remove up to `batch` blobs made before that time that nobody speaks of, and return how many went.

    An item that was taken back speaks of its blobs as long as the journal tells of the item.
    """
    connection.execute(
        "DELETE FROM blob_refs WHERE item_id <> '' AND NOT EXISTS (SELECT 1 FROM items i"
        " WHERE i.session = blob_refs.session AND i.item_id = blob_refs.item_id) AND NOT EXISTS"
        " (SELECT 1 FROM events e WHERE e.session = blob_refs.session AND e.item_id = blob_refs.item_id)"
    )
    return _remove(
        connection,
        "id IN (SELECT id FROM blobs WHERE created_at < ? AND NOT EXISTS"
        " (SELECT 1 FROM blob_refs r WHERE r.blob_id = blobs.blob_id) LIMIT ?)",
        (before, batch),
    )


def _remove(connection: sqlite3.Connection, where: str, params: tuple[object, ...]) -> int:
    doomed = connection.execute(f"SELECT id FROM blobs WHERE {where}", params).fetchall()  # noqa: S608
    connection.executemany("DELETE FROM blob_chunks WHERE blob=?", doomed)
    connection.executemany("DELETE FROM blobs WHERE id=?", doomed)
    return len(doomed)


def get(read: Reader, blob_id: str) -> BlobRow | None:
    """What is known of a blob."""
    row = read.one(
        "SELECT s.session_id, b.mime, b.size, b.growing FROM blobs b JOIN sessions s ON s.id = b.session"
        " WHERE b.blob_id=?",
        blob_id,
    )
    if row is None:
        return None
    return BlobRow(blob_id=blob_id, session_id=row[0], mime=row[1], bytes=row[2], growing=bool(row[3]))


def used(read: Reader, session_id: str) -> int:
    """Bytes of the blobs that a session made."""
    return read.number("SELECT sum(size) FROM blobs WHERE session=?", sessions.number(read, session_id))


def is_held(read: Reader, session_id: str, blob_id: str) -> bool:
    """Whether the session made the blob, or has an item that speaks of it."""
    session = sessions.number(read, session_id)
    return bool(
        read.one(
            "SELECT 1 FROM blobs WHERE blob_id=?1 AND (session=?2 OR EXISTS"
            " (SELECT 1 FROM blob_refs WHERE session=?2 AND blob_id=?1))",
            blob_id,
            session,
        )
    )


def read_blob(read: Reader, blob_id: str, offset: int, limit: int) -> tuple[bytes, int] | None:
    """(up to `limit` bytes from `offset`, total size), or None for an unknown blob."""
    row = read.one("SELECT id, size FROM blobs WHERE blob_id=?", blob_id)
    if row is None:
        return None
    blob, size = row
    offset, end = max(offset, 0), min(max(offset, 0) + max(limit, 0), size)
    if offset >= end:
        return b"", size
    chunks = read.all(
        "SELECT offset, data FROM blob_chunks WHERE blob=?1 AND offset < ?3 AND offset >="
        " (SELECT max(offset) FROM blob_chunks WHERE blob=?1 AND offset <= ?2) ORDER BY offset",
        blob,
        offset,
        end,
    )
    start = chunks[0][0]
    return b"".join(data for _, data in chunks)[offset - start : end - start], size
