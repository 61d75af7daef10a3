"""The one writer: a thread that commits writes in the order they were called, many to a transaction.

A transaction is synced to the disk (synchronous=FULL) when one of its writes is durable. A write that does not fit
fails alone. When the database is locked, full or unreachable, writes wait as long as their patience says, in order:
nothing overtakes.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeAlias

from hermes_daemon.core.ports import Clock, StorageError
from hermes_daemon.core.records import Op
from hermes_daemon.store.database import Database
from hermes_daemon.store.failures import WriteRejected, explain, is_corrupt, is_corrupt_index, trouble
from hermes_daemon.store.housekeeping import Housekeeping
from hermes_daemon.store.operations import apply
from hermes_daemon.store.writes import Close, Submitted, Tidy, Watch, Write, answer, fail

LOCK_PATIENCE_S = 10.0
"""How long every write waits for another process that holds the lock, whatever its patience."""
_MAX_GROUP = 512  # writes to a transaction
_STEP_EVERY = 256  # transactions under constant load between two steps of housekeeping
_BACKOFF_S = (0.05, 0.1, 0.25, 0.5, 1.0)
_MIN_PAUSE_S = 0.02


Committed: TypeAlias = Callable[[float, int, bool], None]
"""Told on the writer's thread of every transaction: the seconds it took, how many writes, whether it was synced. It
must not raise."""


def unheard(seconds: float, writes: int, durable: bool) -> None:
    """Nobody wants to know."""


class Writer:
    """Owns the writing connection. The public methods may be called from any running event loop."""

    def __init__(self, database: Database, housekeeping: Housekeeping, clock: Clock,
                 committed: Committed = unheard) -> None:  # fmt: skip
        self._database, self._housekeeping, self._clock = database, housekeeping, clock
        self._committed = committed
        self._inbox: SimpleQueue[Submitted] = SimpleQueue()
        self._pending = deque[Write]()
        self._tidies, self._watches = list[Tidy](), list[Watch]()
        self._closing: Close | None = None
        self._closed = False
        self._health = "ok"
        self._limit, self._failures, self._groups = _MAX_GROUP, 0, 0
        self._durable: bool | None = None
        self._connection: sqlite3.Connection | None = database.connect()
        self._thread = Thread(target=self._run, name="store-writer", daemon=True)
        self._thread.start()

    # --- called on event loops ----------------------------------------------------------------------------------------

    def submit(self, ops: tuple[Op, ...], durable: bool, patience: float | None) -> asyncio.Future[None]:
        """Queue a write, now; the future ends with its commit or with StorageError."""
        future = asyncio.get_running_loop().create_future()
        if self._closed:
            fail(future, self._is_closed())
        else:
            self._inbox.put(Write(ops, durable, patience, self._clock.monotonic(), future))
        return future

    @property
    def health(self) -> str:
        """ "ok", or what went wrong with the last write or is going on."""
        return self._health

    async def health_other_than(self, seen: str) -> str:
        """Wait until the health is another than `seen`, or the store is closed, and return it."""
        return str(await self._ask(lambda future: Watch(seen, future)))

    async def tidy(self) -> None:
        """Do all housekeeping that is due, after the writes called before."""
        await self._ask(Tidy)

    async def close(self) -> None:
        """Commit what was called before, then end the thread. Writes that cannot be kept soon fail."""
        if not self._closed:
            closing = self._ask(lambda future: Close(self._clock.monotonic(), future))
            self._closed = True
            await closing
            self._thread.join()

    def _ask(self, make: Callable[[asyncio.Future[Any]], Submitted]) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self._closed:
            fail(future, self._is_closed())
        else:
            self._inbox.put(make(future))
        return future

    def _is_closed(self) -> StorageError:
        return StorageError(f"{self._database.path}: the store is closed")

    # --- the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while self._closing is None or self._pending or not self._inbox.empty():
            try:
                self._collect(0 if self._pending or self._tidies else self._housekeeping.wait_s)
                if self._pending:
                    self._write_group()
                elif self._tidies:
                    self._tidy_all()
                elif self._housekeeping.due:
                    self._tidy_step()
            except Exception as error:  # a bug here must cost the writes at hand, never the thread
                self._fail_all(f"{self._database.path}: the writer failed: {error!r}", self._pending)
        self._disconnect()
        answer((watch.future, self._health) for watch in self._watches)
        answer((tidy.future, None) for tidy in self._tidies)
        answer([(self._closing.future, None)])

    def _collect(self, wait_s: float) -> None:
        """Take over everything that was submitted; wait for the first when there is time."""
        try:
            self._take(self._inbox.get(timeout=wait_s) if wait_s else self._inbox.get_nowait())
            while True:
                self._take(self._inbox.get_nowait())
        except Empty:
            return

    def _take(self, submitted: Submitted) -> None:
        match submitted:
            case Write():
                self._pending.append(submitted)
            case Tidy():
                self._tidies.append(submitted)
            case Watch():
                self._watches.append(submitted)
                self._set_health(self._health)
            case Close():
                self._closing = submitted

    def _set_health(self, health: str) -> None:
        self._health = health
        if self._watches:
            answer((watch.future, health) for watch in self._watches if watch.seen != health)
            self._watches = [watch for watch in self._watches if watch.seen == health]

    def _write_group(self) -> None:
        group = list(islice(self._pending, self._limit))
        began = self._clock.monotonic()
        try:
            rejected = self._commit(group)
        except (sqlite3.Error, OSError) as error:
            if len(group) > 1 and trouble(error) == "broken":
                self._limit = 1  # perhaps only one of them is too big: go on one by one
            else:
                self._meet_trouble(error)
            return
        for _ in group:
            self._pending.popleft()
        self._committed(self._clock.monotonic() - began, len(group) - len(rejected), bool(self._durable))
        self._limit, self._failures = min(self._limit * 2, _MAX_GROUP), 0
        last = rejected.get(len(group) - 1)
        self._set_health(str(last) if last else "ok")
        answer((write.future, rejected.get(place)) for place, write in enumerate(group))
        for place, write in enumerate(group):
            if place not in rejected:
                self._housekeeping.note(write.ops)
        self._groups += 1
        if self._groups % _STEP_EVERY == 0 and self._housekeeping.due:
            self._tidy_step()

    # --- transactions -------------------------------------------------------------------------------------------------

    def _commit(self, group: list[Write]) -> dict[int, StorageError]:
        """Apply and commit; the writes that do not fit, by place. Raises sqlite3.Error when nothing could be kept."""
        connection = self._connected()
        self._set_durable(connection, any(write.durable for write in group))
        try:
            return self._transact(connection, group, apart=False)
        except Exception as error:
            if trouble(error):
                raise
            if len(group) == 1:
                return {0: self._rejection(error)}
        return self._transact(connection, group, apart=True)

    def _transact(self, connection: sqlite3.Connection, group: list[Write], *, apart: bool) -> dict[int, StorageError]:
        """One transaction. With `apart` each write has a savepoint, so that one that does not fit leaves no trace."""
        rejected: dict[int, StorageError] = {}
        index = self._database.index
        connection.execute("BEGIN IMMEDIATE")
        try:
            for place, write in enumerate(group):
                if not apart:
                    apply(connection, write.ops, index)
                    continue
                connection.execute("SAVEPOINT one")
                try:
                    apply(connection, write.ops, index)
                except Exception as error:
                    if trouble(error):
                        raise
                    rejected[place] = self._rejection(error)
                    connection.execute("ROLLBACK TO one")
                connection.execute("RELEASE one")
            connection.execute("COMMIT")
        except BaseException:
            _roll_back(connection)
            raise
        return rejected

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = self._database.connect()
            self._durable = None
        return self._connection

    def _set_durable(self, connection: sqlite3.Connection, durable: bool) -> None:
        if durable is not self._durable:  # has no effect inside a transaction
            connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            self._durable = durable

    def _rejection(self, error: Exception) -> StorageError:
        if isinstance(error, WriteRejected):
            return error
        rejection = WriteRejected(f"{self._database.path}: the write does not fit: {error}")
        rejection.__cause__ = error
        return rejection

    # --- trouble ------------------------------------------------------------------------------------------------------

    def _meet_trouble(self, error: sqlite3.Error | OSError) -> None:
        """The first write could not be committed: fail what may wait no longer, and pause before the next attempt."""
        if is_corrupt_index(error) and self._repair_index():
            return
        if is_corrupt(error):
            self._database.suspect()
        locked = trouble(error) == "locked"
        if not locked:
            self._disconnect()  # a file opened read-only stays so; a new connection sees a disk that was mended
        sentence = f"cannot write {explain(self._database.path, error)}"
        head = self._pending[0]
        if not locked and self._is_over(head, locked):
            self._fail_all(sentence, [head])  # the next one may be smaller and fit
            return
        over = [write for write in self._pending if self._is_over(write, locked)]
        self._fail_all(sentence, over)
        if self._pending:
            waiting = f"{len(self._pending)} writes wait in memory and will be tried again"
            self._set_health(f"{sentence}; {waiting}")
            self._pause(locked)

    def _is_over(self, write: Write, locked: bool) -> bool:
        """Whether the write may wait no longer. Closing ends patience; a lock is waited for in any case."""
        now, least = self._clock.monotonic(), LOCK_PATIENCE_S if locked else 0.0
        if self._closing is not None and now >= self._closing.since + least:
            return True
        return write.patience is not None and now >= write.since + max(write.patience, least)

    def _fail_all(self, sentence: str, writes: Iterable[Write]) -> None:
        failed = set(writes)
        if not failed:
            return
        self._pending = deque(write for write in self._pending if write not in failed)
        self._set_health(sentence)
        answer([(write.future, StorageError(sentence)) for write in failed])

    def _pause(self, locked: bool) -> None:
        """Wait for a new write, or the time of the next attempt. A lock was waited for inside SQLite already."""
        if not locked and self._closing is None:
            time.sleep(_MIN_PAUSE_S)
            self._collect(_BACKOFF_S[min(self._failures, len(_BACKOFF_S) - 1)])
        self._failures += 1

    def _repair_index(self) -> bool:
        try:
            self._database.index.repair(self._connected())
        except sqlite3.Error:
            return False
        return True

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # --- housekeeping -------------------------------------------------------------------------------------------------

    def _tidy_step(self) -> None:
        try:
            connection = self._connected()
            self._set_durable(connection, False)
            self._housekeeping.step(connection)
        except Exception:  # it can wait: what concerns people shows with the next write
            self._housekeeping.postpone()

    def _tidy_all(self) -> None:
        while self._housekeeping.due:
            self._tidy_step()
        answer((tidy.future, None) for tidy in self._tidies)
        self._tidies.clear()


def _roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:  # SQLite rolls back by itself after some errors
        connection.execute("ROLLBACK")
