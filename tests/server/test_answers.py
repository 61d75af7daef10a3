"""Questions to people (protocol section 8): the first valid answer wins, and everybody hears it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hermes_daemon.core.ports import ToolContext, ToolOutcome
from tests.support.live import Peer, TestTool, live
from tests.support.loops import on_every_loop, run

ASKING = 'scripted/tool?name=write&args={"text":"x"}'


async def write(args: dict[str, Any], ctx: ToolContext) -> ToolOutcome:
    return ToolOutcome("done")


def tools() -> list[TestTool]:
    return [TestTool("write", write)]


def allow(request_id: str, option: str = "allow_once", **more: Any) -> dict[str, Any]:
    return {"requestId": request_id, "answer": {"optionId": option}, **more}


async def asked(peer: Peer, session: str) -> str:
    """Submit, and the id of the question that follows."""
    await peer.submit(session, "go")
    opened = await peer.event("request.opened")
    request_id: str = opened["data"]["requestId"]
    return request_id


@on_every_loop
def test_two_clients_answer_one_question_a_thousand_times(tmp_path: Path, loop: str) -> None:
    """Acceptance check 6: one is accepted, the other told who was first, and both hear the same resolution."""
    rounds = 500  # on each loop

    async def story() -> None:
        async with live(str(tmp_path), tools=tools()) as daemon:
            one, two = await daemon.peer("one"), await daemon.peer("two")
            session = await one.session(str(tmp_path), model=ASKING)
            await two.request("hermes/session/subscribe", {"sessionId": session})
            for number in range(rounds):
                request_id = await asked(one, session)
                await two.event("request.opened")
                first, second = (one, two) if number % 2 else (two, one)
                calls = [
                    (first, first.call("hermes/request/answer", allow(request_id))),
                    (second, second.call("hermes/request/answer", allow(request_id, "deny"))),
                ]
                answers = [await peer.answer(call) for peer, call in calls]
                accepted = [answer["result"] for answer in answers if "result" in answer]
                refused = [answer["error"] for answer in answers if "error" in answer]
                assert (len(accepted), [error["code"] for error in refused]) == (1, [-32046])
                resolved = [await peer.event("request.resolved") for peer in (one, two)]
                assert resolved[0]["data"] == resolved[1]["data"]
                assert resolved[0]["data"]["outcome"] == accepted[0]["outcome"] == refused[0]["data"]["outcome"]
                assert resolved[0]["data"]["by"] == refused[0]["data"]["by"]
                assert resolved[0]["seq"] == accepted[0]["seq"]
                await one.event("turn.ended")
                for peer in (one, two):
                    peer.events.clear()
                    peer.order.clear()

    run(story(), loop)


@pytest.mark.parametrize(
    ("answer", "path"),
    [
        ({}, "$.answer.optionId"),
        ({"optionId": "yes please"}, "$.answer.optionId"),
        ({"optionId": 5}, "$.answer.optionId"),
        ({"value": "secret"}, "$.answer.optionId"),
    ],
)
def test_a_malformed_answer_leaves_the_question_open(tmp_path: Path, answer: dict[str, Any], path: str) -> None:
    async def story() -> None:
        async with live(str(tmp_path), tools=tools()) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path), model=ASKING)
            request_id = await asked(peer, session)
            error = await peer.refused("hermes/request/answer", {"requestId": request_id, "answer": answer})
            assert (error["code"], error["data"]["path"]) == (-32602, path)
            assert len((await peer.request("hermes/request/list"))["requests"]) == 1
            await peer.request("hermes/request/answer", allow(request_id))
            assert (await peer.event("turn.ended"))["data"]["status"] == "completed"

    run(story())


def test_who_is_not_subscribed_may_not_answer(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path), tools=tools()) as daemon:
            peer, stranger = await daemon.peer(), await daemon.peer("stranger")
            session = await peer.session(str(tmp_path), model=ASKING)
            request_id = await asked(peer, session)
            error = await stranger.refused("hermes/request/answer", allow(request_id))
            assert error["data"]["kind"] == "not_subscribed"
            error = await peer.refused("hermes/request/answer", allow("req_none"))
            assert error["data"]["kind"] == "request_not_found"

    run(story())


def test_when_everyone_declined_the_policy_denies(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path), tools=tools()) as daemon:
            one, two = await daemon.peer("one"), await daemon.peer("two")
            session = await one.session(str(tmp_path), model=ASKING)
            await two.request("hermes/session/subscribe", {"sessionId": session})
            request_id = await asked(one, session)
            decline = {"requestId": request_id, "answer": {"decline": True}}
            assert (await one.request("hermes/request/answer", decline))["outcome"] == "declined"
            assert len((await one.request("hermes/request/list"))["requests"]) == 1
            assert (await two.request("hermes/request/answer", decline))["outcome"] == "policy"
            assert (await one.event("request.resolved"))["data"]["outcome"] == "policy"
            await one.event("turn.ended")
            items = (await one.request("hermes/session/items", {"sessionId": session}))["items"]
            assert "Nobody is there who could allow this" in next(i for i in items if i["type"] == "toolCall")["error"]

    run(story())


@on_every_loop
def test_an_answer_whose_sender_is_gone_at_once_still_counts(tmp_path: Path, loop: str) -> None:
    async def story() -> None:
        async with live(str(tmp_path), tools=tools()) as daemon:
            watcher = await daemon.peer("watcher", capabilities={"requests": []})
            session = await watcher.session(str(tmp_path), model=ASKING)
            for _ in range(20):
                hasty = await daemon.peer("hasty")
                await hasty.request("hermes/session/subscribe", {"sessionId": session})
                request_id = await asked(watcher, session)
                hasty.call("hermes/request/answer", allow(request_id))
                await hasty.writer.drain()
                hasty.close()
                assert (await watcher.event("turn.ended"))["data"]["status"] == "completed"

    run(story(), loop)


def test_an_answer_that_is_cancelled_half_way_does_not_hang_the_turn(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path), tools=tools()) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path), model=ASKING)
            for _ in range(20):
                request_id = await asked(peer, session)
                answering = peer.call("hermes/request/answer", allow(request_id))
                peer.send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": answering}})
                if "error" in await peer.answer(answering):
                    # Cancelled before or after it was taken: asking again must settle it either way.
                    await peer.answer(peer.call("hermes/request/answer", allow(request_id)))
                assert (await peer.event("turn.ended"))["data"]["status"] == "completed"

    run(story())


def test_the_same_answer_again_gets_the_first_receipt(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path), tools=tools()) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path), model=ASKING)
            request_id = await asked(peer, session)
            calls = [peer.call("hermes/request/answer", allow(request_id, key="a")) for _ in range(5)]
            answers = [await peer.answer(call) for call in calls]
            assert all(answer["result"] == answers[0]["result"] for answer in answers)
            error = await peer.refused("hermes/request/answer", allow(request_id, "deny", key="a"))
            assert error["code"] == -32047

    run(story())


def test_an_interrupt_resolves_what_is_open_and_nobody_can_answer_it_any_more(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path), tools=tools()) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path), model=ASKING)
            request_id = await asked(peer, session)
            await peer.request("hermes/turn/interrupt", {"sessionId": session})
            resolved, ended = await peer.event("request.resolved"), await peer.event("turn.ended")
            assert (resolved["data"]["outcome"], ended["data"]["status"]) == ("interrupted", "interrupted")
            assert resolved["seq"] < ended["seq"]
            error = await peer.refused("hermes/request/answer", allow(request_id))
            assert (error["code"], error["data"]["outcome"]) == (-32046, "interrupted")

    run(story())


@on_every_loop
def test_an_interrupt_at_any_instant_leaves_no_question_open(tmp_path: Path, loop: str) -> None:
    async def story() -> None:
        async with live(str(tmp_path), tools=tools()) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path), model=ASKING)
            for breaths in range(60):
                await peer.submit(session, "go")
                for _ in range(breaths):
                    await asyncio.sleep(0)
                await peer.request("hermes/turn/interrupt", {"sessionId": session})
                await peer.event("turn.ended")
                assert (await peer.request("hermes/request/list"))["requests"] == []
            opened = [frame for frame in events(peer) if frame["kind"] == "request.opened"]
            resolved = [frame for frame in events(peer) if frame["kind"] == "request.resolved"]
            assert [one["data"]["requestId"] for one in opened] == [one["data"]["requestId"] for one in resolved]

    run(story(), loop)


def events(peer: Peer) -> list[dict[str, Any]]:
    return [frame["params"] for frame in peer.order if frame.get("method") == "hermes/event"]


def test_a_joiner_sees_the_open_question_and_may_answer_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path), tools=tools()) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path), model=ASKING)
            request_id = await asked(peer, session)
            peer.close()
            joiner = await daemon.peer("joiner")
            result = await joiner.request("hermes/session/subscribe", {"sessionId": session})
            (row,) = result["snapshot"]["openRequests"]
            assert row["requestId"] == request_id
            assert 0 < row["remainingMs"] <= row["timeoutMs"]
            assert result["snapshot"]["state"] == "waiting"
            await joiner.request("hermes/request/answer", allow(request_id))
            assert (await joiner.event("turn.ended"))["data"]["status"] == "completed"

    run(story())


def test_the_clock_stands_still_while_nobody_is_there_who_may_answer(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path), tools=tools()) as daemon:
            watcher = await daemon.peer("watcher", capabilities={"requests": []})
            session = await watcher.session(str(tmp_path), model=ASKING)
            request_id = await asked(watcher, session)
            (row,) = (await watcher.request("hermes/request/list"))["requests"]
            assert not row.get("running")
            able = await daemon.peer("able")
            await able.request("hermes/session/subscribe", {"sessionId": session})
            assert (await watcher.event("request.clock"))["data"]["running"] is True
            able.close()
            assert not (await watcher.event("request.clock"))["data"].get("running")
            assert (await watcher.request("hermes/request/list"))["requests"][0]["requestId"] == request_id

    run(story())


def test_seen_is_told_once_for_each_client_and_never_by_observers(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path), tools=tools()) as daemon:
            peer = await daemon.peer()
            observer = await daemon.peer("observer", client={"id": "o", "name": "observer", "role": "observer"})
            session = await peer.session(str(tmp_path), model=ASKING)
            await observer.request("hermes/session/subscribe", {"sessionId": session})
            request_id = await asked(peer, session)
            for client in (observer, peer, peer, peer):
                client.send({"jsonrpc": "2.0", "method": "hermes/request/seen", "params": {"requestId": request_id}})
                await client.request("hermes/daemon/ping")
            await peer.request("hermes/request/answer", allow(request_id))
            await peer.event("turn.ended")
            seen = [event["data"]["by"]["name"] for event in events(peer) if event["kind"] == "request.seen"]
            assert seen == ["test"]

    run(story())


def test_a_question_waits_behind_its_call_and_its_resolution_comes_before_what_follows_from_it(tmp_path: Path) -> None:
    """G4 and G5."""

    async def story() -> None:
        async with live(str(tmp_path), tools=tools()) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path), model=ASKING)
            request_id = await asked(peer, session)
            await peer.request("hermes/request/answer", allow(request_id))
            await peer.event("turn.ended")
            told = events(peer)
            opened = next(event for event in told if event["kind"] == "request.opened")
            place = {
                (event["kind"], event.get("itemId")): number
                for number, event in enumerate(told)
                if event.get("itemId") == opened["itemId"]
            }
            order = ["item.started", "request.opened", "request.resolved", "item.completed"]
            numbers = [place[kind, opened["itemId"]] for kind in order]
            assert numbers == sorted(numbers)

    run(story())
