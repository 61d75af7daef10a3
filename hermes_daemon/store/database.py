"""Opening the file: rights, connections, and what happens to a damaged one.

Once a connection is open nothing else in this process may open and close the file, and so no second store either:
closing any descriptor of it drops the POSIX locks of all (https://sqlite.org/howtocorrupt.html, section 2.2).
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from hermes_daemon.core.ports import Clock, StorageError
from hermes_daemon.core.settings import DatabaseSettings
from hermes_daemon.store import salvage
from hermes_daemon.store.address import address
from hermes_daemon.store.failures import explain, is_corrupt
from hermes_daemon.store.migrate import check_version, migrate
from hermes_daemon.store.search import SearchIndex, build_index

_OPEN_TIMEOUT_S = 10.0  # how long a start waits for another process that holds the lock
_LOCK_TIMEOUT_S = 0.25  # how long one attempt to write waits; the writer tries again by its own rules
_HEADER = b"SQLite format 3\0"
_PARTS = ("", "-wal", "-shm")
_PATH_BYTES = 500  # SQLite's own limit is 512, with "-journal" at the end
_WAL_BYTES = 67_108_864  # what a write-ahead log is cut back to after it grew


class Database:
    """A database file that can be used: it exists, is sound as far as opening tells, and has our schema."""

    def __init__(self, path: str, settings: DatabaseSettings, index: SearchIndex, warnings: tuple[str, ...]) -> None:
        self.path, self.index, self.warnings = path, index, warnings
        self._settings = settings

    @classmethod
    def open(cls, path: str, settings: DatabaseSettings, clock: Clock) -> Database:
        """Make or open it. A damaged one is moved aside, its readable rows are carried over, and `warnings` says so.

        Raises NewerDatabase, and StorageError with a sentence when it cannot be opened.
        """
        warnings: list[str] = []
        length = len(os.fsencode(path))
        if length > _PATH_BYTES:
            raise StorageError(f"cannot open the database {path}: its path has {length} bytes, SQLite takes "
                               f"{_PATH_BYTES}; set HERMES_HOME to a shorter one")  # fmt: skip
        try:
            _make_private(Path(path))
            try:
                index = _prepare(path, settings)
            except sqlite3.DatabaseError as error:
                if not is_corrupt(error):
                    raise
                aside = _set_aside(path, clock.now())
                _make_private(Path(path))
                index = _prepare(path, settings)
                warnings.append(
                    f"The database {path} was damaged ({error}). It was moved to {aside}; nothing of it was deleted. "
                    + _carry_over(aside, path, settings, index)
                )
        except (sqlite3.Error, OSError) as error:
            raise StorageError(f"cannot open the database {explain(path, error)}") from error
        return cls(path, settings, index, tuple(warnings))

    def connect(self) -> sqlite3.Connection:
        """A connection with our settings. Raises sqlite3.Error; never makes the file."""
        return _connect(self.path, self._settings, _LOCK_TIMEOUT_S)

    def suspect(self) -> None:
        """Note that damage was met while running, so that the next opening looks closely."""
        try:
            Path(self.path + ".suspect").touch(mode=0o600)
        except OSError:
            return  # the disk that damaged the file may refuse this one too; the next damage is noted again


def _make_private(path: Path) -> None:
    """Make the file and its directory when missing, with rights for the owner only. OSError when that fails."""
    if not path.parent.exists():
        path.parent.mkdir(mode=0o700, parents=True)
    try:
        # SQLite would make it with the umask's rights, and gives -wal and -shm the rights of the file.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)


def _connect(path: str, settings: DatabaseSettings, timeout: float) -> sqlite3.Connection:
    connection = sqlite3.connect(
        address(path, "rw"),
        uri=True,
        timeout=timeout,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
    )
    try:
        if not os.path.getsize(path):
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # must come before anything is in the file
        connection.execute(f"PRAGMA journal_mode = {settings.journal_mode}")
        connection.execute("PRAGMA foreign_keys = OFF")  # references are checked by name, with a better sentence
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES}")
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(path: str, settings: DatabaseSettings) -> SearchIndex:
    _check_header(path)
    _check_ours(path)
    connection = _connect(path, settings, _OPEN_TIMEOUT_S)
    try:
        suspect = Path(path + ".suspect")
        if suspect.exists():
            _check_closely(connection)
        migrate(connection, path)
        index = SearchIndex.open(connection)
        suspect.unlink(missing_ok=True)
        return index
    finally:
        connection.close()


def _check_header(path: str) -> None:
    """Tell a file that is no database before SQLite does, because SQLite would delete the log beside it."""
    with open(path, "rb") as file:
        header = file.read(len(_HEADER))
    if header and header != _HEADER:
        raise _corrupt("file is not a database")


def _check_ours(path: str) -> None:
    """Before our settings are applied, because the journal mode is written into the file."""
    with closing(sqlite3.connect(address(path, "rw"), uri=True, timeout=_OPEN_TIMEOUT_S)) as connection:
        check_version(connection, path)


def _check_closely(connection: sqlite3.Connection) -> None:
    found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if found != "ok":
        raise _corrupt(str(found))


def _corrupt(words: str) -> sqlite3.DatabaseError:
    error = sqlite3.DatabaseError(words)
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error


def _set_aside(path: str, now: str) -> str:
    """Move the file and its companions away under one name, so that SQLite can still open them together."""
    stamp = "".join(c for c in now.partition(".")[0] if c.isalnum())
    aside, count = f"{path}.corrupt-{stamp}", 1
    while os.path.lexists(aside):
        count += 1
        aside = f"{path}.corrupt-{stamp}-{count}"
    for part in _PARTS:
        if os.path.lexists(path + part):
            os.rename(path + part, aside + part)
    Path(path + ".suspect").unlink(missing_ok=True)
    return aside


def _carry_over(aside: str, path: str, settings: DatabaseSettings, index: SearchIndex) -> str:
    """Copy what can be read into the new database, and say how much that was."""
    connection = _connect(path, settings, _OPEN_TIMEOUT_S)
    try:
        rows = salvage.carry_over(aside, connection)
        if rows and index.fts:
            build_index(connection)
        return f"{rows} rows could be read and were carried over into a new database."
    except sqlite3.Error as error:
        return f"Its rows could not be carried over into the new database ({error})."
    finally:
        connection.close()
