"""The store of the daemon: SQLite, one writer thread, reads inline."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Literal

from hermes_daemon.core.ports import Clock, Page
from hermes_daemon.core.records import (
    BlobRow,
    EventRow,
    ItemRow,
    Op,
    ProcessRow,
    QueueRow,
    ReceiptRow,
    RequestRow,
    SessionRow,
    TurnRow,
)
from hermes_daemon.core.settings import DatabaseSettings
from hermes_daemon.store import blobs, journal, ledger, messages, sessions, spending
from hermes_daemon.store.database import Database
from hermes_daemon.store.housekeeping import Housekeeping
from hermes_daemon.store.reader import Reader
from hermes_daemon.store.writer import Committed, Writer, unheard
from hermes_protocol.content import Message, Usage
from hermes_protocol.methods import SearchHit, SpentRow


class SqliteStore:
    """Implements core.ports.Store over one database file. Reads are made on the caller's thread, some 10 µs each."""

    def __init__(self, database: Database, settings: DatabaseSettings, clock: Clock,
                 committed: Committed = unheard) -> None:  # fmt: skip
        self._database = database
        reading = database.connect()  # first: a writer has a thread that would stay behind
        self._writer = Writer(database, Housekeeping(settings, clock, database.index), clock, committed)
        self._read = Reader(reading, database.path, database.suspect)

    @classmethod
    def open(cls, path: str, settings: DatabaseSettings, clock: Clock,
             committed: Committed = unheard) -> SqliteStore:  # fmt: skip
        """Open or make the database at `path` (mode 0600, its directory 0700 when made here).

        Raises NewerDatabase when it was written by a newer version, StorageError when it cannot be opened. A damaged
        one is moved aside and said in `warnings`. `committed` is told of every transaction, see `writer.Committed`.
        """
        return cls(Database.open(path, settings, clock), settings, clock, committed)

    # --- writing ------------------------------------------------------------------------------------------------------

    def write(self, *ops: Op, durable: bool = True, patience: float | None = 0.0) -> Awaitable[None]:
        """Queue the operations as one transaction, now, and return what ends with its commit.

        The order of calls is the order of commits. A write that failed and is not awaited shows in `health` only.
        Cancelling the wait does not take the write back. Raises StorageError; WriteRejected, one of its kinds, means
        that the operations do not fit (an unknown or deleted session, a number given twice) and never will.
        A lock held by another process is waited for at least `writer.LOCK_PATIENCE_S`.
        """
        return self._writer.submit(ops, durable, patience)

    async def tidy(self) -> None:
        """Prune and wipe now what would be done while nobody writes."""
        await self._writer.tidy()

    async def close(self) -> None:
        """Commit what was written before and close. Closing twice is allowed."""
        await self._writer.close()
        self._read.close()

    @property
    def health(self) -> str:
        return self._writer.health

    async def health_other_than(self, seen: str) -> str:
        """Wait until `health` is another than `seen`, or the store is closed, and return it."""
        return await self._writer.health_other_than(seen)

    @property
    def warnings(self) -> tuple[str, ...]:
        return self._database.warnings

    # --- sessions -----------------------------------------------------------------------------------------------------

    def session(self, session_id: str) -> SessionRow | None:
        return sessions.get(self._read, session_id)

    def sessions(
        self,
        *,
        limit: int,
        cursor: str | None = None,
        cwd: str | None = None,
        query: str | None = None,
        archived: bool | None = None,
    ) -> Page:
        """Rows of SessionRow, last changed first, without deleted ones. ValueError for a cursor that is none."""
        return sessions.page(
            self._read, self._database.index, limit=limit, cursor=cursor, cwd=cwd, query=query, archived=archived
        )

    def counts(self) -> dict[str, int]:
        """sessions (not deleted), turns, messages, and the bytes of the database."""
        return {
            "sessions": self._read.number("SELECT count(*) FROM sessions WHERE deleted_at IS NULL"),
            "turns": self._read.number("SELECT count(*) FROM turns"),
            "messages": self._read.number("SELECT count(*) FROM messages"),
            "bytes": self._read.number("PRAGMA page_count") * self._read.number("PRAGMA page_size"),
        }

    def usage(self, session_id: str | None) -> tuple[Usage, int]:
        """What was used, and the number of turns: of one session, or of all that are not deleted."""
        return spending.usage(self._read, session_id)

    def spent(self, session_id: str | None, by: Literal["model", "task"]) -> tuple[SpentRow, ...]:
        """The same for each model or task, the most tokens first."""
        return spending.spent(self._read, session_id, by)

    # --- content ------------------------------------------------------------------------------------------------------

    def messages(self, session_id: str) -> tuple[Message, ...]:
        return messages.history(self._read, session_id)

    def item(self, session_id: str, item_id: str) -> ItemRow | None:
        return messages.get_item(self._read, session_id, item_id)

    def items(
        self,
        session_id: str,
        *,
        limit: int,
        before: str | None = None,
        after: str | None = None,
        order: Literal["asc", "desc"] = "asc",
    ) -> Page:
        """Rows of ItemRow that are no longer in progress; see messages.item_page for anchors and cursor."""
        return messages.item_page(self._read, session_id, limit=limit, before=before, after=after, order=order)

    def open_items(self, session_id: str) -> tuple[ItemRow, ...]:
        return messages.open_items(self._read, session_id)

    def blob(self, blob_id: str, offset: int, limit: int) -> tuple[bytes, int] | None:
        return blobs.read_blob(self._read, blob_id, offset, limit)

    def blob_row(self, blob_id: str) -> BlobRow | None:
        return blobs.get(self._read, blob_id)

    def blob_held(self, session_id: str, blob_id: str) -> bool:
        return blobs.is_held(self._read, session_id, blob_id)

    def blob_bytes(self, session_id: str) -> int:
        return blobs.used(self._read, session_id)

    def items_behind(self, session_id: str, item_id: str | None) -> int:
        return messages.items_behind(self._read, session_id, item_id)

    def search(self, query: str, *, limit: int, cwd: str | None = None) -> tuple[SearchHit, ...]:
        return self._database.index.find(self._read, query, limit=limit, cwd=cwd)

    # --- journal ------------------------------------------------------------------------------------------------------

    def events(self, session_id: str, after: int, limit: int) -> tuple[EventRow, ...]:
        return journal.events(self._read, session_id, after, limit)

    def event_bytes(self, session_id: str, after: int) -> int:
        return journal.size_after(self._read, session_id, after)

    def event_range(self, session_id: str) -> tuple[int, int]:
        return journal.event_range(self._read, session_id)

    # --- ledger -------------------------------------------------------------------------------------------------------

    def receipt(self, scope: str, method: str, key: str) -> ReceiptRow | None:
        return ledger.receipt(self._read, scope, method, key)

    def open_turns(self) -> tuple[TurnRow, ...]:
        return ledger.open_turns(self._read)

    def queue(self, session_id: str) -> QueueRow | None:
        return ledger.queue(self._read, session_id)

    def queued_sessions(self) -> tuple[str, ...]:
        return ledger.queued_sessions(self._read)

    def open_requests(self) -> tuple[RequestRow, ...]:
        return ledger.open_requests(self._read)

    def processes(self) -> tuple[ProcessRow, ...]:
        return ledger.processes(self._read)

    def grants(self) -> tuple[str, ...]:
        return ledger.grants(self._read)
