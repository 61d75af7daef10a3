"""Search: what is found, that any text may be asked, and what happens without the index."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_daemon.core.settings import DatabaseSettings
from hermes_daemon.store.database import Database
from hermes_daemon.store.failures import is_corrupt_index
from hermes_daemon.store.search import SearchIndex
from hermes_daemon.store.sqlite import SqliteStore
from tests.support.shared_data import case
from tests.support.store_rows import HandClock, answered, open_store, put_session, said, with_store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


async def fill(store: SqliteStore) -> None:
    await store.write(
        put_session("s1", title="Repair the Größe parser", cwd="/one"),
        said("s1", "u1", "Why does tokenize_line fail on empty input?"),
        answered("s1", "a1", "Because tokenize_line reads the first character. " + "More words. " * 60),
        put_session("s2", cwd="/two"),
        said("s2", "u2", "今日は天気がいいですね"),
        answered("s2", "a2", '100% sure: a->b, C++ and "quotes"'),
    )


def found(store: SqliteStore, query: str, **filters: str) -> list[str]:
    return sorted(hit.item_id or "title" for hit in store.search(query, limit=20, **filters))


@pytest.fixture(params=["fts5", "like"])
def index(request: pytest.FixtureRequest) -> SearchIndex | None:
    return SearchIndex(fts=False) if request.param == "like" else None


def asking(path: Path, index: SearchIndex | None) -> SqliteStore:
    """A filled store, answering by FTS5 or, as where SQLite lacks it, by LIKE."""
    store = open_store(path)
    if index is not None:
        asyncio.run(store.close())
        store = SqliteStore(Database(str(path), DatabaseSettings(), index, ()), DatabaseSettings(), HandClock())
    asyncio.run(fill(store))
    return store


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("tokenize", ["a1", "u1"]),
        ("TOKENIZE_LINE", ["a1", "u1"]),
        ("empty tokenize", ["u1"]),
        ('"first character"', ["a1"]),
        ('"character first"', []),
        ("toke", ["a1", "u1"]),
        ("fail because", []),
        ("parser", ["title"]),
        ("天気", ["u2"]),
        ("100%", ["a2"]),
        ("->", ["a2"]),
        ("c++", ["a2"]),
        ("nothing such", []),
        ("", []),
        ('"', []),
    ],
)
def test_words_phrases_beginnings_and_signs_are_found(
    path: Path, index: SearchIndex | None, query: str, expected: list[str]
) -> None:
    store = asking(path, index)
    assert found(store, query) == expected
    asyncio.run(store.close())


def test_accents_do_not_matter_and_only_the_last_word_may_go_on(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        await fill(store)
        assert found(store, "grosse") == []
        assert found(store, "grö") == ["title"]
        assert found(store, "gro") == ["title"]
        assert found(store, "toke fail") == []
        assert found(store, "toke ") == []

    with_store(path, work)


def test_a_hit_tells_where_it_is_and_shows_the_place(path: Path, index: SearchIndex | None) -> None:
    store = asking(path, index)
    (hit,) = store.search('"first character"', limit=5)
    assert (hit.session_id, hit.item_id, hit.title, hit.role) == ("s1", "a1", "Repair the Größe parser", "assistant")
    assert "first character" in hit.snippet
    assert len(hit.snippet) < 200
    asyncio.run(store.close())


def test_search_can_be_narrowed_to_a_directory_and_a_number(path: Path, index: SearchIndex | None) -> None:
    store = asking(path, index)
    assert found(store, "tokenize", cwd="/one") == ["a1", "u1"]
    assert found(store, "tokenize", cwd="/two") == []
    assert len(store.search("tokenize", limit=1)) == 1
    asyncio.run(store.close())


def test_a_changed_text_is_found_by_its_new_words_only(path: Path, index: SearchIndex | None) -> None:
    store = asking(path, index)

    async def change() -> None:
        await store.write(said("s1", "u1", "something else"), answered("s1", "a1", "", status="completed"))
        assert found(store, "tokenize") == []
        assert found(store, "something") == ["u1"]
        await store.close()

    asyncio.run(change())


@settings(max_examples=300, deadline=None)
@given(query=st.one_of(st.text(max_size=60), st.text(alphabet='ab"*^:()-+{}ANDORNEAR\\%_ \0\ud800', max_size=40)))
def test_any_text_is_a_valid_query(filled: SqliteStore, query: str) -> None:
    filled.search(query, limit=5)
    filled.sessions(limit=5, query=query)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> object:
    store = open_store(tmp_path_factory.mktemp("search") / "state.db")
    asyncio.run(fill(store))
    yield store
    asyncio.run(store.close())


def test_texts_written_where_fts5_was_missing_are_indexed_by_the_next_opening(path: Path) -> None:
    store = asking(path, SearchIndex(fts=False))
    asyncio.run(store.close())
    store = open_store(path)
    assert found(store, "fail tokenize") == ["u1"]
    assert found(store, "fai tokenize") == []  # LIKE would find it
    asyncio.run(store.close())


def test_a_rebuild_that_was_killed_leaves_nothing_and_is_done_once_at_the_next_start(path: Path) -> None:
    """The handed case sessions/db-stale-repair-lock: the only lock is the transaction's, and dies with it."""
    case("sessions", "db-stale-repair-lock")
    asyncio.run(asking(path, SearchIndex(fts=False)).close())
    dying = sqlite3.connect(path, isolation_level=None)
    dying.execute("BEGIN IMMEDIATE")  # a rebuild up to the moment of death
    dying.execute("DROP TABLE search_fts")
    dying.close()
    size = path.stat().st_size
    for _ in range(3):
        store = open_store(path)
        assert found(store, "fail tokenize") == ["u1"]
        asyncio.run(store.close())
    assert path.stat().st_size <= size + 65_536


def test_a_damaged_index_is_made_again_and_no_write_is_lost(path: Path) -> None:
    with_store(path, fill)
    connection = sqlite3.connect(path)
    connection.execute("UPDATE search_fts_data SET block = x'ffffffffffffffffffffffff' WHERE id > 1")
    connection.commit()
    with pytest.raises(sqlite3.DatabaseError) as caught:
        connection.execute("SELECT rowid FROM search_fts WHERE search_fts MATCH 'tokenize'").fetchall()
    assert is_corrupt_index(caught.value)
    connection.close()

    async def work(store: SqliteStore) -> None:
        assert found(store, "tokenize") == ["a1", "u1"]  # by LIKE
        for n in range(300):
            await store.write(said("s1", f"n{n}", f"tokenize number {n}"), durable=False)
        assert len(store.items("s1", limit=1000).rows) == 302

    with_store(path, work)
