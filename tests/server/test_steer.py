"""hermes/turn/steer: bound to a turn, taken at the next model call, never lost, never given to another turn."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hermes_daemon.core.ports import ToolContext, ToolOutcome
from tests.support.live import Peer, TestTool, live
from tests.support.loops import on_every_loop, run

HANG = "scripted/hang?text=thinking"


def steering(session: str, turn: str, text: str, key: str = "", **more: Any) -> dict[str, Any]:
    block = [{"type": "text", "text": text}]
    return {"sessionId": session, "turnId": turn, "input": block, "key": key or f"key of {text}", **more}


async def texts(peer: Peer, session: str) -> list[str]:
    page = await peer.request("hermes/session/items", {"sessionId": session, "limit": 1000})
    return [item["text"] for item in page["items"] if item["type"] == "userMessage"]


def test_a_steer_is_taken_by_the_turn_at_its_next_model_call(tmp_path: Path) -> None:
    released = asyncio.Event()

    async def look(args: dict[str, Any], ctx: ToolContext) -> ToolOutcome:
        await released.wait()
        return ToolOutcome("looked")

    async def story() -> None:
        async with live(str(tmp_path), tools=[TestTool("look", look, read_only=True)]) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path), model="scripted/tool?name=look")
            turn = (await peer.submit(session, "go"))["turnId"]
            result = await peer.request("hermes/turn/steer", steering(session, turn, "also this"))
            assert (result["status"], "duplicate" in result) == ("accepted", False)
            queued = await peer.event("queue.changed")
            assert (queued["seq"], queued["data"]["queue"][0]["kind"]) == (result["seq"], "steer")
            released.set()
            steered = await peer.event("turn.steered")
            assert (steered["turnId"], steered["data"]["queueId"]) == (turn, result["queueId"])
            assert (await peer.event("turn.ended"))["turnId"] == turn
            assert await texts(peer, session) == ["go", "also this"]

    run(story())


def test_a_steer_for_another_turn_is_refused_and_names_the_one_that_runs(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path))
            first = (await peer.submit(session, "one"))["turnId"]
            await peer.event("turn.ended")
            late = steering(session, first, "late", key="k")
            error = await peer.refused("hermes/turn/steer", late)
            assert (error["code"], error["data"]["activeTurnId"]) == (-32045, None)
            change = {"sessionId": session, "id": "model", "value": HANG}
            await peer.request("hermes/session/setOption", change)
            second = (await peer.submit(session, "two"))["turnId"]
            error = await peer.refused("hermes/turn/steer", late)
            assert (error["code"], error["data"]["activeTurnId"]) == (-32045, second)
            # It was refused, so its key is free.
            assert (await peer.request("hermes/turn/steer", late | {"turnId": second}))["status"] == "accepted"

    run(story())


def test_a_steer_that_comes_too_late_is_queued_at_the_head_as_a_turn_of_its_own(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path), model=HANG)
            turn = (await peer.submit(session, "one"))["turnId"]
            await peer.submit(session, "queued")
            steer = await peer.request("hermes/turn/steer", steering(session, turn, "steer"))
            change = {"sessionId": session, "id": "model", "value": "scripted/echo"}
            await peer.request("hermes/session/setOption", change)
            await peer.request("hermes/turn/interrupt", {"sessionId": session, "turnId": turn})
            requeued = await peer.event("turn.steerRequeued")
            ended = await peer.event("turn.ended")
            assert requeued["seq"] < ended["seq"]
            assert (requeued["turnId"], requeued["data"]["queueId"]) == (turn, steer["queueId"])
            await peer.event("turn.started")
            started = await peer.event("turn.started")
            assert started["turnId"] == requeued["data"]["newTurnId"] != turn
            await peer.request("hermes/session/wait", {"sessionId": session, "until": "idle"})
            assert await texts(peer, session) == ["one", "steer", "queued"]

    run(story())


def test_a_steer_with_its_key_again_is_the_first_steer_also_after_a_restart(tmp_path: Path) -> None:
    async def story() -> None:
        home = str(tmp_path)
        async with live(home) as daemon:
            peer = await daemon.peer()
            session = await peer.session(home, model=HANG)
            turn = (await peer.submit(session, "one"))["turnId"]
            params = steering(session, turn, "once", key="k")
            calls = [peer.call("hermes/turn/steer", params) for _ in range(5)]
            results = [(await peer.answer(call))["result"] for call in calls]
            assert {(row["queueId"], row["seq"]) for row in results} == {(results[0]["queueId"], results[0]["seq"])}
            assert [row.get("duplicate", False) for row in results] == [False, True, True, True, True]
            queue = await peer.request("hermes/queue/list", {"sessionId": session})
            assert len(queue["queue"]) == 1
        async with live(home) as daemon:
            peer = await daemon.peer()
            assert (await peer.request("hermes/turn/steer", params))["queueId"] == results[0]["queueId"]
            error = await peer.refused("hermes/turn/steer", steering(session, turn, "other", key="k"))
            assert (error["code"], error["data"]["receipt"]["queueId"]) == (-32047, results[0]["queueId"])

    run(story())


@on_every_loop
def test_wherever_the_turn_stands_a_steer_is_in_it_or_behind_it_or_refused(tmp_path: Path, loop: str) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path))
            expected = []
            for breaths in range(60):
                turn = (await peer.submit(session, f"message {breaths}"))["turnId"]
                expected.append(f"message {breaths}")
                for _ in range(breaths):
                    await asyncio.sleep(0)
                call = peer.call("hermes/turn/steer", steering(session, turn, f"steer {breaths}"))
                frame = await peer.answer(call)
                if "result" in frame:
                    expected.append(f"steer {breaths}")
                else:
                    assert frame["error"]["code"] == -32045
                while not (await peer.request("hermes/session/wait", {"sessionId": session, "until": "idle"}))[
                    "reached"
                ]:
                    pass
            assert await texts(peer, session) == expected
            assert (await peer.request("hermes/queue/list", {"sessionId": session}))["queue"] == []

    run(story(), loop)


@pytest.mark.parametrize("field", ["input", "turnId", "key"])
def test_a_steer_without_what_it_needs_names_the_field(tmp_path: Path, field: str) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path), model=HANG)
            turn = (await peer.submit(session, "one"))["turnId"]
            params = steering(session, turn, "x")
            params[field] = [] if field == "input" else None
            error = await peer.refused("hermes/turn/steer", params)
            assert error["code"] == -32602
            assert field in error["data"]["path"]

    run(story())


# --- provenance ---


def test_agents_may_set_each_other_going_three_deep_and_no_deeper(tmp_path: Path) -> None:
    depths: list[str] = []

    async def look(args: dict[str, Any], ctx: ToolContext) -> ToolOutcome:
        depths.append(ctx.env["HERMES_AGENT_DEPTH"])
        return ToolOutcome("looked")

    async def story() -> None:
        async with live(str(tmp_path), tools=[TestTool("look", look, read_only=True)]) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path), model="scripted/tool?name=look")
            for depth in (0, 1, 3):
                await peer.say(session, f"depth {depth}", depth=depth)
            assert depths == ["1", "2", "4"]
            page = await peer.request("hermes/session/items", {"sessionId": session})
            by = [item["by"] for item in page["items"] if item["type"] == "userMessage"]
            assert [one.get("depth", 0) for one in by] == [0, 1, 3]
            said = {"sessionId": session, "input": [{"type": "text", "text": "x"}], "key": "deep", "depth": 4}
            error = await peer.refused("hermes/turn/submit", said)
            assert (error["code"], error["data"]["limit"]) == (-32048, 3)
            assert (await peer.refused("hermes/turn/submit", said | {"depth": -1}))["code"] == -32048
            assert await texts(peer, session) == ["depth 0", "depth 1", "depth 3"]
            assert (await peer.request("hermes/turn/submit", said | {"depth": 0}))["disposition"] == "started"

    run(story())


def test_a_steer_of_an_agent_makes_the_turn_as_deep_as_the_steer(tmp_path: Path) -> None:
    depths: list[str] = []
    released = asyncio.Event()

    async def look(args: dict[str, Any], ctx: ToolContext) -> ToolOutcome:
        depths.append(ctx.env["HERMES_AGENT_DEPTH"])
        await released.wait()
        return ToolOutcome("looked")

    async def story() -> None:
        async with live(str(tmp_path), tools=[TestTool("look", look, read_only=True)]) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path), model="scripted/tool?name=look&rounds=2")
            turn = (await peer.submit(session, "go"))["turnId"]
            while not depths:
                await peer.request("hermes/daemon/ping")
            await peer.request("hermes/turn/steer", steering(session, turn, "more", depth=2))
            released.set()
            await peer.event("turn.ended")
            assert depths[0] == "1"
            assert depths[1:]
            assert set(depths[1:]) == {"3"}

    run(story())
