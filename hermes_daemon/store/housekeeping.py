"""Work that can wait: pruning the journal, old receipts and unused blobs, giving back space, wiping what was deleted.

The writer thread does one small step at a time while nobody writes, and now and then under constant load.
"""

from __future__ import annotations

import sqlite3
from collections import deque
from datetime import datetime, timedelta

from hermes_daemon.core.ports import Clock
from hermes_daemon.core.records import AddEvents, DeleteSession, Op, TruncateSession
from hermes_daemon.core.settings import DatabaseSettings
from hermes_daemon.store import blobs, journal
from hermes_daemon.store.search import SearchIndex

BATCH = 500
"""Rows that one step removes: a few milliseconds."""
_FREE_PAGES = 1000  # free space that is kept for the next writes in any case
_GROWTH = 1000  # events of a session after which it is looked at again
_SWEEP_S = 3600.0
_PAUSE_S = 60.0
_IDLE_S = 0.2
_UNUSED_HOURS = 24
_BLOBS = 4  # blobs that one step removes: each may be big


class Housekeeping:
    """What is due. All methods are called in the writer thread."""

    def __init__(self, settings: DatabaseSettings, clock: Clock, index: SearchIndex) -> None:
        self._settings, self._clock, self._index = settings, clock, index
        self._sessions = deque[str]()
        self._grown: dict[str, int] = {}
        self._receipts = self._shrink = self._blobs = False
        self._wipe = ""
        self._next_sweep = self._not_before = clock.monotonic()

    @property
    def due(self) -> bool:
        now = self._clock.monotonic()
        return now >= self._not_before and bool(
            self._sessions or self._receipts or self._blobs or self._shrink or self._wipe or now >= self._next_sweep
        )

    @property
    def wait_s(self) -> float:
        """How long the writer may sleep before it should look again."""
        return _IDLE_S if self.due else _PAUSE_S if self._not_before > self._clock.monotonic() else _SWEEP_S

    def note(self, ops: tuple[Op, ...]) -> None:
        """Remember what committed operations make due."""
        for op in ops:
            if isinstance(op, AddEvents) and op.rows:
                session_id = op.rows[0].session_id
                grown = self._grown.get(session_id, 0) + len(op.rows)
                if grown >= _GROWTH:
                    self._grown.pop(session_id, None)
                    self._sessions.append(session_id)
                else:
                    self._grown[session_id] = grown
            elif isinstance(op, DeleteSession):
                self._grown.pop(op.session_id, None)
                self._shrink, self._wipe = True, "begin"
            elif isinstance(op, TruncateSession):
                self._wipe = "begin"

    def postpone(self) -> None:
        """After a failure: leave the disk alone for a while."""
        self._not_before = self._clock.monotonic() + _PAUSE_S

    def step(self, connection: sqlite3.Connection) -> None:
        """One small piece of what is due. Raises sqlite3.Error."""
        if self._clock.monotonic() >= self._next_sweep:
            self._begin_sweep(connection)
        elif self._receipts:
            self._receipts = self._prune_receipts(connection)
        elif self._sessions:
            if not self._prune_journal(connection, self._sessions[0]):
                self._sessions.popleft()
        elif self._blobs:
            self._blobs = blobs.sweep(connection, self._ago(hours=_UNUSED_HOURS), _BLOBS) == _BLOBS
        elif self._shrink:
            self._shrink = self._give_back(connection)
        elif self._wipe:
            self._wipe = self._wipe_deleted(connection)

    def _begin_sweep(self, connection: sqlite3.Connection) -> None:
        rows = connection.execute("SELECT session_id FROM sessions WHERE deleted_at IS NULL").fetchall()
        self._sessions = deque(session_id for (session_id,) in rows)
        self._receipts = self._shrink = self._blobs = True
        self._next_sweep = self._clock.monotonic() + _SWEEP_S

    def _prune_receipts(self, connection: sqlite3.Connection) -> bool:
        removed = connection.execute(
            "DELETE FROM receipts WHERE rowid IN (SELECT rowid FROM receipts WHERE at < ? LIMIT ?)",
            (self._ago(hours=self._settings.receipt_hours), BATCH),
        ).rowcount
        return removed == BATCH

    def _prune_journal(self, connection: sqlite3.Connection, session_id: str) -> bool:
        row = connection.execute("SELECT id FROM sessions WHERE session_id=?", (session_id,)).fetchone()
        if row is None:
            return False
        keep, before = self._settings.retain_events, self._ago(days=self._settings.retain_days)
        return journal.prune(connection, row[0], keep=keep, before=before, batch=BATCH) == BATCH

    def _give_back(self, connection: sqlite3.Connection) -> bool:
        """Shorten the file by a batch of pages while more than a quarter of it is free."""
        free, pages = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("freelist_count", "page_count"))
        if free <= max(_FREE_PAGES, pages // 4):
            return False
        connection.execute(f"PRAGMA incremental_vacuum({BATCH})").fetchall()
        return bool(connection.execute("PRAGMA freelist_count").fetchone()[0] < free)

    def _wipe_deleted(self, connection: sqlite3.Connection) -> str:
        """Merge the index until removed words are gone from it, then empty the log that still holds old pages."""
        if self._index.fts:
            # A negative count starts merging all levels, positive ones go on (https://sqlite.org/fts5.html, 6.7).
            count, before = -64 if self._wipe == "begin" else 64, connection.total_changes
            connection.execute("INSERT INTO search_fts (search_fts, rank) VALUES ('merge', ?)", (count,))
            if connection.total_changes - before >= 2:  # fewer means: nothing was left to merge
                return "merging"
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return ""

    def _ago(self, *, days: int = 0, hours: int = 0) -> str:
        then = datetime.fromisoformat(self._clock.now()) - timedelta(days=days, hours=hours)
        return then.isoformat(timespec="milliseconds").replace("+00:00", "Z")
