"""Tables of a plugin: one SQLite file for each, shared with other processes that run the same plugin."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from hermes_daemon.core.ports import StorageError
from hermes_daemon.store.address import address
from hermes_daemon.store.failures import NewerDatabase, WriteRejected, explain, trouble

T = TypeVar("T")
LOCK_SECONDS: Final = 20.0


class PluginDatabase:
    """ports.Database. One connection, which threads take in turns; other processes are waited for by SQLite's lock."""

    def __init__(self, path: str, migrations: Sequence[str], lock_seconds: float = LOCK_SECONDS) -> None:
        self.path = path
        self._migrations = tuple(migrations)
        self._lock_seconds = lock_seconds
        self._turn = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    async def run(self, work: Callable[[OpenRows], T]) -> T:
        """See ports.Database."""
        return await asyncio.to_thread(self.transact, work)

    async def execute(self, sql: str, params: Sequence[Any] = ()) -> int:
        """See ports.Database."""
        return await self.run(lambda rows: rows.execute(sql, params))

    async def query(self, sql: str, params: Sequence[Any] = ()) -> tuple[dict[str, Any], ...]:
        """See ports.Database."""
        return await asyncio.to_thread(self._read, sql, params)

    def transact(self, work: Callable[[OpenRows], T]) -> T:
        """`run` on the caller's own thread."""
        with self._turn:
            connection = self._opened()
            rows = OpenRows(connection, self.path)
            rows.command("BEGIN IMMEDIATE")
            try:
                value = work(rows)
                rows.command("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            finally:
                rows.over = True
            return value

    def close(self) -> None:
        """See ports.Database."""
        with self._turn:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _read(self, sql: str, params: Sequence[Any]) -> tuple[dict[str, Any], ...]:
        with self._turn:
            return OpenRows(self._opened(), self.path).query(sql, params)

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            try:
                self._connection = self._open()
            except (sqlite3.Error, OSError) as error:
                raise StorageError(f"cannot open the database {explain(self.path, error)}") from error
        return self._connection

    def _open(self) -> sqlite3.Connection:
        path = Path(self.path)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)  # SQLite would use the umask's rights, for -wal and -shm as well
        connection = sqlite3.connect(
            address(self.path, "rw"), uri=True, timeout=self._lock_seconds, isolation_level=None,
            check_same_thread=False,
        )  # fmt: skip
        try:
            connection.execute("PRAGMA foreign_keys = ON")
            self._migrate(connection)
            connection.execute("PRAGMA journal_mode = WAL")
        except BaseException:
            connection.close()
            raise
        return connection

    def _migrate(self, connection: sqlite3.Connection) -> None:
        """Apply what is missing, all of it or nothing; a second process that starts at the same time waits."""
        newest = len(self._migrations)
        if _version(connection) == newest:
            return
        connection.execute("BEGIN IMMEDIATE")
        try:
            found = _version(connection)  # another process may have been here while we waited
            if found > newest:
                raise NewerDatabase(self.path, found, newest)
            for script in self._migrations[found:]:
                for statement in statements(script):
                    connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {newest}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


class OpenRows:
    """ports.Rows, while the transaction is open."""

    def __init__(self, connection: sqlite3.Connection, path: str) -> None:
        self._connection, self._path = connection, path
        self.over = False

    def execute(self, sql: str, params: Sequence[Any] = ()) -> int:
        """See ports.Rows."""
        return max(0, self.command(sql, params).rowcount)

    def query(self, sql: str, params: Sequence[Any] = ()) -> tuple[dict[str, Any], ...]:
        """See ports.Rows."""
        cursor = self.command(sql, params)
        names = [column[0] for column in cursor.description or ()]
        try:
            return tuple(dict(zip(names, row, strict=True)) for row in cursor.fetchall())
        except sqlite3.Error as error:
            raise _failure(self._path, error) from error

    def command(self, sql: str, params: Sequence[Any] = ()) -> sqlite3.Cursor:
        """Run a statement. StorageError; WriteRejected where waiting or repairing would not help."""
        if self.over:
            raise WriteRejected(f"{self._path}: the transaction is over")
        try:
            return self._connection.execute(sql, tuple(params))
        except sqlite3.Error as error:
            raise _failure(self._path, error) from error


def _failure(path: str, error: sqlite3.Error) -> StorageError:
    words = explain(path, error)
    return StorageError(words) if trouble(error) else WriteRejected(words)


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def statements(script: str) -> Iterator[str]:
    """The statements of a script, one or several to a line; what stands behind the last `;` is one, too."""
    statement = ""
    for piece in script.split(";"):
        statement += piece
        if sqlite3.complete_statement(statement + ";"):
            if statement.strip():
                yield statement
            statement = ""
        else:  # the ; stands in a text, a comment or the body of a trigger
            statement += ";"
    if rest := statement.removesuffix(";").strip():
        yield rest


def open_database(path: str, migrations: Sequence[str]) -> PluginDatabase:
    """The database of a plugin; nothing is opened yet."""
    return PluginDatabase(os.path.abspath(path), migrations)
