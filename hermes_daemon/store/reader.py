"""Reading inline on the event loop: a connection of its own that sees every committed write."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

from hermes_daemon.core.ports import StorageError
from hermes_daemon.store.failures import explain, is_corrupt

_LARGEST = 2**63 - 1


class Reader:
    """Queries that answer whole rows. Each sees the newest commit; an unreadable database is a StorageError.

    The connection may be used from any thread (SQLite is built serialized); rows are plain tuples.
    """

    def __init__(self, connection: sqlite3.Connection, path: str, on_damage: Callable[[], None]) -> None:
        self._connection, self._path, self._on_damage = connection, path, on_damage
        connection.execute("PRAGMA query_only = ON")

    def all(self, sql: str, *params: Any) -> list[tuple[Any, ...]]:
        """All rows. A text that is no Unicode matches nothing; a number SQLite cannot hold counts as its largest."""
        try:
            return self._connection.execute(sql, params).fetchall()
        except UnicodeEncodeError:
            return []
        except OverflowError:
            return self.all(sql, *(max(-_LARGEST, min(p, _LARGEST)) if isinstance(p, int) else p for p in params))
        except sqlite3.Error as error:
            if is_corrupt(error):
                self._on_damage()
            raise StorageError(f"cannot read {explain(self._path, error)}") from error

    def one(self, sql: str, *params: Any) -> tuple[Any, ...] | None:
        rows = self.all(sql, *params)
        return rows[0] if rows else None

    def number(self, sql: str, *params: Any) -> int:
        """The single number a query gives; 0 for NULL or no row."""
        row = self.one(sql, *params)
        return int(row[0]) if row and row[0] is not None else 0

    def close(self) -> None:
        self._connection.close()
