"""When work that can wait is due, and that it comes in small steps."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from hermes_daemon.core.records import DeleteSession, PutBlob
from hermes_daemon.core.settings import DatabaseSettings
from hermes_daemon.store.database import Database
from hermes_daemon.store.housekeeping import BATCH, Housekeeping
from hermes_daemon.store.search import SearchIndex
from hermes_daemon.store.sqlite import SqliteStore
from hermes_daemon.store.writer import Writer
from tests.support.store_rows import HandClock, event, events, put_session, with_store

OLD = "2026-01-01T00:00:00.000Z"


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    path = tmp_path / "state.db"

    async def fill(store: SqliteStore) -> None:
        await store.write(put_session(), events(*(event("s1", n, ts=OLD) for n in range(1, 2001))))

    with_store(path, fill)
    connection = sqlite3.connect(path, isolation_level=None)
    yield connection
    connection.close()


def keeper(clock: HandClock) -> Housekeeping:
    return Housekeeping(DatabaseSettings(retain_events=100), clock, SearchIndex(fts=True))


def finish(housekeeping: Housekeeping, connection: sqlite3.Connection) -> list[int]:
    """Rows of the journal after each step, until nothing is due."""
    rows = []
    while housekeeping.due:
        housekeeping.step(connection)
        rows.append(connection.execute("SELECT count(*) FROM events").fetchone()[0])
    return rows


def test_one_step_removes_no_more_than_a_batch(connection: sqlite3.Connection) -> None:
    rows = [2000, *finish(keeper(HandClock()), connection)]
    assert rows[-1] == 100
    assert max(before - after for before, after in pairwise(rows)) == BATCH


def test_everything_is_looked_at_once_and_again_after_an_hour(connection: sqlite3.Connection) -> None:
    clock = HandClock()
    housekeeping = keeper(clock)
    finish(housekeeping, connection)
    assert housekeeping.wait_s > 600
    clock.seconds += 3599
    assert not housekeeping.due
    clock.seconds += 1
    assert housekeeping.due
    assert housekeeping.wait_s < 1


def test_growth_and_deletion_make_work_due_before_the_hour(connection: sqlite3.Connection) -> None:
    housekeeping = keeper(HandClock())
    finish(housekeeping, connection)
    for n in range(10):
        assert not housekeeping.due
        housekeeping.note((events(*(event("s1", n * 100 + k) for k in range(100))),))
    assert housekeeping.due
    finish(housekeeping, connection)
    housekeeping.note((DeleteSession(session_id="s1", at=OLD),))
    assert housekeeping.due
    finish(housekeeping, connection)


def test_after_a_failure_the_disk_is_left_alone_for_a_while(connection: sqlite3.Connection) -> None:
    clock = HandClock()
    housekeeping = keeper(clock)
    housekeeping.postpone()
    assert not housekeeping.due
    assert 1 < housekeeping.wait_s <= 60
    clock.seconds += 60
    assert housekeeping.due


def test_the_file_grows_short_again_after_big_things_were_deleted(tmp_path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        await store.write(put_session("keep"), put_session("big"))
        await store.write(PutBlob(blob_id="b", session_id="big", data=bytes(20_000_000)))
        full = store.counts()["bytes"]
        await store.write(DeleteSession(session_id="big", at=OLD))
        await store.tidy()
        assert full > 20_000_000
        assert store.counts()["bytes"] < 6_000_000
        assert (tmp_path / "big.db").stat().st_size < 6_000_000
        assert store.session("keep") is not None

    with_store(tmp_path / "big.db", work)


class Signalling(Housekeeping):
    """Says when nothing is due any more."""

    def step(self, connection: sqlite3.Connection) -> None:
        super().step(connection)
        if not self.due:
            self.finished.set()


def test_a_writer_that_nobody_writes_to_keeps_house_by_itself(connection: sqlite3.Connection, tmp_path: Path) -> None:
    async def work() -> None:
        clock, values = HandClock(), DatabaseSettings(retain_events=100)
        database = Database.open(str(tmp_path / "state.db"), values, clock)
        housekeeping = Signalling(values, clock, database.index)
        housekeeping.finished = threading.Event()
        writer = Writer(database, housekeeping, clock)
        assert await asyncio.to_thread(housekeeping.finished.wait, 30)
        await writer.close()

    asyncio.run(work())
    assert connection.execute("SELECT count(*) FROM events").fetchone() == (100,)
