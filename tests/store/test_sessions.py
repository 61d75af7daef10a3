"""Sessions: rows, the lease of numbers, tombstones, pages of a list."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

from hermes_daemon.core.records import (
    AddMessage,
    DeleteSession,
    PutBlob,
    PutQueue,
    PutTurn,
    QueueRow,
    RaiseCeiling,
    TurnRow,
)
from hermes_daemon.store.failures import WriteRejected
from hermes_daemon.store.sqlite import SqliteStore
from hermes_protocol.content import Usage
from hermes_protocol.methods import SessionOptions
from tests.support.store_rows import event, events, message, open_store, put_session, said, session_row, with_store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


def at(second: int) -> str:
    return f"2026-03-01T12:{second // 60:02}:{second % 60:02}.000Z"


def test_a_session_comes_back_as_it_was_put(path: Path) -> None:
    row = session_row(
        title="Fix it",
        model="scripted/echo",
        options=SessionOptions(mode="manual", toolsets=("web",), unattended="deny"),
        env={"PATH": "/bin"},
        rev=3,
        usage=Usage(10, 20, cost=0.5),
        occupancy_pct=12.5,
        archived=True,
        parent="s0",
        ceiling=1024,
    )

    async def work(store: SqliteStore) -> None:
        await store.write(
            put_session(row.session_id), put_session(**{f: getattr(row, f) for f in row.__struct_fields__})
        )
        assert store.session("s1") == row
        assert store.session("unknown") is None

    with_store(path, work)


def test_the_ceiling_of_numbers_only_rises(path: Path) -> None:
    async def work(store: SqliteStore) -> list[int]:
        seen = []
        for op in (
            put_session(ceiling=10),
            RaiseCeiling(session_id="s1", ceiling=1024),
            put_session(ceiling=0, title="renamed"),
            RaiseCeiling(session_id="s1", ceiling=5),
            put_session(ceiling=2048),
        ):
            await store.write(op)
            row = store.session("s1")
            assert row is not None
            seen.append(row.ceiling)
        return seen

    assert with_store(path, work) == [10, 1024, 1024, 1024, 2048]


def test_a_deleted_session_leaves_its_id_and_nothing_else(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        for name in ("s1", "s2"):
            await store.write(
                put_session(name, title=f"title of {name}", env={"TOKEN": "secret"}),
                AddMessage(session_id=name, message=message("hello")),
                said(name, "i1", f"hello from {name}"),
                events(event(name, 1)),
                PutTurn(row=TurnRow(turn_id=f"t-{name}", session_id=name, status="running", started_at=at(1))),
                PutQueue(row=QueueRow(session_id=name, entries=(), rev=1, paused=False)),
                PutBlob(blob_id=f"b-{name}", session_id=name, data=b"bytes"),
            )
        await store.write(DeleteSession(session_id="s1", at=at(9)))
        await store.write(DeleteSession(session_id="s1", at=at(10)))
        assert store.session("s1") == session_row(cwd="", updated_at=at(9), deleted_at=at(9))
        assert [row.session_id for row in store.sessions(limit=10).rows] == ["s2"]
        assert store.messages("s1") == ()
        assert store.items("s1", limit=10).rows == ()
        assert store.event_range("s1") == (0, 0)
        assert [turn.turn_id for turn in store.open_turns()] == ["t-s2"]
        assert store.queue("s1") is None
        assert store.blob("b-s1", 0, 10) is None
        assert store.blob("b-s2", 0, 10) == (b"bytes", 5)
        assert {hit.session_id for hit in store.search("hello", limit=10)} == {"s2"}
        assert {hit.session_id for hit in store.search("title", limit=10)} == {"s2"}

    with_store(path, work)


def test_the_id_of_a_deleted_session_is_never_used_again(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        await store.write(put_session(), DeleteSession(session_id="s1", at=at(9)))
        for op in (
            put_session(),
            said("s1", "i", "x"),
            events(event("s1", 1)),
            RaiseCeiling(session_id="s1", ceiling=5),
        ):
            with pytest.raises(WriteRejected, match="s1 was deleted at"):
                await store.write(op)

    with_store(path, work)
    with_store(path, lambda store: asyncio.to_thread(store.session, "s1"))


def test_deleting_an_unknown_session_is_an_error(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        with pytest.raises(WriteRejected, match="s7 is unknown"):
            await store.write(DeleteSession(session_id="s7", at=at(9)))

    with_store(path, work)


def test_the_words_of_a_deleted_session_are_gone_from_the_files_after_tidying(path: Path) -> None:
    async def work(store: SqliteStore) -> bytes:
        for n in range(50):
            await store.write(put_session(f"keep{n}"), said(f"keep{n}", "i", f"ordinary words {n}"))
        await store.write(
            put_session(title="xyzzytitle"),
            said("s1", "i1", "the password is hunter2hunter2"),
            AddMessage(session_id="s1", message=message("the password is hunter2hunter2")),
        )
        await store.write(DeleteSession(session_id="s1", at=at(9)))
        await store.tidy()
        return b"".join(file.read_bytes() for file in path.parent.iterdir())

    bytes_on_disk = with_store(path, work)
    assert b"ordinary" in bytes_on_disk
    assert b"hunter2" not in bytes_on_disk
    assert b"xyzzytitle" not in bytes_on_disk


def test_pages_neither_repeat_nor_miss_rows_while_sessions_appear(path: Path) -> None:
    async def work(store: SqliteStore) -> list[str]:
        await store.write(*(put_session(f"s{n:02}", at(n // 3)) for n in range(20)))
        seen, cursor, new = list[str](), None, 0
        while True:
            page = store.sessions(limit=3, cursor=cursor)
            seen += [row.session_id for row in page.rows]
            if page.next_cursor is None:
                return seen
            cursor, new = page.next_cursor, new + 1
            await store.write(put_session(f"new{new}", at(1000 + new)))

    assert with_store(path, work) == [f"s{n:02}" for n in reversed(range(20))]


def test_the_last_page_has_no_cursor(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        await store.write(*(put_session(f"s{n}", at(n)) for n in range(4)))
        first = store.sessions(limit=2)
        assert first.next_cursor
        assert store.sessions(limit=2, cursor=first.next_cursor).next_cursor is None
        assert store.sessions(limit=4).next_cursor is None

    with_store(path, work)


@pytest.mark.parametrize("cursor", ["", "!!!", "s1", "YWJj", "é", "a" * 5000])
def test_a_cursor_that_is_none_is_an_error_that_says_what_was_expected(path: Path, cursor: str) -> None:
    async def work(store: SqliteStore) -> None:
        with pytest.raises(ValueError, match="cursor: expected the nextCursor of an earlier answer"):
            store.sessions(limit=1, cursor=cursor)

    with_store(path, work)


def test_a_list_is_narrowed_by_directory_archive_and_words_of_title_or_content(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        await store.write(
            put_session("a", at(1), cwd="/one", title="Parser bug"),
            put_session("b", at(2), cwd="/two", archived=True),
            said("b", "i", "the parser again"),
            put_session("c", at(3), cwd="/one", title="Other"),
        )

        def ids(**filters: object) -> list[str]:
            return [row.session_id for row in store.sessions(limit=10, **filters).rows]  # type: ignore[arg-type]

        assert ids() == ["c", "b", "a"]
        assert ids(cwd="/one") == ["c", "a"]
        assert ids(archived=False) == ["c", "a"]
        assert ids(archived=True) == ["b"]
        assert ids(query="parser") == ["b", "a"]
        assert ids(query="parser", cwd="/one") == ["a"]
        assert ids(query="  ") == ["c", "b", "a"]
        await store.write(put_session("a", at(4), cwd="/one", title="Renamed"))
        assert ids(query="parser") == ["b"]
        assert ids(query="renam") == ["a"]

    with_store(path, work)


def test_a_list_of_a_thousand_sessions_is_read_from_the_index(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        await store.write(*(put_session(f"s{n}", at(n)) for n in range(1000)))
        assert len(store.sessions(limit=1000).rows) == 1000

    with_store(path, work)
    connection = sqlite3.connect(path)
    plan = connection.execute(
        "EXPLAIN QUERY PLAN SELECT session_id FROM sessions WHERE deleted_at IS NULL"
        " AND (updated_at, session_id) < (?, ?) ORDER BY updated_at DESC, session_id DESC LIMIT 50",
        ("2026", "s"),
    ).fetchall()
    connection.close()
    assert "sessions_recent" in plan[0][3]
    assert len(plan) == 1  # no sorting step


def test_counts_tell_what_is_stored(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        await store.write(put_session("a"), put_session("b"), DeleteSession(session_id="b", at=at(1)))
        await store.write(AddMessage(session_id="a", message=message("x")))
        await store.write(PutTurn(row=TurnRow(turn_id="t", session_id="a", status="completed", started_at=at(1))))
        counts = store.counts()
        assert (counts["sessions"], counts["turns"], counts["messages"]) == (1, 1, 1)
        assert counts["bytes"] > 10_000

    with_store(path, work)


def test_everything_is_there_after_closing_and_opening_again(path: Path) -> None:
    with_store(path, lambda store: store.write(put_session(title="kept"), said("s1", "i1", "words")))
    store = open_store(path)
    row = store.session("s1")
    assert row is not None
    assert row.title == "kept"
    assert [hit.item_id for hit in store.search("words", limit=5)] == ["i1"]
    asyncio.run(store.close())
