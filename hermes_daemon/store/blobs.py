"""Big outputs: bytes that grow by appending and are read in pages."""

from __future__ import annotations

import sqlite3

from hermes_daemon.core.records import PutBlob
from hermes_daemon.store import sessions
from hermes_daemon.store.failures import WriteRejected
from hermes_daemon.store.reader import Reader

CHUNK_BYTES = 65_536
"""The largest row: a page of a big blob is read without touching the rest."""


def put_blob(connection: sqlite3.Connection, op: PutBlob) -> None:
    """Append; the blob is made by its first bytes. A blob belongs to one session."""
    session = sessions.key(connection, op.session_id)
    known = connection.execute("SELECT id, session, size FROM blobs WHERE blob_id=?", (op.blob_id,)).fetchone()
    if known is None:
        insert = "INSERT INTO blobs (blob_id, session, mime, size) VALUES (?,?,?,0)"
        blob, size = connection.execute(insert, (op.blob_id, session, op.mime)).lastrowid, 0
    elif known[1] == session:
        blob, size = known[0], known[2]
    else:
        raise WriteRejected(f"blob {op.blob_id} belongs to another session than {op.session_id}")
    chunks = [
        (blob, size + start, op.data[start : start + CHUNK_BYTES]) for start in range(0, len(op.data), CHUNK_BYTES)
    ]
    connection.executemany("INSERT INTO blob_chunks (blob, offset, data) VALUES (?,?,?)", chunks)
    connection.execute("UPDATE blobs SET size=? WHERE id=?", (size + len(op.data), blob))


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
