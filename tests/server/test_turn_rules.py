"""Turns, queue, steering, interrupts and receipts (protocol sections 6 and 7), with everything at once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_daemon.core.ports import ToolContext, ToolOutcome
from tests.support.live import Live, Peer, TestTool, live
from tests.support.loops import on_every_loop, run

HANG = "scripted/hang?text=thinking+about+it"


def events(peer: Peer) -> list[dict[str, Any]]:
    return [
        frame["params"] for frame in peer.order if isinstance(frame, dict) and frame.get("method") == "hermes/event"
    ]


def block(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text}]


def hold_the_rules(peer: Peer) -> None:
    """G2, G6 and G9 over everything this peer was told of its one session."""
    last, running, ended, opened = 0, None, set[str](), set[str]()
    for event in events(peer):
        kind, turn = event["kind"], event.get("turnId")
        assert event["seq"] > last
        last = event["seq"]
        if kind == "turn.started":
            assert running is None, "turns overlap"
            assert turn not in ended
            running = turn
        elif kind == "turn.ended":
            assert turn == running
            assert not opened, "items are still open"
            running = None
            ended.add(turn)
        elif kind.startswith("item."):
            assert turn == running
            assert turn not in ended
            if kind == "item.started":
                opened.add(event["itemId"])
            elif kind in ("item.completed", "item.discarded"):
                opened.discard(event["itemId"])
            else:
                assert event["itemId"] in opened
    assert running is None


async def user_texts(peer: Peer, session: str) -> list[str]:
    page = await peer.request("hermes/session/items", {"sessionId": session, "limit": 1000})
    return [item["text"] for item in page["items"] if item["type"] == "userMessage"]


async def until_idle(peer: Peer, session: str) -> None:
    while not (await peer.request("hermes/session/wait", {"sessionId": session, "until": "idle"}))["reached"]:
        pass


# --- receipts ---


def test_one_key_50_times_over_5_connections_and_a_restart_is_one_message(tmp_path: Path) -> None:
    """Acceptance check 7."""

    async def burst(daemon: Live, session: str) -> list[dict[str, Any]]:
        peers = [await daemon.peer(f"p{number}") for number in range(5)]
        params = {"sessionId": session, "key": "the key", "input": block("only once")}
        calls = [(peer, peer.call("hermes/turn/submit", params)) for _ in range(5) for peer in peers]
        return [(await peer.answer(call))["result"] for peer, call in calls]

    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            owner = await daemon.peer("owner")
            session = await owner.session(str(tmp_path))
            receipts = await burst(daemon, session)
        async with live(str(tmp_path)) as daemon:
            receipts += await burst(daemon, session)
            assert len({(row["turnId"], row["seq"], row["disposition"]) for row in receipts}) == 1
            assert [row.get("duplicate", False) for row in receipts].count(False) == 1
            peer = await daemon.peer()
            assert await user_texts(peer, session) == ["only once"]
            other = {"sessionId": session, "key": "the key", "input": block("something else")}
            error = await peer.refused("hermes/turn/submit", other)
            assert error["code"] == -32047
            assert error["data"]["receipt"]["turnId"] == receipts[0]["turnId"]

    run(story())


@on_every_loop
def test_sessions_created_at_once_with_one_key_are_one_session(tmp_path: Path, loop: str) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            twins = [await daemon.peer("same") for _ in range(3)]
            params = {"cwd": str(tmp_path), "key": "make it"}
            calls = [(peer, peer.call("hermes/session/create", params)) for _ in range(5) for peer in twins]
            made = [(await peer.answer(call))["result"] for peer, call in calls]
            assert len({row["session"]["sessionId"] for row in made}) == 1
            assert [row.get("duplicate", False) for row in made].count(False) == 1
            assert len((await twins[0].request("hermes/session/list"))["sessions"]) == 1
            other = await daemon.peer("other")
            assert (await other.request("hermes/session/create", params))["session"]["sessionId"] != made[0]["session"][
                "sessionId"
            ]

    run(story(), loop)


def test_a_rename_with_its_key_again_is_the_first_rename(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path))
            params = {"sessionId": session, "title": "first", "expectRev": 0, "key": "r"}
            first = await peer.request("hermes/session/rename", params)
            assert await peer.request("hermes/session/rename", params) == first
            error = await peer.refused("hermes/session/rename", {**params, "key": "other"})
            assert error["code"] == -32801

    run(story())


def test_a_refused_request_leaves_no_receipt(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path), model=HANG)
            await peer.submit(session, "first")
            params = {"sessionId": session, "key": "k", "input": block("second")}
            error = await peer.refused("hermes/turn/submit", {**params, "whenBusy": "reject"})
            assert error["code"] == -32044
            assert (await peer.request("hermes/turn/submit", params))["disposition"] == "queued"

    run(story())


# --- when the session is busy ---


def test_an_idle_session_starts_whatever_was_wished_for_when_busy(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path))
            for wish in ("queue", "steer", "interrupt", "reject"):
                submitted = await peer.submit(session, f"wish {wish}", whenBusy=wish)
                assert submitted["disposition"] == "started"
                await peer.event("turn.ended")

    run(story())


@on_every_loop
def test_who_has_seen_the_end_of_a_turn_finds_the_session_idle(tmp_path: Path, loop: str) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path))
            for number in range(50):
                submitted = await peer.submit(session, f"message {number}", whenBusy="reject")
                assert submitted["disposition"] == "started"
                await peer.event("turn.ended")

    run(story(), loop)


def test_queued_messages_run_in_order_and_position_counts(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path), model=HANG)
            await peer.submit(session, "running")
            for text, position in (("b", None), ("c", None), ("a", 0), ("d", 99), ("a2", 1), ("first", -5)):
                result = await peer.submit(session, text, position=position)
                assert (result["disposition"], "queueId" in result) == ("queued", True)
            queue = await peer.request("hermes/queue/list", {"sessionId": session})
            assert [entry["input"][0]["text"] for entry in queue["queue"]] == ["first", "a", "a2", "b", "c", "d"]
            gone = queue["queue"][2]["queueId"]
            stale = {"sessionId": session, "queueId": gone, "expectQueueRev": queue["queueRev"] - 1}
            assert (await peer.refused("hermes/queue/remove", stale))["code"] == -32801
            remove = {**stale, "expectQueueRev": queue["queueRev"]}
            assert len((await peer.request("hermes/queue/remove", remove))["queue"]) == 5
            error = await peer.refused("hermes/queue/remove", {"sessionId": session, "queueId": gone})
            assert error["data"]["kind"] == "queue_not_found"
            await peer.request("hermes/session/setOption",
                               {"sessionId": session, "id": "model", "value": "scripted/echo"})  # fmt: skip
            await peer.request("hermes/turn/interrupt", {"sessionId": session})
            await until_idle(peer, session)
            assert await user_texts(peer, session) == ["running", "first", "a", "b", "c", "d"]
            hold_the_rules(peer)

    run(story())


def test_interrupt_when_busy_ends_the_turn_and_runs_next(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path), model=HANG)
            running = await peer.submit(session, "running")
            await peer.submit(session, "queued")
            urgent = await peer.submit(session, "urgent", whenBusy="interrupt")
            ended = await peer.event("turn.ended")
            assert (ended["turnId"], ended["data"]["status"]) == (running["turnId"], "interrupted")
            assert (await peer.event("turn.started"))["turnId"] == running["turnId"]
            assert (await peer.event("turn.started"))["turnId"] == urgent["turnId"]
            await peer.request("hermes/turn/interrupt", {"sessionId": session, "queue": "clear"})
            await until_idle(peer, session)
            hold_the_rules(peer)

    run(story())


@pytest.mark.parametrize("policy", ["keep", "pause", "clear"])
def test_the_queue_policy_of_an_interrupt_holds_for_messages_and_for_steering(tmp_path: Path, policy: str) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path), model=HANG)
            await peer.submit(session, "running")
            await peer.event("item.delta")
            steer = await peer.submit(session, "steer", whenBusy="steer")
            assert steer["disposition"] == "steered"
            await peer.submit(session, "queued")
            await peer.request("hermes/session/setOption",
                               {"sessionId": session, "id": "model", "value": "scripted/echo"})  # fmt: skip
            await peer.request("hermes/turn/interrupt", {"sessionId": session, "queue": policy})
            ended = await peer.event("turn.ended")
            await until_idle(peer, session)
            if policy == "clear":
                assert ended["data"]["dropped"] == ["steer", "queued"]
                assert await user_texts(peer, session) == ["running"]
            elif policy == "keep":
                assert await user_texts(peer, session) == ["running", "steer", "queued"]
                requeued = await peer.event("turn.steerRequeued")
                assert requeued["seq"] < ended["seq"]
                assert requeued["data"]["queueId"] == steer["queueId"]
            else:
                assert await user_texts(peer, session) == ["running"]
                queue = await peer.request("hermes/queue/list", {"sessionId": session})
                assert [entry["input"][0]["text"] for entry in queue["queue"]] == ["steer", "queued"]
                assert queue["paused"] is True
                assert {entry.get("kind", "turn") for entry in queue["queue"]} == {"turn"}
                await peer.request("hermes/queue/resume", {"sessionId": session})
                await until_idle(peer, session)
                assert await user_texts(peer, session) == ["running", "steer", "queued"]
            hold_the_rules(peer)

    run(story())


@on_every_loop
def test_a_steer_is_never_lost_wherever_the_turn_stands(tmp_path: Path, loop: str) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path))
            expected = []
            for breaths in range(60):
                first = peer.call("hermes/turn/submit", said(session, f"message {breaths}"))
                for _ in range(breaths):
                    await asyncio.sleep(0)
                steer = peer.call("hermes/turn/submit", {**said(session, f"steer {breaths}"), "whenBusy": "steer"})
                await peer.answer(first)
                await peer.answer(steer)
                await until_idle(peer, session)
                expected += [f"message {breaths}", f"steer {breaths}"]
            assert await user_texts(peer, session) == expected
            assert (await peer.request("hermes/queue/list", {"sessionId": session}))["queue"] == []
            hold_the_rules(peer)

    run(story(), loop)


def said(session: str, text: str) -> dict[str, Any]:
    return {"sessionId": session, "key": f"key of {text}", "input": block(text)}


# --- interrupts ---


@on_every_loop
def test_an_interrupt_storm_with_stale_ids_ends_no_newer_turn(tmp_path: Path, loop: str) -> None:
    """Acceptance check 8."""

    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path), model=HANG)
            old: list[str] = []
            for number in range(25):
                turn = (await peer.submit(session, f"message {number}"))["turnId"]
                await peer.event("item.delta")
                for stale in old:
                    peer.call("hermes/turn/interrupt", {"sessionId": session, "turnId": stale})
                state = await peer.request("hermes/session/get", {"sessionId": session})
                assert state["state"] == "running"
                calls = [peer.call("hermes/turn/interrupt", {"sessionId": session, "turnId": turn}) for _ in range(5)]
                statuses = [(await peer.answer(call))["result"]["status"] for call in calls]
                assert statuses[0] == "interrupting"
                assert set(statuses[1:]) <= {"alreadyEnding", "notActive"}
                ended = await peer.event("turn.ended")
                assert (ended["turnId"], ended["data"]["status"]) == (turn, "interrupted")
                old.append(turn)
            page = await peer.request("hermes/session/items", {"sessionId": session, "limit": 1000})
            partial = [item for item in page["items"] if item["type"] == "agentMessage"]
            assert [(item["text"], item["status"]) for item in partial] == [("thinking about it", "partial")] * 25
            ends = [event["turnId"] for event in events(peer) if event["kind"] == "turn.ended"]
            assert ends == old
            hold_the_rules(peer)

    run(story(), loop)


def test_an_interrupt_sent_right_behind_a_submit_stops_its_turn(tmp_path: Path) -> None:
    """G10: what one connection sends is admitted in the order it was sent."""

    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path), model=HANG)
            submit = peer.call("hermes/turn/submit", said(session, "go"))
            interrupt = peer.call("hermes/turn/interrupt", {"sessionId": session})
            turn = (await peer.answer(submit))["result"]["turnId"]
            result = (await peer.answer(interrupt))["result"]
            assert (result["status"], result["turnId"]) == ("interrupting", turn)
            assert (await peer.event("turn.ended"))["data"]["status"] == "interrupted"

    run(story())


def test_an_interrupt_with_its_key_again_stops_no_later_turn(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path), model=HANG)
            await peer.submit(session, "one")
            stop = {"sessionId": session, "key": "stop"}
            first = await peer.request("hermes/turn/interrupt", stop)
            await peer.event("turn.ended")
            await peer.submit(session, "two")
            assert await peer.request("hermes/turn/interrupt", stop) == first
            assert (await peer.request("hermes/session/get", {"sessionId": session}))["state"] == "running"

    run(story())


def test_a_tool_that_outlives_its_interrupt_says_nothing_after_the_end(tmp_path: Path) -> None:
    freed = asyncio.Event()
    finished = asyncio.Event()

    async def stubborn(args: dict[str, Any], ctx: ToolContext) -> ToolOutcome:
        ctx.progress("begun\n")
        while not freed.is_set():
            try:
                await freed.wait()
            except asyncio.CancelledError:
                ctx.progress("not listening\n")
        ctx.progress("still here\n")
        finished.set()
        return ToolOutcome("too late")

    async def story() -> None:
        tools = [TestTool("look", stubborn, read_only=True)]
        async with live(str(tmp_path), tools=tools, config="agent:\n  interrupt_grace_s: 0.05\n") as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path), model="scripted/tool?name=look")
            await peer.submit(session, "go")
            await peer.event("item.delta")
            await peer.request("hermes/turn/interrupt", {"sessionId": session})
            ended = await peer.event("turn.ended")
            assert ended["data"]["forced"] is True
            freed.set()
            await finished.wait()
            await peer.request("hermes/session/setOption",
                               {"sessionId": session, "id": "model", "value": "scripted/echo"})  # fmt: skip
            await peer.say(session, "and on")
            hold_the_rules(peer)

    run(story())


# --- everything at once ---

DEEDS = st.sampled_from(
    ["queue", "steer", "interrupt", "reject", "stop", "pause", "clear", "resume", "drop", "breathe"]
)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_no_order_of_deeds_breaks_the_rules_or_loses_a_message(
    tmp_path_factory: pytest.TempPathFactory, loop: str
) -> None:
    @settings(max_examples=40)
    @given(st.lists(DEEDS, min_size=2, max_size=16))
    def law(deeds: list[str]) -> None:
        run(doing(str(tmp_path_factory.mktemp("home")), deeds), loop)

    law()


async def doing(home: str, deeds: list[str]) -> None:
    async with live(home) as daemon:
        peer = await daemon.peer()
        session = await peer.session(home)
        submits: dict[int, str] = {}
        dropped: set[str] = set()
        for number, deed in enumerate(deeds):
            text = f"message {number}"
            if deed in ("queue", "steer", "interrupt", "reject"):
                params = {**said(session, text), "whenBusy": deed}
                submits[peer.call("hermes/turn/submit", params)] = text
            elif deed in ("stop", "pause", "clear"):
                policy = "keep" if deed == "stop" else deed
                peer.call("hermes/turn/interrupt", {"sessionId": session, "queue": policy})
            elif deed == "resume":
                peer.call("hermes/queue/resume", {"sessionId": session})
            elif deed == "drop":
                queue = (await peer.request("hermes/queue/list", {"sessionId": session}))["queue"]
                for entry in queue[:1]:
                    drop = peer.call("hermes/queue/remove", {"sessionId": session, "queueId": entry["queueId"]})
                    if "result" in await peer.answer(drop):
                        dropped.add(entry["input"][0]["text"])
            else:
                await peer.request("hermes/daemon/ping")
        accepted = {text for call, text in submits.items() if "result" in await peer.answer(call)}
        await peer.request("hermes/queue/resume", {"sessionId": session})
        await until_idle(peer, session)
        head = (await peer.request("hermes/session/get", {"sessionId": session}))["head"]
        while not events(peer) or events(peer)[-1]["seq"] < head:
            await peer._read()
        for event in events(peer):
            dropped |= set(event["data"].get("dropped", ())) if event["kind"] == "turn.ended" else set()
        texts = await user_texts(peer, session)
        assert len(texts) == len(set(texts))
        assert set(texts) | dropped == accepted
        assert not set(texts) & dropped
        assert (await peer.request("hermes/queue/list", {"sessionId": session}))["queue"] == []
        hold_the_rules(peer)
        stored = daemon.room.parts.store.queue(session)
        assert stored is None or stored.entries == ()


@on_every_loop
def test_all_subscribers_see_one_order(tmp_path: Path, loop: str) -> None:
    """G7 over ten subscribers, and G3: what an answer's number names has its place in it."""

    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peers = [await daemon.peer(f"p{number}") for number in range(10)]
            session = await peers[0].session(str(tmp_path))
            for peer in peers[1:]:
                await peer.request("hermes/session/subscribe", {"sessionId": session})
            calls = [
                (peer, peer.call("hermes/turn/submit", said(session, f"from {n}"))) for n, peer in enumerate(peers)
            ]
            seqs = {(await peer.answer(call))["result"]["seq"] for peer, call in calls}
            await until_idle(peers[0], session)
            head = (await peers[0].request("hermes/session/get", {"sessionId": session}))["head"]
            for peer in peers:
                while events(peer)[-1]["seq"] < head:
                    await peer._read()
            chains = [[(event["seq"], event["kind"]) for event in events(peer)] for peer in peers]
            assert all(chain == chains[0] for chain in chains)
            assert seqs <= {seq for seq, _ in chains[0]}
            hold_the_rules(peers[3])

    run(story(), loop)


def test_wait_for_a_queued_turn_waits_for_its_end(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path), model="scripted/words?n=20&delay_ms=1")
            await peer.submit(session, "one")
            second = await peer.submit(session, "two")
            waited = await peer.request(
                "hermes/session/wait", {"sessionId": session, "until": "turn", "turnId": second["turnId"]}
            )
            assert waited["reached"] is True
            ends = [event["turnId"] for event in events(peer) if event["kind"] == "turn.ended"]
            assert second["turnId"] in ends
            short = {"sessionId": session, "until": "seq", "seq": 10**9, "timeoutMs": 1}
            assert (await peer.request("hermes/session/wait", short))["reached"] is False

    run(story())
