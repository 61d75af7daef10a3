"""The queue as clients change it: another input, another order, each change once and only on the queue they saw."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_daemon.engine.turn_queue import TurnQueue
from hermes_protocol.content import By, TextBlock
from hermes_protocol.errors import ProtocolError
from hermes_protocol.events import QueueEntry
from hermes_protocol.methods import QueueReorderParams
from tests.support.live import Peer, live
from tests.support.loops import run

HANG = "scripted/hang?text=thinking"


def block(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text}]


def words(result: dict[str, Any]) -> list[str]:
    return [entry["input"][0]["text"] for entry in result["queue"]]


async def queued(peer: Peer, home: str, *texts: str) -> tuple[str, list[str]]:
    """A busy session and the ids of what is queued in it."""
    session = await peer.session(home, model=HANG)
    await peer.submit(session, "running")
    ids = [(await peer.submit(session, text))["queueId"] for text in texts]
    return session, ids


def test_a_queued_input_can_be_changed_and_runs_as_changed(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            session, (one, two) = await queued(peer, str(tmp_path), "one", "two")
            before = await peer.request("hermes/queue/list", {"sessionId": session})
            update = {"sessionId": session, "queueId": one, "input": block("uno"), "expectQueueRev": before["queueRev"]}
            after = await peer.request("hermes/queue/update", update)
            assert (words(after), after["queueRev"]) == (["uno", "two"], before["queueRev"] + 1)
            assert after["queue"][0]["turnId"] == before["queue"][0]["turnId"]
            changed = await peer.event("queue.changed", queueRev=after["queueRev"])
            assert words(changed["data"]) == ["uno", "two"]
            error = await peer.refused("hermes/queue/update", update | {"input": block("eins")})
            assert (error["code"], error["data"]["queueRev"]) == (-32801, after["queueRev"])
            empty = {"sessionId": session, "queueId": two, "input": []}
            assert (await peer.refused("hermes/queue/update", empty))["data"]["path"] == "$.input"
            change = {"sessionId": session, "id": "model", "value": "scripted/echo"}
            await peer.request("hermes/session/setOption", change)
            await peer.request("hermes/turn/interrupt", {"sessionId": session})
            await peer.request("hermes/session/wait", {"sessionId": session, "until": "idle"})
            page = await peer.request("hermes/session/items", {"sessionId": session})
            said = [item["text"] for item in page["items"] if item["type"] == "userMessage"]
            assert said == ["running", "uno", "two"]

    run(story())


def test_the_order_can_be_changed_and_what_is_not_named_stays_behind(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            session, ids = await queued(peer, str(tmp_path), "a", "b", "c", "d")
            order = {"sessionId": session, "order": [ids[3], ids[1]]}
            after = await peer.request("hermes/queue/reorder", order)
            assert words(after) == ["d", "b", "a", "c"]
            stale = order | {"expectQueueRev": after["queueRev"] - 1}
            assert (await peer.refused("hermes/queue/reorder", stale))["code"] == -32801
            twice = {"sessionId": session, "order": [ids[0], ids[0]]}
            assert (await peer.refused("hermes/queue/reorder", twice))["data"]["path"] == "$.order[1]"
            unknown = await peer.refused("hermes/queue/reorder", {"sessionId": session, "order": [ids[0], "queue_x"]})
            assert (unknown["code"], unknown["data"]["kind"]) == (-32042, "queue_not_found")
            assert unknown["data"]["queueId"] == "queue_x"
            assert words(await peer.request("hermes/queue/list", {"sessionId": session})) == ["d", "b", "a", "c"]

    run(story())


@pytest.mark.parametrize("method", ["update", "reorder", "remove"])
def test_a_steer_in_the_hands_of_the_turn_is_no_longer_the_queues(tmp_path: Path, method: str) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            session, _ = await queued(peer, str(tmp_path))
            await peer.event("item.delta")
            steer = (await peer.submit(session, "steer", whenBusy="steer"))["queueId"]
            more = {"update": {"queueId": steer, "input": block("x")}, "reorder": {"order": [steer]},
                    "remove": {"queueId": steer}}  # fmt: skip
            error = await peer.refused(f"hermes/queue/{method}", {"sessionId": session, **more[method]})
            assert error["data"]["kind"] == "queue_not_found"
            assert "steers the running turn" in error["message"]

    run(story())


def test_every_change_with_its_key_is_made_once_also_over_a_restart(tmp_path: Path) -> None:
    async def story() -> None:
        home = str(tmp_path)
        async with live(home) as daemon:
            peer = await daemon.peer()
            session, ids = await queued(peer, home, "a", "b", "c")
            changes = {
                "hermes/queue/update": {"sessionId": session, "queueId": ids[0], "input": block("A"), "key": "k"},
                "hermes/queue/reorder": {"sessionId": session, "order": [ids[2]], "key": "k"},
                "hermes/queue/remove": {"sessionId": session, "queueId": ids[1], "key": "k"},
                "hermes/turn/interrupt": {"sessionId": session, "queue": "pause", "key": "k"},
                "hermes/queue/resume": {"sessionId": session, "key": "k"},
            }
            first = {}
            for method, params in changes.items():
                calls = [peer.call(method, params) for _ in range(3)]
                results = [(await peer.answer(call))["result"] for call in calls]
                assert results == [results[0]] * 3
                first[method] = results[0]
            assert words(first["hermes/queue/remove"]) == ["c", "A"]
        async with live(home) as daemon:
            peer = await daemon.peer()
            for method, params in changes.items():
                assert await peer.request(method, params) == first[method]
            other = changes["hermes/queue/reorder"] | {"order": []}
            assert (await peer.refused("hermes/queue/reorder", other))["code"] == -32047

    run(story())


@pytest.mark.parametrize(
    ("method", "more"),
    [
        ("hermes/turn/steer", {"turnId": "t", "input": block("x"), "key": "k"}),
        ("hermes/queue/update", {"queueId": "q", "input": block("x")}),
        ("hermes/queue/reorder", {"order": []}),
        ("hermes/queue/remove", {"queueId": "q"}),
        ("hermes/queue/resume", {}),
    ],
)
def test_an_observer_changes_nothing(tmp_path: Path, method: str, more: dict[str, Any]) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            observer = await daemon.peer("o", client={"id": "o", "name": "o", "role": "observer"})
            session = await peer.session(str(tmp_path))
            error = await observer.refused(method, {"sessionId": session, **more})
            assert error["data"]["kind"] == "permission_denied"

    run(story())


@settings(max_examples=200)
@given(st.integers(0, 6), st.data())
def test_a_new_order_loses_and_doubles_nothing(count: int, data: st.DataObject) -> None:
    queue = TurnQueue("s", None)
    queue.entries = tuple(
        QueueEntry(f"q{n}", f"t{n}", (TextBlock(f"{n}"),), By("c"), data.draw(st.sampled_from(["turn", "steer"])))
        for n in range(count)
    )
    order = tuple(data.draw(st.lists(st.sampled_from([f"q{n}" for n in range(count + 1)]), max_size=count + 1)))
    turns = {entry.queue_id for entry in queue.entries if entry.kind == "turn"}
    if len(set(order)) < len(order) or not set(order) <= turns:
        with pytest.raises(ProtocolError) as caught:
            queue.reordered(QueueReorderParams("s", order))
        assert caught.value.kind in ("queue_not_found", "invalid_params")
        return
    ids = [entry.queue_id for entry in queue.reordered(QueueReorderParams("s", order))]
    rest = [entry.queue_id for entry in queue.entries if entry.queue_id not in order]
    assert ids == [*order, *rest]
