"""Snapshot, replay and what follows (protocol section 5): wherever a client joins, it sees what all others see."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hermes_daemon.core.ports import ToolContext, ToolOutcome
from hermes_protocol.events import AgentMessage
from tests.support.folding import Follower, comparable
from tests.support.live import Live, Peer, TestTool, live
from tests.support.loops import on_every_loop, run

SCRIPT = """
- reasoning: let me think about this
  text: I will run the tool now.
  calls:
    - {name: write, args: {text: "one"}}
    - {name: look, args: {text: "two"}}
- text: and one more
  calls:
    - {name: look, args: {text: "three"}}
- text: that was all of it, with ünïcödé 🎈 at the end
"""


async def write(args: dict[str, Any], ctx: ToolContext) -> ToolOutcome:
    for line in range(5):
        ctx.progress(f"line {line} of {args.get('text')}\n")
        await asyncio.sleep(0)
    return ToolOutcome("wrote " + str(args.get("text")))


def tools() -> list[TestTool]:
    return [TestTool("write", write), TestTool("look", write, read_only=True)]


# --- the law ---

ACTIONS = st.sampled_from(
    ["submit", "steer", "interrupt", "clear", "rename", "option", "answer", "breathe", "rewind", "archive"]
)
JOINS = st.tuples(
    st.just("join"),
    st.sampled_from(["full", "final", "status"]),
    st.sampled_from([0, 1]),
    st.floats(0, 1),
    st.booleans(),
)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_snapshot_and_events_are_all_events_wherever_one_joins(loop: str) -> None:
    @settings(max_examples=40)
    @given(st.lists(ACTIONS | JOINS, min_size=3, max_size=14))
    @example([*["submit"] * 4, "rewind", "steer", "answer", *["rewind"] * 3, *["submit"] * 3,
              ("join", "full", 1, 0.373, True)])  # fmt: skip
    def law(steps: list[Any]) -> None:
        with tempfile.TemporaryDirectory() as home:
            run(joining(home, steps), loop)

    law()


async def joining(home: str, steps: list[Any]) -> None:
    script = Path(home, "script.yaml")
    script.write_text(SCRIPT)
    async with live(home, tools=tools()) as daemon:
        actor = await daemon.peer("actor")
        created = await actor.request("hermes/session/create", {"cwd": home, "model": f"scripted/file:{script}"})
        session, epoch = created["session"]["sessionId"], created["epoch"]
        reference = Follower(actor, session)
        await reference.subscribe(since=(epoch, 0))
        followers = []
        for number, step in enumerate(steps):
            if isinstance(step, tuple):
                followers.append(await join(daemon, session, epoch, reference.last, step))
            else:
                await act(actor, session, step, number)
                reference.catch_up()
        await settle(actor, session)
        head = (await actor.request("hermes/session/get", {"sessionId": session}))["head"]
        expected = comparable(await reference.until(head))
        for follower, detail in followers:
            assert await caught_up(follower, detail, expected) == expected


async def join(daemon: Live, session: str, epoch: str, head: int, how: tuple[Any, ...]) -> tuple[Follower, str]:
    _, detail, latency, share, replay = how
    peer = await daemon.peer("joiner", capabilities={"events": {"detail": detail}, "maxLatencyMs": latency})
    follower = Follower(peer, session)
    if replay and detail == "full":
        await follower.subscribe(since=(epoch, 0))
        await peer.request("hermes/daemon/ping")
        follower.catch_up()
        again = Follower(peer, session)
        since = int(follower.last * share)
        # And once more, from somewhere in what it knows: the same events again must change nothing. Only what was
        # taken back cannot be told twice to who is ahead of it: then it goes on from what it showed there.
        again.view = follower.view
        if "session.rewound" in follower.kinds and follower.views:
            since, again.view = follower.views[int((len(follower.views) - 1) * share)]
        await again.subscribe(since=(epoch, since))
        return again, detail
    await follower.subscribe()
    return follower, detail


async def act(peer: Peer, session: str, step: str, number: int) -> None:
    """Ask and do not wait: what follows meets it half done."""
    block = [{"type": "text", "text": f"message {number}"}]
    submit = {"sessionId": session, "key": f"k{number}", "input": block}
    match step:
        case "submit":
            peer.call("hermes/turn/submit", submit)
        case "steer":
            peer.call("hermes/turn/submit", {**submit, "whenBusy": "steer"})
        case "interrupt":
            peer.call("hermes/turn/interrupt", {"sessionId": session})
        case "clear":
            peer.call("hermes/turn/interrupt", {"sessionId": session, "queue": "clear"})
        case "rename":
            peer.call("hermes/session/rename", {"sessionId": session, "title": f"title {number}"})
        case "option":
            peer.call("hermes/session/setOption", {"sessionId": session, "id": "thinking", "value": f"t{number}"})
        case "answer":
            await answer_all(peer, session)
        case "rewind":
            await rewind(peer, session, number)
        case "archive":
            peer.call("hermes/session/archive", {"sessionId": session, "archived": number % 2 == 0})
        case "breathe":
            await peer.request("hermes/daemon/ping")


async def rewind(peer: Peer, session: str, number: int) -> None:
    """To an item somewhere, once nothing runs; what follows meets it half done."""
    await settle(peer, session)
    found = (await peer.request("hermes/session/items", {"sessionId": session}))["items"]
    rev = (await peer.request("hermes/session/get", {"sessionId": session}))["session"]["rev"]
    if found:
        item = found[number * 7 % len(found)]["itemId"]
        peer.call("hermes/session/rewind", {"sessionId": session, "toItemId": item, "expectRev": rev})


async def answer_all(peer: Peer, session: str) -> None:
    for row in (await peer.request("hermes/request/list", {"sessionId": session}))["requests"]:
        answer = {"requestId": row["requestId"], "answer": {"optionId": "allow_once"}}
        await peer.answer(peer.call("hermes/request/answer", answer))


async def settle(peer: Peer, session: str) -> None:
    """Answer what is asked until nothing runs any more."""
    idle = {"sessionId": session, "until": "idle", "timeoutMs": 5}
    while not (await peer.request("hermes/session/wait", idle))["reached"]:
        await answer_all(peer, session)


async def caught_up(follower: Follower, detail: str, expected: dict[str, Any]) -> dict[str, Any]:
    """What the follower shows once it shows what is expected, or after it had time enough to."""
    shown: dict[str, Any] = {}
    for _ in range(300):
        await follower.peer.request("hermes/daemon/ping")
        follower.catch_up()
        shown = comparable(follower.view)
        if detail == "status":  # it hears of no item
            shown |= {"items": expected["items"], "streaming": {}}
        if shown == expected:
            break
        await asyncio.sleep(0.002)  # merged deltas wait a millisecond for their neighbours
    return shown


# --- single sentences ---


@on_every_loop
def test_the_first_event_follows_the_answer(tmp_path: Path, loop: str) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            created = await peer.request("hermes/session/create", {"cwd": str(tmp_path)})
            follower = Follower(peer, created["session"]["sessionId"])
            result = await follower.subscribe()
            assert (result["mode"], result["seq"]) == ("snapshot", result["head"])
            await peer.submit(follower.session_id, "hello")
            event = await peer.event("turn.started")
            assert event["prev"] == result["seq"]

    run(story(), loop)


@pytest.mark.parametrize("latency", [0, 33])
@pytest.mark.parametrize("detail", ["full", "final", "status"])
def test_the_chain_holds_for_every_detail_and_latency(tmp_path: Path, detail: str, latency: int) -> None:
    async def story() -> None:
        async with live(str(tmp_path), tools=tools()) as daemon:
            peer = await daemon.peer(capabilities={"events": {"detail": detail}, "maxLatencyMs": latency})
            session = await peer.session(str(tmp_path), model="scripted/words?n=500")
            follower = Follower(peer, session)
            await follower.subscribe()
            ended = await peer.say(session, "go")
            view = await follower.until(ended["seq"])
            kinds = set(follower.kinds)
            assert "turn.ended" in kinds
            assert ("item.delta" in kinds) == (detail == "full")
            assert ("item.completed" in kinds) == (detail != "status")
            if detail != "status":
                assert [len(item.text.split()) for item in view.items if isinstance(item, AgentMessage)] == [500]
            if detail == "full":
                assert (follower.deltas < 500) == (latency > 0)

    run(story())


def test_the_detail_of_a_subscription_stands_over_that_of_the_connection(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path))
            follower = Follower(peer, session)
            await follower.subscribe(detail="status")
            await follower.until((await peer.say(session, "hello"))["seq"])
            assert set(follower.kinds) == {"turn.started", "turn.ended", "session.updated"}

    run(story())


def test_a_late_joiner_at_word_15_sees_words_0_to_14_and_then_the_rest(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            early, late = await daemon.peer("early"), await daemon.peer("late")
            session = await early.session(str(tmp_path), model="scripted/words?n=40&delay_ms=2")
            await early.submit(session, "go")
            while " word14" not in (await early.event("item.delta"))["data"]["text"]:
                pass
            follower = Follower(late, session)
            result = await follower.subscribe()
            (open_item,) = result["snapshot"]["inflight"]
            words = open_item["text"].split()
            assert words[:15] == [f"word{number}" for number in range(15)]
            assert open_item["offset"] == len(open_item["text"])
            assert result["snapshot"]["state"] == "running"
            assert result["snapshot"]["turn"]["input"] == [{"type": "text", "text": "go"}]
            view = await follower.until((await late.event("turn.ended"))["seq"])
            (message,) = [item for item in view.items if isinstance(item, AgentMessage)]
            assert message.text.split() == [f"word{number}" for number in range(40)]

    run(story())


@pytest.mark.parametrize(("share", "epoch"), [(2.0, ""), (0.5, "another")])
def test_a_cursor_above_the_head_or_of_another_epoch_gets_a_snapshot(tmp_path: Path, share: float, epoch: str) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path))
            await peer.say(session, "hello there")
            known = await peer.request("hermes/session/get", {"sessionId": session})
            result = await Follower(peer, session).subscribe(
                since=(epoch or known["epoch"], int(known["head"] * share))
            )
            assert (result["mode"], result["seq"]) == ("snapshot", known["head"])
            assert [item["type"] for item in result["snapshot"]["items"]] == ["userMessage", "agentMessage"]

    run(story())


def test_numbers_never_go_back_and_a_cursor_in_a_gap_of_numbers_replays(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path))
            first = await peer.say(session, "hello")
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            follower = Follower(peer, session)
            result = await follower.subscribe()
            assert result["head"] == first["seq"]
            second = await peer.say(session, "again")
            assert second["seq"] > first["seq"] + 500  # the rest of the block of numbers was given up
            for seq in (first["seq"], first["seq"] + 1, second["seq"] - 100):
                result = await follower.subscribe(since=(result["epoch"], seq))
                assert (result["mode"], result["seq"]) == ("replay", seq)
                await peer.request("hermes/daemon/ping")
                follower.catch_up()
                assert follower.last == second["seq"]
                assert follower.kinds[0] == "turn.started"
                follower.kinds.clear()

    run(story())


def test_more_than_4_mib_missing_is_a_snapshot(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path))
            known = await peer.request("hermes/session/get", {"sessionId": session})
            for number in range(3):
                await peer.say(session, str(number) + "x" * 200_000)
            since = (known["epoch"], known["head"])
            assert (await Follower(peer, session).subscribe(since=since))["mode"] == "replay"
            for number in range(3):
                await peer.say(session, str(number) + "x" * 200_000)
            assert (await Follower(peer, session).subscribe(since=since))["mode"] == "snapshot"

    run(story())


def test_handed_case_replay_gap_told(tmp_path: Path) -> None:
    """More events than are kept: an early cursor is told so by a snapshot, also after a restart."""
    config = "database:\n  retain_events: 5\n  retain_days: 1\n"

    async def story() -> None:
        async with live(str(tmp_path), config=config) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path))
            epoch = (await peer.request("hermes/session/get", {"sessionId": session}))["epoch"]
            for number in range(20):
                last = await peer.say(session, f"message {number}")
        with contextlib.closing(sqlite3.connect(tmp_path / "state.db")) as database, database:
            database.execute("UPDATE events SET ts = '2020-01-01T00:00:00.000Z'")
        async with live(str(tmp_path), config=config) as daemon:
            peer = await daemon.peer()
            await daemon.room.parts.store.tidy()  # type: ignore[attr-defined]
            follower = Follower(peer, session)
            early = await follower.subscribe(since=(epoch, 1))
            assert early["mode"] == "snapshot"
            assert len(early["snapshot"]["items"]) == 40
            assert (await peer.say(session, "on"))["seq"] > last["seq"]

    run(story())


def test_a_snapshot_has_the_wanted_tail_and_says_where_older_items_are(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path))
            for number in range(6):
                await peer.say(session, f"message {number}")
            for tail, count in ((5, 5), (12, 12), (100, 12), (0, 0), (-3, 0)):
                snapshot = (await Follower(peer, session).subscribe(tail=tail))["snapshot"]
                assert len(snapshot["items"]) == count
                assert ("olderCursor" in snapshot) == (0 < count < 12)
            snapshot = (await Follower(peer, session).subscribe(tail=5))["snapshot"]
            items, cursor = list(snapshot["items"]), snapshot["olderCursor"]
            while cursor:
                asked = {"sessionId": session, "before": cursor, "limit": 2}
                page = await peer.request("hermes/session/items", asked)
                items, cursor = page["items"] + items, page.get("nextCursor")
            assert [item["text"] for item in items] == [f"message {n // 2}" for n in range(12)]

    run(story())


def test_subscribing_again_discards_what_was_queued_and_starts_over(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path), model="scripted/words?n=3000")
            follower = Follower(peer, session)
            await follower.subscribe()
            await peer.submit(session, "go")
            for _ in range(10):
                await peer.request("hermes/daemon/ping")
                follower.catch_up()
                await follower.subscribe(since=(follower.epoch, follower.last))
            view = await follower.until((await peer.event("turn.ended"))["seq"])
            assert [len(item.text.split()) for item in view.items if isinstance(item, AgentMessage)] == [3000]

    run(story())


def test_two_subscribes_at_once_leave_one_subscription(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path))
            calls = [peer.call("hermes/session/subscribe", {"sessionId": session}) for _ in range(5)]
            for call in calls:
                await peer.answer(call)
            await peer.say(session, "hello")
            kinds = [frame["params"]["kind"] for frame in peer.order if frame.get("method") == "hermes/event"]
            assert kinds.count("turn.started") == 1

    run(story())


def test_after_unsubscribe_nothing_comes(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer, other = await daemon.peer(), await daemon.peer("other")
            session = await peer.session(str(tmp_path))
            await other.request("hermes/session/subscribe", {"sessionId": session})
            await peer.request("hermes/session/unsubscribe", {"sessionId": session})
            await other.say(session, "hello")
            await peer.request("hermes/daemon/ping")
            assert peer.events == []

    run(story())


def test_subscribing_to_no_session_says_which(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            error = await peer.refused("hermes/session/subscribe", {"sessionId": "s_none"})
            assert (error["code"], error["data"]["kind"]) == (-32040, "session_not_found")
            session = await peer.session(str(tmp_path))
            await peer.request("hermes/session/delete", {"sessionId": session})
            error = await peer.refused("hermes/session/subscribe", {"sessionId": session})
            assert (error["code"], error["data"]["kind"]) == (-32041, "session_deleted")

    run(story())


def test_an_answer_that_speaks_of_events_comes_behind_them(tmp_path: Path) -> None:
    """G1: also behind deltas that wait for their neighbours."""

    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer(capabilities={"maxLatencyMs": 200})
            session = await peer.session(str(tmp_path), model="scripted/words?n=2000&delay_ms=1")
            await peer.submit(session, "go")
            await peer.event("item.delta")
            reached = (await peer.request("hermes/session/get", {"sessionId": session}))["head"]
            for _ in range(20):
                params = {"sessionId": session, "until": "seq", "seq": reached + 3}
                reached = (await peer.request("hermes/session/wait", params))["seq"]
                told = [
                    frame["params"]["seq"]
                    for frame in peer.order
                    if isinstance(frame, dict) and frame.get("method") == "hermes/event"
                ]
                assert told[-1] >= reached

    asyncio.run(story())
