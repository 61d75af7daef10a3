"""What can go wrong with a database, told apart by what helps: waiting, repairing, or mending the caller."""

from __future__ import annotations

import sqlite3
from typing import Literal, TypeAlias

from hermes_daemon.core.ports import StorageError

Trouble: TypeAlias = Literal["locked", "broken"]

# Primary result codes, https://sqlite.org/rescode.html
_LOCKED = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_BROKEN = frozenset(
    {
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_NOLFS,
        sqlite3.SQLITE_INTERRUPT,
    }
)
_CORRUPT = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_CORRUPT_INDEX = 267  # SQLITE_CORRUPT_VTAB: the full-text index only, everything else is sound

_WORDS = {
    sqlite3.SQLITE_BUSY: "another process holds its lock",
    sqlite3.SQLITE_LOCKED: "another process holds its lock",
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_READONLY: "it is read-only",
    sqlite3.SQLITE_IOERR: "reading or writing the disk failed",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened",
    sqlite3.SQLITE_CORRUPT: "it is damaged",
    sqlite3.SQLITE_NOTADB: "it is damaged",
}


class NewerDatabase(StorageError):
    """The database was written by a newer version; it is left as it is."""

    retryable = False

    def __init__(self, path: str, found: int, supported: int) -> None:
        super().__init__(
            f"{path}: the database has schema version {found}, this version of hermes-daemon knows up to {supported}. "
            "Update hermes-daemon, or start it with another home."
        )
        self.path, self.found, self.supported = path, found, supported


class WriteRejected(StorageError):
    """This write can never be kept, whatever the disk does: its data does not fit. Other writes are not concerned."""

    retryable = False


def trouble(error: BaseException) -> Trouble | None:
    """`locked`: waiting helps. `broken`: the disk or file must change first. None: the write itself is wrong."""
    if not isinstance(error, sqlite3.Error):
        return "broken" if isinstance(error, OSError) else None
    code = _primary(error)
    if code in _LOCKED:
        return "locked"
    return "broken" if code in _BROKEN else None


def is_corrupt(error: BaseException) -> bool:
    """Whether the error says that the file is damaged or no database at all."""
    return isinstance(error, sqlite3.Error) and _primary(error) in _CORRUPT and not is_corrupt_index(error)


def is_corrupt_index(error: BaseException) -> bool:
    """Whether only the full-text index is damaged, which can be made again from the texts."""
    return getattr(error, "sqlite_errorcode", 0) == _CORRUPT_INDEX


def explain(path: str, error: BaseException) -> str:
    """A sentence for people: which file, what is wrong, and SQLite's own words."""
    words = _WORDS.get(_primary(error)) if isinstance(error, sqlite3.Error) else None
    return f"{path}: {words} ({error})" if words else f"{path}: {error}"


def _primary(error: sqlite3.Error) -> int:
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:  # raised by the Python module itself
        return sqlite3.SQLITE_NOTADB if "file is not a database" in str(error) else sqlite3.SQLITE_ERROR
    return int(code) & 0xFF
