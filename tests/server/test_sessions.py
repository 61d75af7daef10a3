"""hermes/session/*: revisions, names, archive, tombstones, and pages that hold while sessions change."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_daemon.core.records import PutItem
from hermes_protocol.events import AgentMessage
from hermes_protocol.methods import METHODS
from tests.support.folding import Follower
from tests.support.live import Peer, live
from tests.support.loops import run

AT = "2026-03-01T12:00:00.000Z"


async def state(peer: Peer, session: str) -> dict[str, Any]:
    found: dict[str, Any] = await peer.request("hermes/session/get", {"sessionId": session})
    return found


async def listed(peer: Peer, **params: Any) -> list[str]:
    """The ids of all pages."""
    found: list[str] = []
    while True:
        page = await peer.request("hermes/session/list", params)
        found += [row["sessionId"] for row in page["sessions"]]
        if page.get("nextCursor") is None:
            return found
        params["cursor"] = page["nextCursor"]


# --- options, names, archive ---


def test_an_option_is_set_for_everybody_and_raises_the_revision(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer, other = await daemon.peer(), await daemon.peer("other")
            session = await peer.session(str(tmp_path))
            await other.request("hermes/session/subscribe", {"sessionId": session})
            call = {"sessionId": session, "id": "thinking", "value": "high", "expectRev": 0}
            result = await peer.request("hermes/session/setOption", call)
            assert (result["options"]["thinking"], result["rev"]) == ("high", 1)
            told = await other.event("session.option")
            assert (told["seq"], told["data"]["value"], told["data"]["by"]["name"]) == (result["seq"], "high", "test")
            stale = await other.refused("hermes/session/setOption", call | {"value": "low"})
            assert (stale["code"], stale["data"]["kind"], stale["data"]["rev"]) == (-32801, "stale_revision", 1)
            gone = await other.request("hermes/session/setOption", call | {"value": None, "expectRev": 1})
            assert ("thinking" in gone["options"], gone["rev"]) == (False, 2)
            anyhow = await other.request("hermes/session/setOption", {**call, "expectRev": None, "value": "low"})
            assert anyhow["rev"] == 3
            known = await state(peer, session)
            assert (known["options"]["thinking"], known["session"]["rev"]) == ("low", 3)

    run(story())


@pytest.mark.parametrize(
    ("id", "value", "path"),
    [("colour", "red", "$.id"), ("mode", "loud", "$.value"), ("toolsets", 3, "$.value"), ("model", "no/such", None)],
)
def test_an_option_that_does_not_fit_is_refused_by_name_and_changes_nothing(
    tmp_path: Path, id: str, value: Any, path: str | None
) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path))
            error = await peer.refused("hermes/session/setOption", {"sessionId": session, "id": id, "value": value})
            assert (error["code"], error["data"].get("path")) == (-32602, path)
            assert (await state(peer, session))["session"]["rev"] == 0

    run(story())


def test_a_repeated_option_is_answered_as_the_first_and_set_once(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path))
            call = {"sessionId": session, "id": "thinking", "value": "high", "expectRev": 0, "key": "once"}
            first = await peer.request("hermes/session/setOption", call)
            assert await peer.request("hermes/session/setOption", call) == first
            assert (await peer.refused("hermes/session/setOption", call | {"value": "low"}))["code"] == -32047
            assert (await state(peer, session))["session"]["rev"] == 1

    run(story())


def test_a_name_is_told_to_everybody_and_needs_the_revision_that_was_seen(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer, other = await daemon.peer(), await daemon.peer("other")
            session = await peer.session(str(tmp_path))
            await other.request("hermes/session/subscribe", {"sessionId": session})
            call = {"sessionId": session, "title": "  My work ", "expectRev": 0}
            assert (await peer.request("hermes/session/rename", call))["session"]["title"] == "My work"
            assert (await other.event("session.updated"))["data"]["session"]["title"] == "My work"
            stale = await other.refused("hermes/session/rename", call)
            assert (stale["code"], stale["data"]["rev"]) == (-32801, 1)
            await peer.say(session, "a first message names no session that has a name")
            assert (await state(peer, session))["session"]["title"] == "My work"

    run(story())


def test_an_archived_session_is_listed_only_when_asked_for_and_lives_on(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            one, two = await peer.session(str(tmp_path)), await peer.session(str(tmp_path))
            before = (await state(peer, one))["session"]
            call = {"sessionId": one, "key": "once"}
            archived = (await peer.request("hermes/session/archive", call))["session"]
            assert archived == before | {"archived": True}  # neither its place nor its revision changes
            assert (await peer.event("session.updated"))["data"]["session"]["archived"]
            assert await listed(peer) == await listed(peer, archived=False) == [two]
            assert await listed(peer, archived=True) == [one]
            await peer.say(one, "still there")
            assert await listed(peer, archived=True) == [one]
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            assert (await peer.request("hermes/session/archive", call))["session"] == archived
            await peer.request("hermes/session/archive", {"sessionId": one, "archived": False})
            assert await listed(peer) == [one, two]
            assert await listed(peer, archived=True) == []

    run(story())


# --- tombstones ---

FITTING: dict[str, Any] = {
    "input": [{"type": "text", "text": "x"}], "key": "k", "id": "thinking", "value": None, "until": "idle",
    "title": "t", "toItemId": "i", "expectRev": 0, "epoch": "e", "after": 0, "turnId": "t", "queueId": "q",
    "order": ["q"], "data": "x", "requestId": "r", "name": "n", "queries": ["q"], "tools": [],
}  # fmt: skip


def test_every_method_says_that_a_session_was_deleted(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path))
            await peer.say(session, "hello")
            await peer.request("hermes/session/delete", {"sessionId": session})
            asked = 0
            for name, method in METHODS.items():
                fields = {field.encode_name: field.required for field in msgspec.structs.fields(method.params)}
                if "sessionId" not in fields or name == "hermes/session/unsubscribe":
                    continue
                params = {field: FITTING[field] for field, required in fields.items()
                          if required and field != "sessionId"}  # fmt: skip
                error = await peer.refused(name, {"sessionId": session, **params})
                assert (name, error["code"], error["data"]["kind"]) == (name, -32041, "session_deleted")
                asked += 1
            assert asked >= 15
            await peer.request("hermes/session/unsubscribe", {"sessionId": session})
            again = await peer.refused("hermes/session/unsubscribe", {"sessionId": session})
            assert again["code"] == -32041

    run(story())


def test_a_deleted_id_stays_deleted_over_a_restart_and_its_content_is_gone(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path))
            await peer.say(session, "heliotrope")
            await peer.request("hermes/session/delete", {"sessionId": session})
            assert (await peer.request("hermes/session/search", {"query": "heliotrope"}))["hits"] == []
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            assert (await peer.refused("hermes/session/get", {"sessionId": session}))["code"] == -32041
            assert await listed(peer) == []

    run(story())


def test_subscribers_are_told_of_a_deletion_the_ones_that_are_behind_too(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer, other = await daemon.peer("deleter"), await daemon.peer("other")
            slow = await daemon.peer("slow", small_buffer=True)
            session = await peer.session(str(tmp_path), model="scripted/words?n=1&context=900000000")
            for _ in range(4):
                await peer.say(session, "x" * 290_000)
            follower = Follower(other, session)
            await follower.subscribe(detail="status")
            epoch = (await state(peer, session))["epoch"]
            behind = Follower(slow, session)
            await behind.subscribe(since=(epoch, 0))
            await peer.request("hermes/session/delete", {"sessionId": session})
            told = await other.event("session.deleted")
            assert told["data"]["by"]["name"] == "deleter"
            follower.catch_up()
            assert follower.kinds[-1] == "session.deleted"
            await slow.event("session.deleted")
            behind.catch_up()
            assert behind.kinds[-1] == "session.deleted"

    run(story())


def test_who_lists_sessions_is_told_of_a_deleted_one(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            lister = await daemon.peer("lister", capabilities={"events": {"sessions": True}})
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path))
            await peer.say(session, "hello")
            await peer.request("hermes/session/delete", {"sessionId": session})
            while not (told := await lister.note("hermes/session/changed")).get("deleted"):
                assert told["sessionId"] == session
            assert (told["sessionId"], told["summary"]["title"]) == (session, "hello")

    run(story())


# --- pages ---


def test_a_list_holds_while_sessions_move_appear_and_go(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            made = [await peer.session(str(tmp_path)) for _ in range(9)]
            first = await peer.request("hermes/session/list", {"limit": 3})
            seen = [row["sessionId"] for row in first["sessions"]]
            # Sessions of one millisecond stand in an order of their own.
            waiting = [session for session in await listed(peer, limit=50) if session not in seen]
            assert sorted((*seen, *waiting)) == sorted(made)
            await peer.say(waiting[0], "this moves to the front")
            await peer.request("hermes/session/delete", {"sessionId": waiting[1]})
            await peer.session(str(tmp_path))
            rest = await listed(peer, limit=2, cursor=first["nextCursor"])
            assert rest == waiting[2:]
            error = await peer.refused("hermes/session/list", {"cursor": "no cursor"})
            assert (error["code"], error["data"]["path"]) == (-32602, "$.cursor")

    run(story())


@settings(max_examples=12, deadline=None)
@given(data=st.data(), count=st.integers(0, 12), opened=st.sets(st.integers(0, 11), max_size=3))
def test_pages_of_items_are_slices_of_them_in_every_order(data: Any, count: int, opened: set[int]) -> None:
    with tempfile.TemporaryDirectory() as home:
        run(_paging(home, data, count, opened))


async def _paging(home: str, data: Any, count: int, opened: set[int]) -> None:
    async with live(home) as daemon:
        peer = await daemon.peer()
        created = await peer.request("hermes/session/create", {"cwd": home})
        session = created["session"]["sessionId"]
        everything = [f"i{number}" for number in range(count)]
        for number, name in enumerate(everything):
            status: Any = "inProgress" if number in opened else "completed"
            item = AgentMessage(item_id=name, status=status, created_at=AT, text=name, model="m")
            await daemon.room.parts.store.write(PutItem(session_id=session, item=item))
        for _ in range(8):
            anchor = st.none() | st.sampled_from(everything) if everything else st.none()
            before, after = data.draw(anchor), data.draw(anchor)
            order, limit = data.draw(st.sampled_from(["asc", "desc"])), data.draw(st.integers(1, 5))
            low = everything.index(after) + 1 if after else 0
            high = everything.index(before) if before else count
            wanted = [name for number, name in enumerate(everything) if low <= number < high and number not in opened]
            backwards = order == "desc" if (before is None) == (after is None) else before is not None
            near = wanted[::-1] if backwards else wanted
            got: list[str] = []
            params = {"sessionId": session, "limit": limit, "order": order, "before": before, "after": after}
            while True:
                page = await peer.request("hermes/session/items", params)
                names = [item["itemId"] for item in page["items"]]
                shown = names if (order == "desc") == backwards else names[::-1]
                got += shown
                assert len(shown) <= limit
                cursor = page.get("nextCursor")
                if cursor is None:
                    break
                assert cursor == shown[-1]
                params |= {"before" if backwards else "after": cursor}
            assert got == near
        unknown = await peer.refused("hermes/session/items", {"sessionId": session, "before": "none"})
        assert (unknown["code"], unknown["data"]["kind"]) == (-32042, "item_not_found")
