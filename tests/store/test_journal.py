"""The journal: replay, folding, the range that is retained, pruning."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_daemon.core.records import AddEvents, AddMessage
from hermes_daemon.store.failures import WriteRejected
from hermes_daemon.store.sqlite import SqliteStore
from tests.support.store_rows import HandClock, answered, delta, event, events, message, put_session, said, with_store

OLD, NEW = "2026-02-01T00:00:00.000Z", "2026-03-01T11:00:00.000Z"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


def numbers(store: SqliteStore, session_id: str = "s1", after: int = 0, limit: int = 100_000) -> list[int]:
    return [row.seq for row in store.events(session_id, after, limit)]


def test_events_come_back_after_a_number_in_order_and_up_to_a_limit(path: Path) -> None:
    rows = tuple(event("s1", n, turn_id="t", item_id=f"i{n}", data=b'{"n":%d}' % n) for n in (1, 2, 3, 7, 8))

    async def work(store: SqliteStore) -> None:
        await store.write(put_session(), AddEvents(rows=rows))
        assert store.events("s1", 0, 10) == rows
        assert numbers(store, after=3) == [7, 8]
        assert numbers(store, after=4, limit=1) == [7]
        assert numbers(store, after=8) == []
        assert store.events("unknown", 0, 10) == ()

    with_store(path, work)


def test_ten_thousand_events_of_two_sessions_written_in_turns_are_paged_apart(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        await store.write(put_session("a"), put_session("b"))
        for start in range(1, 5001, 100):
            span = range(start, start + 100)
            store.write(events(*(event(name, n) for n in span for name in "ab")), durable=False)
        await store.write(put_session("a"))
        for name in "ab":
            seen = list[int]()
            while page := numbers(store, name, after=seen[-1] if seen else 0, limit=700):
                seen += page
            assert seen == list(range(1, 5001))
            assert store.event_range(name) == (1, 5000)

    with_store(path, work)


def test_the_range_counts_a_merged_run_from_its_first_event(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        await store.write(put_session())
        assert store.event_range("s1") == (0, 0)
        assert store.event_range("unknown") == (0, 0)
        await store.write(events(delta("s1", 9, "i", "text", 0, first=5), event("s1", 12)))
        assert store.event_range("s1") == (5, 12)
        assert numbers(store, after=6) == [9, 12]

    with_store(path, work)


def test_completing_an_item_folds_its_deltas_and_no_others(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        await store.write(
            put_session(), answered("s1", "i1", "", status="inProgress"), answered("s1", "i2", "", status="inProgress")
        )
        await store.write(
            events(event("s1", 1, item_id="i1"), delta("s1", 2, "i1", "a", 0), delta("s1", 3, "i2", "b", 0))
        )
        await store.write(answered("s1", "i1", "a"), events(event("s1", 4, "item.completed", item_id="i1")))
        assert numbers(store) == [1, 3, 4]

    with_store(path, work)


def test_a_number_given_twice_is_refused_with_both_named(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        await store.write(put_session(), events(event("s1", 5)))
        with pytest.raises(WriteRejected, match="given before: 4 of session s1, 5 of session s1"):
            await store.write(events(event("s1", 4), event("s1", 5)))
        assert numbers(store) == [5]

    with_store(path, work)


def test_pruning_keeps_the_newest_and_the_young_and_all_content(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        await store.write(put_session("a"), put_session("b"), put_session("c"))
        await store.write(events(*(event("a", n, ts=OLD) for n in range(1, 1501))))  # many and old
        await store.write(events(*(event("b", n, ts=NEW) for n in range(1, 1501))))  # many and young
        await store.write(events(*(event("c", n, ts=OLD) for n in range(1, 51))))  # few and old
        await store.write(said("a", "i1", "kept"), AddMessage(session_id="a", message=message("kept")))
        await store.tidy()
        assert store.event_range("a") == (1401, 1500)
        assert numbers(store, "a") == list(range(1401, 1501))
        assert store.event_range("b") == (1, 1500)
        assert store.event_range("c") == (1, 50)
        assert len(store.items("a", limit=10).rows) == 1
        assert len(store.messages("a")) == 1

    with_store(path, work, retain_events=100, retain_days=7)


def test_pruning_keeps_what_tells_the_text_of_an_open_item(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        await store.write(put_session(), answered("s1", "i1", "", status="inProgress"))
        await store.write(events(event("s1", 1, ts=OLD)))
        await store.write(events(*(delta("s1", n, "i1", "x", n - 2) for n in range(2, 12))))
        await store.write(events(*(event("s1", n, ts=OLD) for n in range(12, 300))))
        await store.tidy()
        assert store.event_range("s1") == (2, 299)
        assert store.open_items("s1")[0].text == "x" * 10

    with_store(path, work, retain_events=10, retain_days=7)


def test_a_young_event_among_old_ones_leaves_no_hole_behind_it(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        await store.write(put_session())
        await store.write(events(*(event("s1", n, ts=NEW if n == 50 else OLD) for n in range(1, 101))))
        await store.tidy()
        assert numbers(store) == list(range(50, 101))

    with_store(path, work, retain_events=10, retain_days=7)


def test_a_session_that_grows_is_pruned_again_while_the_store_is_open(path: Path) -> None:
    clock = HandClock()

    async def work(store: SqliteStore) -> None:
        await store.write(put_session())
        await store.tidy()
        for start in range(1, 2001, 200):
            await store.write(events(*(event("s1", n, ts=OLD) for n in range(start, start + 200))), durable=False)
        await store.tidy()
        oldest, newest = store.event_range("s1")
        assert newest == 2000
        assert oldest > 900

    with_store(path, work, clock, retain_events=100, retain_days=7)
