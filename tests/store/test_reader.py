"""Reads: values that no row can have, and a database that cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_daemon.core.ports import StorageError
from hermes_daemon.store.sqlite import SqliteStore
from tests.support.store_rows import event, events, put_session, said, with_store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


def test_an_id_that_is_no_unicode_is_simply_unknown(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        await store.write(put_session())
        assert store.session("\ud800") is None
        assert store.messages("\ud800") == ()
        assert store.blob("\ud800", 0, 1) is None
        assert store.sessions(limit=5, cwd="\ud800").rows == ()

    with_store(path, work)


def test_numbers_beyond_what_sqlite_holds_count_as_its_largest(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        await store.write(put_session(), events(event("s1", 1)), said("s1", "i", "word"))
        assert store.events("s1", 10**30, 10) == ()
        assert len(store.events("s1", -(10**30), 10**30)) == 1
        assert len(store.items("s1", limit=10**30).rows) == 1
        assert len(store.sessions(limit=2**63 - 1).rows) == 1

    with_store(path, work)


def test_a_limit_of_nothing_gives_nothing(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        await store.write(put_session(), events(event("s1", 1)), said("s1", "i", "word"))
        for limit in (0, -5):
            assert store.events("s1", 0, limit) == ()
            assert store.items("s1", limit=limit).rows == ()
            assert store.sessions(limit=limit).rows == ()
            assert store.search("word", limit=limit) == ()

    with_store(path, work)


def test_reading_after_closing_is_a_storage_error(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        await store.close()
        with pytest.raises(StorageError, match="cannot read"):
            store.session("s1")

    with_store(path, work)
