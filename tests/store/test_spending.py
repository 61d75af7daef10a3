"""What model calls used: sums over sessions, models and tasks, and what of a cost is unknown."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_daemon.core.records import AddUsage, DeleteSession, PutTurn, TurnRow
from hermes_daemon.store.migrate import MIGRATIONS, migrate
from hermes_daemon.store.sqlite import SqliteStore
from hermes_protocol.content import Usage
from hermes_protocol.methods import SpentRow
from tests.support.store_rows import NOON, put_session, with_store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


def used(session: str, model: str, usage: Usage | None, task: str = "main") -> AddUsage:
    return AddUsage(session_id=session, model=model, at=NOON, usage=usage, task=task, turn_id="t", round=1)


def turn(name: str) -> PutTurn:
    return PutTurn(row=TurnRow(turn_id=f"t-{name}", session_id=name, status="completed", started_at=NOON))


def test_usage_adds_up_over_sessions_that_are_not_deleted(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        for name, usage in (("a", Usage(10, 1, cost=0.5)), ("b", Usage(20, 2, cost=0.25)), ("c", Usage(40, 4))):
            await store.write(put_session(name), turn(name), used(name, "m", usage))
        await store.write(DeleteSession(session_id="c", at=NOON))
        assert store.usage("a") == (Usage(10, 1, cost=0.5), 1)
        assert store.usage(None) == (Usage(30, 3, cost=0.75), 2)
        assert store.usage("c") == store.usage("unknown") == (Usage(), 0)
        assert store.spent("c", "model") == ()

    with_store(path, work)


def test_the_sums_of_models_and_tasks_begin_with_the_most_tokens(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        await store.write(
            put_session("a"),
            used("a", "small", Usage(5, 1, cost=0.01), "title"),
            used("a", "big", Usage(100, 20, 60, 8, 4, cost=0.5)),
            used("a", "big", Usage(50, 10, cost=0.25)),
        )
        assert store.spent("a", "model") == (
            SpentRow("big", 2, Usage(150, 30, 60, 8, 4, cost=0.75)),
            SpentRow("small", 1, Usage(5, 1, cost=0.01)),
        )
        assert [row.name for row in store.spent(None, "task")] == ["main", "title"]

    with_store(path, work)


def test_an_unknown_cost_is_absent_and_a_sum_with_one_says_so(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        await store.write(
            put_session("a"),
            used("a", "free", Usage(5, 1)),
            used("a", "paid", Usage(7, 1, cost=0.5)),
            used("a", "paid", None),
            used("a", "zero", Usage(1, 1, cost=0.0)),
        )
        rows = {row.name: row.usage for row in store.spent("a", "model")}
        assert rows["free"] == Usage(5, 1)
        assert rows["paid"] == Usage(7, 1, cost=0.5, cost_partial=True)
        assert rows["zero"] == Usage(1, 1, cost=0.0)
        assert store.usage("a")[0] == Usage(13, 3, cost=0.5, cost_partial=True)

    with_store(path, work)


usages = st.builds(
    Usage,
    st.integers(1, 1000),
    st.integers(0, 1000),
    cost=st.none() | st.integers(0, 64).map(lambda number: number / 64),
)


@given(st.lists(usages, min_size=1, max_size=6))
def test_a_sum_in_memory_is_what_is_known_and_tells_what_is_not(parts: list[Usage]) -> None:
    total = sum(parts, Usage())
    known = [part.cost for part in parts if part.cost is not None]
    assert total.cost == (sum(known) if known else None)
    assert total.cost_partial == (0 < len(known) < len(parts))


def test_turns_of_an_older_database_are_taken_over(path: Path) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    migrate(connection, str(path), MIGRATIONS[:2])
    connection.execute(
        "INSERT INTO sessions VALUES (1, 's', 'e', '/', '', '', '', '', '{}', '{}', 0, '{}', NULL, 0, NULL, 0, NULL)"
    )
    row = "INSERT INTO turns VALUES (?, 1, 'completed', ?, NULL, ?, ?, ?)"
    connection.execute(row, ("t1", NOON, "a/b", 3, b'{"inputTokens":30,"outputTokens":3,"cost":0.5}'))
    connection.execute(row, ("t2", NOON, "a/b", 1, b'{"inputTokens":10}'))
    connection.execute(row, ("t3", NOON, "a/b", 0, b"{}"))
    connection.close()

    async def work(store: SqliteStore) -> None:
        assert store.spent("s", "model") == (SpentRow("a/b", 4, Usage(40, 3, cost=0.5, cost_partial=True)),)

    with_store(path, work)
