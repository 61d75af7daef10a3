"""Copies of sessions and sessions taken back: what they hold, and which blobs stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_daemon.core.records import (
    AddMessage,
    CopySession,
    DeleteSession,
    DropItem,
    PutBlob,
    PutItem,
    PutQueue,
    QueueRow,
    TruncateSession,
)
from hermes_daemon.store.failures import WriteRejected
from hermes_daemon.store.sqlite import SqliteStore
from hermes_protocol.content import By, ImageBlock
from hermes_protocol.events import BlobRef, Output, QueueEntry, ToolCallItem, UserMessage
from tests.support.store_rows import (
    NOON,
    HandClock,
    event,
    events,
    message,
    put_session,
    said,
    session_row,
    with_store,
)

LATER = "2026-03-09T12:00:00.000Z"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


def ran(item_id: str, blob_id: str, session_id: str = "s1") -> PutItem:
    """A finished call whose output is a blob."""
    output = Output(head="a", tail="z", blob=BlobRef(blob_id, 9))
    item = ToolCallItem(item_id=item_id, status="completed", created_at=NOON, call_id="c", name="look", title="look",
                        args="{}", output=output)  # fmt: skip
    return PutItem(session_id=session_id, item=item)


def shown(item_id: str, blob_id: str) -> PutItem:
    """A message of the user with an image."""
    item = UserMessage(item_id=item_id, status="completed", created_at=NOON, text="[image]",
                       input=(ImageBlock("image/png", blob_id=blob_id),))  # fmt: skip
    return PutItem(session_id="s1", item=item)


def blob(blob_id: str, session_id: str = "s1", at: str = NOON) -> PutBlob:
    return PutBlob(blob_id=blob_id, session_id=session_id, data=blob_id.encode(), at=at)


def copy(target: str, last: str | None = None, messages: int = 0) -> CopySession:
    return CopySession(source="s1", row=session_row(target), last_item=last, messages=messages)


def test_a_copy_is_found_by_its_words_and_goes_on_apart_from_its_source(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        await store.write(put_session(), said("s1", "i1", "heliotrope"), said("s1", "i2", "periwinkle"))
        await store.write(copy("s2", "i1"))
        assert {hit.session_id for hit in store.search("heliotrope", limit=9)} == {"s1", "s2"}
        assert {hit.session_id for hit in store.search("periwinkle", limit=9)} == {"s1"}
        await store.write(TruncateSession(session_id="s1", last_item=None, messages=0))
        assert {hit.session_id for hit in store.search("heliotrope", limit=9)} == {"s2"}
        assert [row.item.item_id for row in store.items("s2", limit=9).rows] == ["i1"]

    with_store(path, work)


def test_the_trimmed_message_belongs_to_the_turn_of_what_it_stands_for(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        rows = [AddMessage(session_id="s1", message=message(f"m{n}"), turn_id=f"t{n}") for n in range(3)]
        await store.write(put_session(), *rows)
        await store.write(TruncateSession(session_id="s1", last_item=None, messages=1, tail=(message("half"),)))
        assert [one.text for one in store.messages("s1")] == ["m0", "half"]

    with_store(path, work)
    import sqlite3

    connection = sqlite3.connect(path)
    assert connection.execute("SELECT turn_id FROM messages ORDER BY id").fetchall() == [("t0",), ("t1",)]
    connection.close()


def test_a_copy_of_something_unknown_or_onto_something_known_leaves_nothing(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        await store.write(put_session("s1"), put_session("gone"), DeleteSession(session_id="gone", at=NOON))
        for op, words in (
            (copy("s2", "no-item"), "has no item no-item"),
            (copy("s1"), "is there already"),
            (copy("gone"), "is there already"),
            (CopySession(source="gone", row=session_row("s3"), last_item=None, messages=0), "was deleted"),
            (TruncateSession(session_id="s1", last_item="no-item", messages=0), "has no item no-item"),
        ):
            with pytest.raises(WriteRejected, match=words):
                await store.write(op)
        assert [row.session_id for row in store.sessions(limit=9).rows] == ["s1"]

    with_store(path, work)


def test_a_blob_stays_as_long_as_one_session_speaks_of_it(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        await store.write(put_session(), blob("b1"), blob("b2"), ran("i1", "b1"), ran("i2", "b2"))
        await store.write(copy("s2", "i1"))
        assert store.blob_held("s2", "b1")
        assert not store.blob_held("s2", "b2")
        await store.write(DeleteSession(session_id="s1", at=NOON))
        assert store.blob("b1", 0, 9) == (b"b1", 2)
        assert store.blob("b2", 0, 9) is None
        await store.write(DeleteSession(session_id="s2", at=NOON))
        assert store.blob("b1", 0, 9) is None

    with_store(path, work)


def test_blobs_that_nobody_speaks_of_go_after_a_day(path: Path) -> None:
    clock = HandClock()

    async def work(store: SqliteStore) -> None:
        queued = QueueEntry("q1", "t1", (ImageBlock("image/png", blob_id="queued"),), By("me"))
        await store.write(
            put_session(),
            *(blob(name) for name in ("lost", "output", "input", "queued", "dropped", "journaled")),
            ran("i1", "output"),
            shown("i2", "input"),
            PutQueue(row=QueueRow(session_id="s1", entries=(queued,), rev=1, paused=True)),
            ran("i3", "dropped"),
            ran("i4", "journaled"),
            events(event("s1", 1, item_id="i4", ts=LATER)),
        )
        await store.write(DropItem(session_id="s1", item_id="i3"), DropItem(session_id="s1", item_id="i4"))
        await store.tidy()
        assert store.blob("lost", 0, 9) is not None  # it may be on its way into an input
        clock.time, clock.seconds = LATER, 700_000.0
        await store.write(blob("fresh", at=LATER))
        await store.tidy()
        left = [name for name in ("lost", "output", "input", "queued", "dropped", "journaled", "fresh")
                if store.blob(name, 0, 9) is not None]  # fmt: skip
        assert left == ["output", "input", "queued", "journaled", "fresh"]
        await store.write(PutQueue(row=QueueRow(session_id="s1", entries=(), rev=2, paused=True)))
        clock.seconds += 4000.0
        await store.tidy()
        assert store.blob("queued", 0, 9) is None

    with_store(path, work, clock)


def test_what_is_known_of_a_blob(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        growing = PutBlob(blob_id="b", session_id="s1", data=b"ab", mime="image/png", growing=True)
        await store.write(put_session(), growing)
        row = store.blob_row("b")
        assert row is not None
        assert (row.session_id, row.mime, row.bytes, row.growing) == ("s1", "image/png", 2, True)
        await store.write(PutBlob(blob_id="b", session_id="s1", data=b"c"), blob("other"))
        row = store.blob_row("b")
        assert row is not None
        assert (row.bytes, row.growing) == (3, False)
        assert store.blob_bytes("s1") == 8
        assert store.blob_row("none") is None

    with_store(path, work)


def test_items_behind_an_item_are_counted(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        await store.write(put_session(), *(said("s1", f"i{n}", "x") for n in range(5)))
        assert [store.items_behind("s1", item) for item in (None, "i0", "i4")] == [5, 4, 0]
        with pytest.raises(KeyError):
            store.items_behind("s1", "none")

    with_store(path, work)
