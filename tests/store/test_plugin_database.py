"""Tables of a plugin: made when they are first used, whole transactions, several threads and processes."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_daemon.core.ports import Rows, StorageError
from hermes_daemon.store.failures import NewerDatabase, WriteRejected
from hermes_daemon.store.plugin_database import PluginDatabase, statements

COUNTS = "CREATE TABLE counts (name TEXT PRIMARY KEY, value INTEGER NOT NULL);"
MORE = "ALTER TABLE counts ADD COLUMN note TEXT NOT NULL DEFAULT 'none'; CREATE INDEX by_note ON counts (note);"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "plugin-data" / "demo" / "demo.db"


@pytest.fixture
def database(path: Path) -> Iterator[PluginDatabase]:
    database = PluginDatabase(str(path), [COUNTS])
    yield database
    database.close()


def add(rows: Rows) -> int:
    rows.execute("INSERT INTO counts (name, value) VALUES ('a', 1) ON CONFLICT (name) DO UPDATE SET value = value + 1")
    return int(rows.query("SELECT value FROM counts WHERE name = ?", ("a",))[0]["value"])


def test_nothing_is_made_before_the_first_use_and_the_file_is_private(database: PluginDatabase, path: Path) -> None:
    assert not path.parent.exists()
    assert asyncio.run(database.execute("INSERT INTO counts VALUES ('a', 1), ('b', 2)")) == 2
    assert asyncio.run(database.query("SELECT name, value FROM counts ORDER BY name")) == (
        {"name": "a", "value": 1},
        {"name": "b", "value": 2},
    )
    assert {stat.S_IMODE(each.stat().st_mode) for each in path.parent.iterdir()} == {0o600}
    assert asyncio.run(database.query("PRAGMA journal_mode")) == ({"journal_mode": "wal"},)


def test_a_transaction_that_raises_leaves_nothing(database: PluginDatabase) -> None:
    def work(rows: Rows) -> None:
        add(rows)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        asyncio.run(database.run(work))
    assert asyncio.run(database.query("SELECT * FROM counts")) == ()
    assert asyncio.run(database.run(add)) == 1


def test_threads_and_tasks_take_turns(database: PluginDatabase) -> None:
    async def many() -> list[int]:
        return await asyncio.gather(*(database.run(add) for _ in range(25)))

    threads = [threading.Thread(target=database.transact, args=(add,)) for _ in range(25)]
    for thread in threads:
        thread.start()
    counted = asyncio.run(many())
    for thread in threads:
        thread.join()
    assert len(set(counted)) == 25
    assert database.transact(add) == 51


def test_migrations_are_applied_once_each_and_keep_what_is_there(database: PluginDatabase, path: Path) -> None:
    database.transact(add)
    database.close()
    newer = PluginDatabase(str(path), [COUNTS, MORE])
    assert asyncio.run(newer.query("SELECT * FROM counts")) == ({"name": "a", "value": 1, "note": "none"},)
    newer.close()
    assert newer.transact(add) == 2, "a use after closing opens it again"
    newer.close()
    with pytest.raises(NewerDatabase, match="schema version 2, this version of hermes-daemon knows up to 1"):
        database.transact(add)


def test_a_script_is_cut_between_its_statements_and_nowhere_else() -> None:
    trigger = "CREATE TRIGGER t AFTER INSERT ON counts BEGIN DELETE FROM counts WHERE name = ';'; SELECT 1; END"
    script = f"CREATE TABLE a (x); -- first; of two\n{trigger};\nINSERT INTO a VALUES ('x;y'); DROP TABLE a"
    cut = [" ".join(each.split()) for each in statements(script)]
    assert cut == ["CREATE TABLE a (x)", f"-- first; of two {trigger}", "INSERT INTO a VALUES ('x;y')", "DROP TABLE a"]
    assert list(statements(" \n ")) == []


def test_a_migration_that_fails_leaves_the_schema_as_it_was(database: PluginDatabase, path: Path) -> None:
    database.transact(add)
    database.close()
    broken = PluginDatabase(str(path), [COUNTS, MORE + " DROP TABLE no_such;"])
    with pytest.raises(StorageError, match=r"demo\.db: no such table: no_such"):
        broken.transact(add)
    assert database.transact(add) == 2


def test_a_statement_that_does_not_fit_is_rejected_and_a_used_up_transaction_too(database: PluginDatabase) -> None:
    with pytest.raises(WriteRejected, match="no such column: absent"):
        asyncio.run(database.query("SELECT absent FROM counts"))
    kept: list[Rows] = []
    database.transact(kept.append)
    with pytest.raises(WriteRejected, match="the transaction is over"):
        kept[0].execute("DELETE FROM counts")


def test_a_lock_that_another_process_keeps_is_said_and_reading_goes_on(database: PluginDatabase, path: Path) -> None:
    database.transact(add)
    impatient = PluginDatabase(str(path), [COUNTS], lock_seconds=0.01)
    other = sqlite3.connect(path, isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageError, match="another process holds its lock"):
            impatient.transact(add)
        assert asyncio.run(impatient.query("SELECT value FROM counts")) == ({"value": 1},)
        other.execute("ROLLBACK")
        assert impatient.transact(add) == 2
    finally:
        other.close()
        impatient.close()


def test_a_file_that_is_no_database_is_said_and_left(path: Path, database: PluginDatabase) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(b"something else" * 100)
    with pytest.raises(StorageError, match=r"cannot open the database .*it is damaged"):
        database.transact(add)
    assert path.read_bytes().startswith(b"something else")
