"""Opening: rights, damaged files, files that cannot be opened."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
from pathlib import Path

import pytest

from hermes_daemon.core.ports import StorageError
from hermes_daemon.core.records import AddMessage, RaiseCeiling
from hermes_daemon.store.sqlite import SqliteStore
from tests.support.store_disk import make_read_only, small_disk
from tests.support.store_rows import (
    HandClock,
    answered,
    event,
    events,
    message,
    open_store,
    put_session,
    said,
    with_store,
)


async def fill(store: SqliteStore) -> None:
    await store.write(put_session(title="The old one"), RaiseCeiling(session_id="s1", ceiling=1024))
    for n in range(200):
        await store.write(
            AddMessage(session_id="s1", message=message(f"message {n} " + "x" * 300)),
            said("s1", f"u{n}", f"question {n}"),
            answered("s1", f"a{n}", f"answer {n}"),
            events(event("s1", n + 1)),
            durable=False,
        )


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_database_is_for_its_owner_only_and_so_is_a_directory_made_for_it(tmp_path: Path) -> None:
    path = tmp_path / "home" / "state.db"
    rights: list[int] = []

    async def work(store: SqliteStore) -> None:
        await store.write(put_session())
        rights.extend(mode(file) for file in path.parent.iterdir())

    before = os.umask(0)
    try:
        with_store(path, work)
    finally:
        os.umask(before)
    assert mode(path.parent) == 0o700
    assert len(rights) == 3
    assert set(rights) == {0o600}


def test_wider_rights_of_an_existing_database_are_narrowed(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with_store(path, fill)
    path.chmod(0o644)
    asyncio.run(open_store(path).close())
    assert mode(path) == 0o600


def test_a_path_with_characters_of_an_address_is_just_a_path(tmp_path: Path) -> None:
    path = tmp_path / "a?b#c%20d é" / "state.db"
    with_store(path, fill)
    assert path.exists()


def test_the_journal_mode_of_the_settings_is_used(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    for wanted in ("delete", "wal"):
        with_store(path, fill if wanted == "delete" else lambda store: asyncio.sleep(0), journal_mode=wanted)
        connection = sqlite3.connect(path)
        assert connection.execute("PRAGMA journal_mode").fetchone() == (wanted,)
        connection.close()


def test_a_file_that_is_no_database_is_moved_aside_and_said(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    path.write_bytes(b"this was a database once" * 500)
    (tmp_path / "state.db-wal").write_bytes(b"log")
    store = open_store(path, HandClock("2026-03-01T12:00:00.000Z"))
    (warning,) = store.warnings
    aside = tmp_path / "state.db.corrupt-20260301T120000"
    assert str(aside) in warning
    assert "not a database" in warning
    assert aside.read_bytes() == b"this was a database once" * 500
    assert (tmp_path / f"{aside.name}-wal").read_bytes() == b"log"
    assert store.sessions(limit=10).rows == ()
    asyncio.run(store.close())


def test_two_damaged_files_in_one_second_are_both_kept(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    for content in (b"one" * 2000, b"two" * 2000):
        path.write_bytes(content)
        asyncio.run(open_store(path).close())
    kept = sorted(file.read_bytes()[:3] for file in tmp_path.glob("state.db.corrupt-*"))
    assert kept == [b"one", b"two"]


def test_what_is_readable_of_a_damaged_database_is_carried_over(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with_store(path, fill)
    damage_schema_page_of_an_index(path)
    store = open_store(path)
    assert "rows could be read" in store.warnings[0]
    row = store.session("s1")
    assert row is not None
    assert row.title == "The old one"
    assert row.epoch != "e1"  # events may be missing, so the cursors of clients no longer count
    assert row.ceiling >= 1024
    assert [m.text[:11].strip() for m in store.messages("s1")][:2] == ["message 0 x", "message 1 x"]
    assert len(store.messages("s1")) == 200
    assert {hit.item_id for hit in store.search("answer 17 ", limit=3)} == {"a17"}
    asyncio.run(store.close())
    assert (tmp_path / "state.db.corrupt-20260301T120000").stat().st_size > 100_000


def damage_schema_page_of_an_index(path: Path) -> None:
    """Make the schema unreadable for a normal opening, as a torn page would, and leave the tables whole."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute("UPDATE sqlite_master SET rootpage = 4000000 WHERE name = 'messages_session'")
    connection.commit()
    connection.close()


def test_damage_met_while_running_is_looked_for_at_the_next_start(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with_store(path, fill)
    connection = sqlite3.connect(path)
    (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'grants'").fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)

    async def meet(store: SqliteStore) -> None:
        assert store.warnings == ()  # nothing that opening touches is damaged
        with pytest.raises(StorageError, match="it is damaged"):
            store.grants()

    with_store(path, meet)
    store = open_store(path)
    assert "was damaged" in store.warnings[0]
    assert len(store.messages("s1")) == 200
    assert store.grants() == ()
    asyncio.run(store.close())
    again = open_store(path)
    assert again.warnings == ()
    asyncio.run(again.close())


def test_a_read_only_file_system_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        path = disk.path / "state.db"
        with_store(path, lambda store: store.write(put_session()))
        make_read_only(disk.path)
        with pytest.raises(StorageError, match=r"cannot open the database .*state\.db"):
            open_store(path)


def test_a_directory_in_the_place_of_the_database_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "state.db").mkdir()
    with pytest.raises(StorageError, match=r"state\.db"):
        open_store(tmp_path / "state.db")
