"""The store against a model in memory: any sequence of operations, with the store opened anew in between."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_daemon.core.records import (
    AddMessage,
    CopySession,
    DeleteSession,
    DropItem,
    Op,
    PutBlob,
    RaiseCeiling,
    TruncateSession,
)
from hermes_daemon.store.failures import WriteRejected
from hermes_daemon.store.sqlite import SqliteStore
from tests.support.store_rows import answered, delta, event, events, message, open_store, put_session, session_row

NAMES = ("a", "b", "c")
COPIES = ("b", "d", "e")
ITEMS = ("i", "j", "k")


class Model:
    """What the contract says, in dictionaries."""

    def __init__(self) -> None:
        self.live: dict[str, dict[str, Any]] = {}
        self.dead: set[str] = set()

    def accepts(self, step: tuple[Any, ...]) -> bool:
        kind, name = step[0], step[1]
        if kind == "put":
            return name not in self.dead
        if kind == "delete":
            return name in self.live or name in self.dead
        if name not in self.live:
            return False
        if kind == "copy":
            known = step[2] in self.live or step[2] in self.dead
            return not known and (step[3] is None or step[3] in self.live[name]["items"])
        if kind == "truncate":
            return step[2] is None or step[2] in self.live[name]["items"]
        if kind == "blob":
            owner = next((n for n, s in self.live.items() if step[2] in s["blobs"]), name)
            return owner == name
        if kind == "events":
            return not any(seq in self.live[name]["events"] for seq in step[2])
        return True

    def do(self, step: tuple[Any, ...]) -> None:
        kind, name, *rest = step
        empty = {"title": "", "ceiling": 0, "messages": [], "items": {}, "events": {}, "blobs": {}}
        if kind == "put":
            session = self.live.setdefault(name, empty)
            session["title"], session["ceiling"] = rest[0], max(session["ceiling"], rest[1])
            return
        if kind == "delete":
            self.live.pop(name, None)
            self.dead.add(name)
            return
        session = self.live[name]
        if kind == "copy":
            target, last, count, tail = rest
            items = {n: i for n, i in upto(session["items"], last).items() if i[0] != "inProgress"}
            messages = [*session["messages"][:count], *tail]
            self.live[target] = empty | {"title": "copy", "ceiling": 5, "items": items, "messages": messages}
        elif kind == "truncate":
            last, count, tail = rest
            kept = upto(session["items"], last)
            gone = session["items"].keys() - kept.keys()
            session["events"] = {seq: item for seq, item in session["events"].items() if item not in gone}
            session["items"], session["messages"] = kept, [*session["messages"][:count], *tail]
        elif kind == "ceiling":
            session["ceiling"] = max(session["ceiling"], rest[0])
        elif kind == "message":
            session["messages"].append(rest[0])
        elif kind == "blob":
            session["blobs"][rest[0]] = session["blobs"].get(rest[0], b"") + rest[1]
        elif kind == "events":
            session["events"].update(dict.fromkeys(rest[0], rest[1]))
        else:  # item or drop
            if kind == "item":
                session["items"][rest[0]] = (rest[1], rest[2])
            else:
                session["items"].pop(rest[0], None)
            if kind == "drop" or rest[1] != "inProgress":
                session["events"] = {seq: item for seq, item in session["events"].items() if item != rest[0]}


def upto(items: dict[str, Any], last: str | None) -> dict[str, Any]:
    names = list(items)
    return {name: items[name] for name in names[: 0 if last is None else names.index(last) + 1]}


def operation(step: tuple[Any, ...]) -> Op:
    kind, name, *rest = step
    match kind:
        case "put":
            return put_session(name, title=rest[0], ceiling=rest[1])
        case "delete":
            return DeleteSession(session_id=name, at="2026-03-02T00:00:00.000Z")
        case "ceiling":
            return RaiseCeiling(session_id=name, ceiling=rest[0])
        case "copy":
            row, tail = session_row(rest[0], title="copy", ceiling=5), tuple(message(text) for text in rest[3])
            return CopySession(source=name, row=row, last_item=rest[1], messages=rest[2], tail=tail)
        case "truncate":
            tail = tuple(message(text) for text in rest[2])
            return TruncateSession(session_id=name, last_item=rest[0], messages=rest[1], tail=tail)
        case "message":
            return AddMessage(session_id=name, message=message(rest[0]))
        case "blob":
            return PutBlob(blob_id=rest[0], session_id=name, data=rest[1])
        case "events":
            return events(*(event(name, n) if rest[1] is None else delta(name, n, rest[1], "x", n) for n in rest[0]))
        case "item":
            return answered(name, rest[0], rest[2], status=rest[1])
        case _:
            return DropItem(session_id=name, item_id=rest[0])


last = st.none() | st.sampled_from(ITEMS)
count, tail = st.integers(0, 3), st.lists(st.sampled_from(["trimmed", "kept"]), max_size=2)
name, text = st.sampled_from(NAMES), st.text(st.characters(codec="utf-8"), max_size=8)
STEP = st.one_of(
    st.tuples(st.just("put"), name, text, st.integers(0, 9)),
    st.tuples(st.just("put"), name, text, st.integers(0, 9)),
    st.tuples(st.just("delete"), st.just("c")),
    st.tuples(st.just("ceiling"), name, st.integers(0, 20)),
    st.tuples(st.just("message"), name, text),
    st.tuples(st.just("blob"), name, st.sampled_from(["x", "y"]), st.binary(max_size=5)),
    st.tuples(
        st.just("events"), name, st.sets(st.integers(1, 30), min_size=1, max_size=4), st.sampled_from([None, *ITEMS])
    ),
    st.tuples(
        st.just("item"), name, st.sampled_from(ITEMS), st.sampled_from(["inProgress", "completed", "failed"]), text
    ),
    st.tuples(st.just("drop"), name, st.sampled_from(ITEMS)),
    st.tuples(st.just("copy"), name, st.sampled_from(COPIES), last, count, tail),
    st.tuples(st.just("truncate"), name, last, count, tail),
    st.tuples(st.just("reopen")),
)


def check(store: SqliteStore, model: Model) -> None:
    assert {row.session_id for row in store.sessions(limit=10).rows} == set(model.live)
    for dead in model.dead:
        row = store.session(dead)
        assert row is not None
        assert row.deleted_at is not None
    for session_id, expected in model.live.items():
        row = store.session(session_id)
        assert row is not None
        assert (row.title, row.ceiling) == (expected["title"], expected["ceiling"])
        assert [m.text for m in store.messages(session_id)] == expected["messages"]
        closed = [item_id for item_id, (status, _) in expected["items"].items() if status != "inProgress"]
        rows = store.items(session_id, limit=10).rows
        assert [row.item.item_id for row in rows] == closed
        assert [row.item.text for row in rows] == [expected["items"][item_id][1] for item_id in closed]
        open_ = [item_id for item_id in expected["items"] if item_id not in closed]
        assert [row.item.item_id for row in store.open_items(session_id)] == open_
        numbers = sorted(expected["events"])
        assert [event.seq for event in store.events(session_id, 0, 100)] == numbers
        assert store.event_range(session_id) == ((numbers[0], numbers[-1]) if numbers else (0, 0))
        for blob_id, data in expected["blobs"].items():
            assert store.blob(blob_id, 0, 1000) == (data, len(data))
        assert store.counts()["messages"] == sum(len(s["messages"]) for s in model.live.values())


@settings(max_examples=60, deadline=None)
@given(steps=st.lists(STEP, max_size=25))
def test_the_store_does_what_a_dictionary_would(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[Any, ...]]
) -> None:
    asyncio.run(_follow(tmp_path_factory.mktemp("model") / "state.db", steps))


async def _follow(path: Path, steps: list[tuple[Any, ...]]) -> None:
    model, store = Model(), open_store(path)
    for step in steps:
        if step == ("reopen",):
            await store.close()
            store = open_store(path)
            check(store, model)
        elif model.accepts(step):
            model.do(step)
            await store.write(operation(step), durable=False)
        else:
            with pytest.raises(WriteRejected):
                await store.write(operation(step), durable=False)
    check(store, model)
    await store.close()


@settings(max_examples=40, deadline=None)
@given(steps=st.lists(STEP.filter(lambda step: step != ("reopen",)), max_size=25))
def test_writes_that_are_in_flight_together_do_the_same_as_one_after_the_other(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[Any, ...]]
) -> None:
    async def follow() -> None:
        model, store = Model(), open_store(tmp_path_factory.mktemp("group") / "state.db")
        expected = []
        for step in steps:
            expected.append(model.accepts(step))
            if expected[-1]:
                model.do(step)
        results = await asyncio.gather(*(store.write(operation(step)) for step in steps), return_exceptions=True)
        assert [result is None for result in results] == expected
        check(store, model)
        await store.close()

    asyncio.run(follow())
