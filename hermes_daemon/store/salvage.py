"""Reading what can still be read of a damaged database into a new one."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

import msgspec

from hermes_daemon.store.address import address

# Sessions first: rows of a session that is lost have no place to go.
_TABLES = (
    "sessions", "messages", "items", "events", "turns", "queues", "receipts", "requests", "grants", "blobs",
    "blob_chunks", "blob_refs", "search_text", "spent",
)  # fmt: skip
_JSON = frozenset({"options", "env", "usage", "body", "entries", "data"})
_OF_SESSION = (
    "messages",
    "items",
    "events",
    "turns",
    "queues",
    "requests",
    "blobs",
    "blob_refs",
    "search_text",
    "spent",
)


def carry_over(damaged: str, into: sqlite3.Connection) -> int:
    """Copy the readable rows of the file `damaged`, which is only read, and return how many there were.

    Sessions get a new epoch, because events may be missing: cursors of clients are then answered by a snapshot.
    """
    try:
        source = sqlite3.connect(address(damaged, "ro"), uri=True, isolation_level=None)
    except sqlite3.Error:
        return 0
    source.execute("PRAGMA writable_schema = ON")  # makes SQLite skip entries of the schema that it cannot read
    into.execute("BEGIN IMMEDIATE")
    try:
        rows = sum(_copy(source, into, table) for table in _TABLES)
        for table in _OF_SESSION:
            into.execute(f"DELETE FROM {table} WHERE session NOT IN (SELECT id FROM sessions)")  # noqa: S608
        into.execute(
            "UPDATE sessions SET epoch = lower(hex(randomblob(8))), ceiling = max(ceiling,"
            " coalesce((SELECT max(seq) FROM events WHERE session = sessions.id), 0))"
        )
        into.execute("COMMIT")
    except BaseException:
        if into.in_transaction:
            into.execute("ROLLBACK")
        raise
    finally:
        source.close()
    return rows


def _copy(source: sqlite3.Connection, into: sqlite3.Connection, table: str) -> int:
    columns = [row[1] for row in into.execute(f"PRAGMA table_info({table})")]
    try:
        known = {row[1] for row in source.execute(f"PRAGMA table_info({table})")}
    except sqlite3.Error:
        known = set()
    columns = [column for column in columns if not known or column in known]  # an older one has fewer
    names = ", ".join(f'"{column}"' for column in columns)
    json_places = [place for place, name in enumerate(columns) if name in _JSON and table != "receipts"]
    if table == "blob_chunks":
        json_places = []
    insert = f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({', '.join('?' * len(columns))})"  # noqa: S608
    count = 0
    for row in _rows(source, table, names):
        if all(_is_json(row[place]) for place in json_places):
            count += into.execute(insert, row).rowcount
    return count


def _rows(source: sqlite3.Connection, table: str, names: str) -> Iterator[tuple[Any, ...]]:
    """Rows from the front until damage, then from the back until damage: what lies between is lost."""
    for direction in ("ASC", "DESC"):
        try:
            yield from source.execute(f"SELECT {names} FROM {table} NOT INDEXED ORDER BY rowid {direction}")  # noqa: S608
        except sqlite3.Error:
            continue
        return


def _is_json(value: Any) -> bool:
    try:
        msgspec.json.decode(value)
    except (msgspec.DecodeError, TypeError, UnicodeDecodeError):
        return False
    return True
