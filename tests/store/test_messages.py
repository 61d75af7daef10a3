"""The live history and the items."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_daemon.core.ports import Page
from hermes_daemon.core.records import AddMessage, DropItem, PutItem
from hermes_daemon.store.sqlite import SqliteStore
from hermes_protocol.content import ImagePart, Message, ReasoningPart, TextPart, ToolCall, ToolResult
from hermes_protocol.events import BlobRef, Output, ToolCallItem
from tests.support.store_rows import NOON, answered, delta, events, message, put_session, said, with_store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


def ids(page: Page) -> list[str]:
    return [row.item.item_id for row in page.rows]


def test_a_history_comes_back_in_order_with_every_kind_of_part(path: Path) -> None:
    history = (
        Message("user", (TextPart("look\0at"), ImagePart("image/png", data="aGk="))),
        Message(
            "assistant",
            (ReasoningPart("hm", opaque="sig=="), TextPart("ok"), ToolCall("c1", "read_file", '{"path": broken')),
            partial=True,
            item_id="i1",
        ),
        Message("tool", (ToolResult("c1", "no such file", is_error=True),)),
    )

    async def work(store: SqliteStore) -> None:
        await store.write(put_session(), *(AddMessage(session_id="s1", message=m, turn_id="t1") for m in history))
        assert store.messages("s1") == history
        assert store.messages("unknown") == ()

    with_store(path, work)


def test_two_sessions_written_in_turns_do_not_mix(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        await store.write(put_session("a"), put_session("b"))
        for n in range(100):
            name = "ab"[n % 2]
            store.write(AddMessage(session_id=name, message=message(str(n))), said(name, f"i{n}", str(n)))
        await store.write(put_session("a"))
        assert [m.text for m in store.messages("a")] == [str(n) for n in range(0, 100, 2)]
        assert ids(store.items("b", limit=3, order="desc")) == ["i99", "i97", "i95"]

    with_store(path, work)


def test_an_item_is_replaced_in_its_place(path: Path) -> None:
    tool = ToolCallItem(
        item_id="i1",
        status="completed",
        created_at=NOON,
        call_id="c",
        name="terminal",
        title="ls",
        args='{"command": "ls"}',
        output=Output(head="a", tail="z", blob=BlobRef("b", 3)),
        exit_code=0,
    )

    async def work(store: SqliteStore) -> None:
        await store.write(
            put_session(), said("s1", "i0", "x"), PutItem(session_id="s1", item=tool), said("s1", "i2", "y")
        )
        await store.write(said("s1", "i0", "changed"))
        rows = store.items("s1", limit=10).rows
        assert [row.item.item_id for row in rows] == ["i0", "i1", "i2"]
        assert rows[1].item == tool
        assert rows[0].item.text == "changed"
        row = store.item("s1", "i1")
        assert row is not None
        assert row.item == tool
        assert store.item("s1", "none") is None

    with_store(path, work)


def test_items_in_progress_are_not_in_pages_and_have_the_text_of_their_deltas(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        await store.write(put_session(), said("s1", "i0", "x"), answered("s1", "i1", "", status="inProgress"))
        await store.write(events(delta("s1", 1, "i1", "wör", 0), delta("s1", 4, "i1", "ld", 3, first=2)), durable=False)
        assert ids(store.items("s1", limit=10)) == ["i0"]
        (row,) = store.open_items("s1")
        assert (row.item.item_id, row.text) == ("i1", "wörld")
        single = store.item("s1", "i1")
        assert single is not None
        assert single.text == "wörld"
        await store.write(answered("s1", "i1", "wörld!"))
        assert store.open_items("s1") == ()
        assert ids(store.items("s1", limit=10)) == ["i0", "i1"]

    with_store(path, work)


def test_a_delta_that_overlaps_corrects_the_text(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        await store.write(put_session(), answered("s1", "i1", "", status="inProgress"))
        await store.write(events(delta("s1", 1, "i1", "hello wor", 0), delta("s1", 2, "i1", "there", 6)))
        assert store.open_items("s1")[0].text == "hello there"

    with_store(path, work)


def test_a_dropped_item_is_gone_with_its_deltas_and_cannot_be_found(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        await store.write(put_session(), said("s1", "i0", "findable"), answered("s1", "i1", "", status="inProgress"))
        await store.write(events(delta("s1", 1, "i1", "abc", 0)))
        await store.write(DropItem(session_id="s1", item_id="i0"), DropItem(session_id="s1", item_id="i1"))
        await store.write(DropItem(session_id="s1", item_id="never"))
        assert store.items("s1", limit=10).rows == ()
        assert store.open_items("s1") == ()
        assert store.events("s1", 0, 10) == ()
        assert store.search("findable", limit=10) == ()

    with_store(path, work)


@pytest.mark.parametrize(
    ("arguments", "expected", "cursor"),
    [
        ({}, [0, 1, 2], 2),
        ({"order": "desc"}, [9, 8, 7], 7),
        ({"before": 5}, [2, 3, 4], 2),
        ({"before": 5, "order": "desc"}, [4, 3, 2], 2),
        ({"before": 2}, [0, 1], None),
        ({"after": 5}, [6, 7, 8], 8),
        ({"after": 5, "order": "desc"}, [8, 7, 6], 8),
        ({"after": 6}, [7, 8, 9], None),
        ({"after": 2, "before": 8}, [3, 4, 5], 5),
        ({"after": 2, "before": 8, "order": "desc"}, [7, 6, 5], 5),
        ({"after": 9}, [], None),
        ({"before": 0}, [], None),
    ],
)
def test_a_page_holds_the_items_nearest_to_its_anchor(
    path: Path, arguments: dict[str, object], expected: list[int], cursor: int | None
) -> None:
    named = {key: f"i{value}" if isinstance(value, int) else value for key, value in arguments.items()}

    async def work(store: SqliteStore) -> Page:
        await store.write(put_session(), *(said("s1", f"i{n}", str(n)) for n in range(10)))
        return store.items("s1", limit=3, **named)  # type: ignore[arg-type]

    page = with_store(path, work)
    assert ids(page) == [f"i{n}" for n in expected]
    assert page.next_cursor == (None if cursor is None else f"i{cursor}")


def test_an_unknown_anchor_is_an_error_that_names_it(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        await store.write(put_session("s1"), put_session("s2"), said("s2", "i1", "x"))
        for anchor in ({"before": "i1"}, {"after": "i9"}):
            with pytest.raises(KeyError, match="i"):
                store.items("s1", limit=3, **anchor)

    with_store(path, work)
