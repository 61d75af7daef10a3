"""Schema versions: newer and foreign databases are left alone, migrations are all or nothing."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from hermes_daemon.core.ports import StorageError
from hermes_daemon.store.failures import NewerDatabase
from hermes_daemon.store.migrate import MIGRATIONS, migrate
from tests.support.store_rows import open_store


def connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None)


def test_an_empty_file_gets_the_newest_schema_and_a_second_run_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    connection = connect(path)
    assert migrate(connection, str(path)) == len(MIGRATIONS)
    before = path.read_bytes()
    assert migrate(connection, str(path)) == len(MIGRATIONS)
    connection.close()
    assert path.read_bytes() == before


def test_a_newer_database_is_refused_with_its_path_and_both_versions_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    connection = connect(path)
    migrate(connection, str(path))
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(NewerDatabase) as caught:
        open_store(path)
    assert (caught.value.path, caught.value.found, caught.value.supported) == (str(path), 99, len(MIGRATIONS))
    assert "schema version 99" in str(caught.value)
    assert "Update hermes-daemon" in str(caught.value)
    after = connect(path)
    assert after.execute("PRAGMA user_version").fetchone() == (99,)
    after.close()
    assert len(path.read_bytes()) == len(before)
    assert [other.name for other in tmp_path.iterdir()] == ["state.db"]


def test_a_database_of_another_program_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    connection = connect(path)
    connection.execute("CREATE TABLE theirs (x)")
    connection.execute("INSERT INTO theirs VALUES (1)")
    connection.close()
    with pytest.raises(StorageError, match="another program"):
        open_store(path)
    connection = connect(path)
    assert connection.execute("SELECT x FROM theirs").fetchall() == [(1,)]
    connection.close()


def test_a_migration_that_fails_leaves_the_version_before_it(tmp_path: Path) -> None:
    (tmp_path / "one.sql").write_text("CREATE TABLE a (x); -- first;\nCREATE TABLE b (x);\n")
    (tmp_path / "two.sql").write_text("CREATE TABLE c (x);\nCREATE TABLE a (x);\n")
    connection = connect(tmp_path / "state.db")
    with pytest.raises(sqlite3.OperationalError, match="already exists"):
        migrate(connection, "state.db", ("one.sql", "two.sql"), tmp_path)
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    assert tables == {"a", "b"}
    assert connection.execute("PRAGMA user_version").fetchone() == (1,)
    (tmp_path / "two.sql").write_text("CREATE TABLE c (x);\n")
    assert migrate(connection, "state.db", ("one.sql", "two.sql"), tmp_path) == 2
    connection.close()


def test_a_migration_that_ends_inside_a_statement_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "one.sql").write_text("CREATE TABLE a (x);\nCREATE TABLE b (x")
    connection = connect(tmp_path / "state.db")
    with pytest.raises(ValueError, match="CREATE TABLE b"):
        migrate(connection, "state.db", ("one.sql",), tmp_path)
    assert connection.execute("PRAGMA user_version").fetchone() == (0,)
    connection.close()


def test_a_database_of_the_first_version_knows_afterwards_which_items_speak_of_its_blobs(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    connection = connect(path)
    migrate(connection, str(path), MIGRATIONS[:1])
    row = "INSERT INTO sessions VALUES (1,'s1','e','/','t','t','','',X'7b7d',X'7b7d',0,X'7b7d',NULL,0,NULL,0,NULL)"
    connection.execute(row)
    for blob in ("spoken", "forgotten"):
        connection.execute("INSERT INTO blobs (blob_id, session, mime, size) VALUES (?, 1, 'text/plain', 0)", (blob,))
    body = b'{"type":"toolCall","output":{"blob":{"id":"spoken","bytes":0}}}'
    connection.execute("INSERT INTO items (session, item_id, open, body) VALUES (1, 'i1', 0, ?)", (body,))
    migrate(connection, str(path))
    assert connection.execute("SELECT * FROM blob_refs").fetchall() == [(1, "i1", "spoken")]
    connection.close()
