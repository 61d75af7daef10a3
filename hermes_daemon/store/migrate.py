"""Schema versions. `PRAGMA user_version` is the number of migrations applied; the list only ever grows."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

from hermes_daemon.core.ports import StorageError
from hermes_daemon.store.failures import NewerDatabase

_HERE = Path(__file__).parent

MIGRATIONS: tuple[str, ...] = ("schema.sql", "blobs.sql", "usage.sql")
"""Files beside this one, in order. Append; never edit or reorder a released one."""

APPLICATION_ID = 0x48524D44  # "HRMD" in the file header: tells our databases from other programs' databases


def migrate(
    connection: sqlite3.Connection, path: str, migrations: Sequence[str] = MIGRATIONS, folder: Path = _HERE
) -> int:
    """Bring the schema up to date and return its version. Each migration, a file of `folder`, is one transaction.

    Raises NewerDatabase, and StorageError for an SQLite database that is not ours; both leave the file untouched.
    A database that is up to date is only read, so a lock held by another process does not delay the start.
    """
    found = check_version(connection, path, len(migrations))
    for version, name in enumerate(migrations[found:], start=found + 1):
        script = (folder / name).read_text(encoding="utf-8")
        _apply(connection, script, version)
    return len(migrations)


def check_version(connection: sqlite3.Connection, path: str, supported: int = len(MIGRATIONS)) -> int:
    """The schema version found. Raises NewerDatabase, and StorageError for a database that is not ours."""
    found = int(connection.execute("PRAGMA user_version").fetchone()[0])
    application = int(connection.execute("PRAGMA application_id").fetchone()[0])
    if application != APPLICATION_ID and connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
        raise StorageError(f"{path}: this is a database of another program (application id {application:#x}).")
    if found > supported:
        raise NewerDatabase(path, found, supported)
    return found


def _apply(connection: sqlite3.Connection, script: str, version: int) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have migrated while we waited for the lock.
        if connection.execute("PRAGMA user_version").fetchone()[0] < version:
            for statement in _statements(script):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {version}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _statements(script: str) -> Iterator[str]:
    """The statements of a script; `executescript` would commit in the middle of our transaction."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if statement.strip():
        raise ValueError(f"a migration ends inside a statement: {statement.strip()[:80]}")
