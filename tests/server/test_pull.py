"""hermes/session/events: the journal in pages, for clients that ask instead of listening."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import msgspec

from hermes_client import view as views
from hermes_protocol.events import Event
from tests.support.folding import Follower, comparable
from tests.support.live import Peer, live
from tests.support.loops import run
from tests.support.shared_data import case


async def pull(peer: Peer, session: str, epoch: str, after: int, **params: Any) -> dict[str, Any]:
    call = {"sessionId": session, "epoch": epoch, "after": after, **params}
    result: dict[str, Any] = await peer.request("hermes/session/events", call)
    return result


async def pulled(peer: Peer, session: str, epoch: str, **params: Any) -> tuple[list[dict[str, Any]], int]:
    """Every event, page by page, and the number of pages."""
    found: list[dict[str, Any]] = []
    pages, last, truncated = 0, 0, True
    while truncated:
        page = await pull(peer, session, epoch, last, **params)
        for event in page["events"]:
            assert event["prev"] == last < event["seq"]
            last = event["seq"]
        found += page["events"]
        truncated, pages = page.get("truncated", False), pages + 1
    assert last == page["head"]
    return found, pages


def test_pulled_events_are_those_that_a_subscriber_gets(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path), model="scripted/words?n=50")
            epoch = (await peer.request("hermes/session/get", {"sessionId": session}))["epoch"]
            for text in ("one", "two"):
                await peer.say(session, text)
            for limit in (1, 3, 500):
                found, pages = await pulled(peer, session, epoch, limit=limit)
                assert pages == max(1, -(-len(found) // limit))
                view = views.empty(session)
                for row in found:
                    view = views.apply(view, msgspec.json.decode(msgspec.json.encode(row), type=Event))
                follower = Follower(await daemon.peer(f"f{limit}"), session)
                await follower.subscribe()
                assert comparable(view) == comparable(follower.view)

    run(story())


def test_the_words_of_a_turn_that_runs_are_pulled_as_they_come(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path), model="scripted/words?n=100000")
            epoch = (await peer.request("hermes/session/get", {"sessionId": session}))["epoch"]
            await peer.submit(session, "go")
            while " word9" not in (await peer.event("item.delta"))["data"]["text"]:
                pass
            found, _ = await pulled(peer, session, epoch)
            text = "".join(event["data"]["text"] for event in found if event["kind"] == "item.delta")
            assert text.split()[:10] == [f"word{number}" for number in range(10)]
            await peer.request("hermes/turn/interrupt", {"sessionId": session})

    run(story())


def test_no_page_is_longer_than_a_frame_and_a_long_event_is_cut_to_fit(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            owner, peer = await daemon.peer("owner"), await daemon.peer("small", capabilities={"maxFrameBytes": 65_536})
            session = await owner.session(str(tmp_path), model="scripted/words?n=1&context=900000000")
            epoch = (await owner.request("hermes/session/get", {"sessionId": session}))["epoch"]
            for size in (12_000, 200_000, 9_000, 9_000):
                await owner.say(session, "x" * size)
            found, pages = await pulled(peer, session, epoch)
            assert pages > 4
            assert all(len(msgspec.json.encode(frame)) <= 65_536 for frame in peer.order)
            done = [event["data"]["item"] for event in found if event["kind"] == "item.completed"]
            texts = [item["text"] for item in done if item["type"] == "userMessage"]
            assert [len(text) for text in texts][::2] == [12_000, 9_000]
            assert "characters left out" in texts[1]

    run(story())


def test_a_gap_is_told_and_numbers_go_on_over_a_restart(tmp_path: Path) -> None:
    """Handed case rpc/replay-gap-told."""
    case("rpc", "replay-gap-told")

    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path))
            epoch = (await peer.request("hermes/session/get", {"sessionId": session}))["epoch"]
            for number in range(5):
                ended = await peer.say(session, f"{number}")
            head = ended["seq"]
        connection = sqlite3.connect(tmp_path / "state.db")
        connection.execute("DELETE FROM events WHERE seq < ?", (head - 1,))
        connection.commit()
        connection.close()
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            call = {"sessionId": session, "epoch": epoch}
            for wrong in ({"after": 1}, {"after": head + 5000}, {"after": -1}, {"after": head, "epoch": "another"}):
                refused = await peer.refused("hermes/session/events", call | wrong)
                assert (refused["code"], refused["data"]["kind"]) == (-32054, "replay_truncated")
                assert (refused["data"]["oldest"], refused["data"]["epoch"]) == (head - 1, epoch)
            assert (await pull(peer, session, epoch, head - 2))["events"][0]["seq"] == head - 1
            assert (await pull(peer, session, epoch, head))["events"] == []
            follower = Follower(peer, session)
            result = await follower.subscribe(since=(epoch, 1))
            assert (result["mode"], len(follower.view.items)) == ("snapshot", 10)
            assert (await peer.say(session, "on"))["seq"] > head

    run(story())
