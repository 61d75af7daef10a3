"""hermes/session/rewind and fork: items and history are cut at one place, for everybody and over a restart."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from hermes_daemon.core.history import check
from hermes_daemon.core.ports import ToolContext, ToolOutcome
from hermes_protocol.content import Message
from tests.support.folding import Follower, comparable
from tests.support.live import Live, Peer, TestTool, live
from tests.support.loops import run

SCRIPT = """
- reasoning: let me think about this
  text: I will look at both.
  calls:
    - {name: look, args: {text: "one"}}
    - {name: look, args: {text: "two"}}
- text: that was all
"""


async def look(args: dict[str, Any], ctx: ToolContext) -> ToolOutcome:
    return ToolOutcome("seen " + str(args.get("text")))


TOOLS = [TestTool("look", look, read_only=True)]


def scripted(home: Path) -> str:
    path = home / "script.yaml"
    path.write_text(SCRIPT)
    return f"scripted/file:{path}"


async def items(peer: Peer, session: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await peer.request("hermes/session/items", {"sessionId": session}))["items"]
    return found


def kinds(found: list[dict[str, Any]]) -> list[str]:
    return [item["type"] for item in found]


def history(daemon: Live, session: str) -> tuple[Message, ...]:
    return daemon.room.parts.store.messages(session)


async def rewind(peer: Peer, session: str, item: str, **params: Any) -> dict[str, Any]:
    rev = (await peer.request("hermes/session/get", {"sessionId": session}))["session"]["rev"]
    call = {"sessionId": session, "toItemId": item, "expectRev": rev, **params}
    result: dict[str, Any] = await peer.request("hermes/session/rewind", call)
    return result


# --- rewind ---


def test_a_rewind_to_a_message_of_the_user_gives_it_back_to_be_asked_again(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer, other = await daemon.peer(), await daemon.peer("other")
            session = await peer.session(str(tmp_path))
            follower = Follower(other, session)
            await follower.subscribe()
            await peer.say(session, "first")
            await peer.say(session, "second")
            before = await items(peer, session)
            result = await rewind(peer, session, before[2]["itemId"])
            assert (result["removed"], result["rev"]) == (2, 1)
            assert result["input"] == [{"type": "text", "text": "second"}]
            rewound = await peer.event("session.rewound")
            assert rewound["data"] == {"toItemId": before[2]["itemId"], "lastItemId": before[1]["itemId"],
                                       "removed": 2, "rev": 1}  # fmt: skip
            view = await follower.until(result["seq"])
            assert [item.item_id for item in view.items] == [item["itemId"] for item in before[:2]]
            assert (view.session.rev, await items(peer, session)) == (1, before[:2])
            assert [message.text for message in history(daemon, session)] == ["first", "first"]
            await peer.say(session, "instead")
            assert [message.text for message in history(daemon, session)] == ["first", "first", "instead", "instead"]

    run(story())


def test_what_the_model_reads_after_a_rewind_is_what_people_see(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path), tools=TOOLS) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path), model=scripted(tmp_path))
            await peer.say(session, "go")
            found = await items(peer, session)
            assert kinds(found) == ["userMessage", "reasoning", "agentMessage", "toolCall", "toolCall", "agentMessage"]
            for at, calls, texts in (
                (4, 2, ["I will look at both."]),
                (3, 1, ["I will look at both."]),
                (2, 0, ["I will look at both."]),
                (1, 0, []),
            ):
                await rewind(peer, session, found[at]["itemId"])
                left = history(daemon, session)
                assert check(left) == []
                assert sum(len(message.calls) for message in left) == calls
                assert [message.text for message in left if message.role == "assistant"] == texts
                assert await items(peer, session) == found[: at + 1]

    run(story())


def test_a_rewind_needs_the_revision_and_an_idle_session_and_an_item_that_is_there(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer, observer = await daemon.peer(), await daemon.peer("o", client={"id": "o", "role": "observer"})
            session = await peer.session(str(tmp_path))
            await peer.say(session, "hello")
            item = (await items(peer, session))[0]["itemId"]
            call = {"sessionId": session, "toItemId": item, "expectRev": 0}
            assert (await observer.refused("hermes/session/rewind", call))["code"] == -32048
            missing = await peer.refused("hermes/session/rewind", {"sessionId": session, "toItemId": item})
            assert (missing["code"], "expectRev" in missing["message"]) == (-32602, True)
            stale = await peer.refused("hermes/session/rewind", call | {"expectRev": 7})
            assert (stale["code"], stale["data"]["rev"]) == (-32801, 0)
            unknown = await peer.refused("hermes/session/rewind", call | {"toItemId": "none"})
            assert (unknown["code"], unknown["data"]["kind"]) == (-32042, "item_not_found")
            words = {"model": "scripted/words?n=200000"}
            begun = await peer.submit(session, "go on", options=words)
            busy = await peer.refused("hermes/session/rewind", call)
            assert (busy["code"], busy["data"]["activeTurnId"]) == (-32044, begun["turnId"])
            await peer.request("hermes/turn/interrupt", {"sessionId": session})
            await peer.event("turn.ended", status="interrupted")
            await peer.request("hermes/session/rewind", call)
            assert await items(peer, session) == []

    run(story())


def test_a_repeated_rewind_is_answered_as_the_first_over_a_restart(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path))
            await peer.say(session, "hello")
            await peer.say(session, "again")
            item = (await items(peer, session))[1]["itemId"]
            call = {"sessionId": session, "toItemId": item, "expectRev": 0, "key": "once"}
            first = await peer.request("hermes/session/rewind", call)
            await peer.say(session, "more")
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            assert await peer.request("hermes/session/rewind", call) == first
            assert len(await items(peer, session)) == 4
            conflict = await peer.refused("hermes/session/rewind", call | {"toItemId": "other"})
            assert (conflict["code"], conflict["data"]["receipt"]) == (-32047, first)

    run(story())


def test_who_replays_a_rewind_sees_what_a_snapshot_shows(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path), tools=TOOLS) as daemon:
            peer = await daemon.peer()
            created = await peer.request("hermes/session/create", {"cwd": "/", "model": scripted(tmp_path)})
            session, epoch = created["session"]["sessionId"], created["epoch"]
            await peer.request("hermes/session/subscribe", {"sessionId": session})
            await peer.say(session, "go")
            await rewind(peer, session, (await items(peer, session))[3]["itemId"])
            ended = await peer.say(session, "once more")
            replayed, snapped = Follower(await daemon.peer("r"), session), Follower(await daemon.peer("s"), session)
            await replayed.subscribe(since=(epoch, 0))
            await snapped.subscribe()
            assert comparable(await replayed.until(ended["seq"])) == comparable(snapped.view)

    run(story())


# --- fork ---


def test_a_fork_has_what_its_parent_has_and_goes_on_apart(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path), tools=TOOLS) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path), model=scripted(tmp_path), title="Work", env={"A": "1"},
                                         options={"mode": "manual"})  # fmt: skip
            await peer.say(session, "go")
            before = await items(peer, session)
            made = await peer.request("hermes/session/fork", {"sessionId": session})
            fork = made["session"]["sessionId"]
            assert made["session"]["parent"] == session
            assert (made["session"]["title"], made["session"]["cwd"]) == ("Work (fork)", str(tmp_path))
            assert made["session"]["usage"] == {}  # its parent spent it
            known = await peer.request("hermes/session/get", {"sessionId": fork})
            assert (known["options"]["mode"], known["head"], known["epoch"]) == ("manual", made["seq"], made["epoch"])
            assert await items(peer, fork) == before
            assert history(daemon, fork) == history(daemon, session)
            row = daemon.room.parts.store.session(fork)
            assert row is not None
            assert row.env == {"A": "1"}
            await peer.request("hermes/session/subscribe", {"sessionId": fork})
            await peer.say(fork, "apart")
            assert await items(peer, session) == before
            assert len(await items(peer, fork)) > len(before)
            await peer.request("hermes/session/delete", {"sessionId": session})
            assert (await items(peer, fork))[: len(before)] == before

    run(story())


def test_a_fork_at_any_item_has_a_lawful_history_of_its_own(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path), tools=TOOLS) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path), model=scripted(tmp_path))
            await peer.say(session, "go")
            await peer.say(session, "and again")
            found = await items(peer, session)
            for at, item in enumerate(found):
                call = {"sessionId": session, "atItemId": item["itemId"], "title": f"at {at}"}
                made = (await peer.request("hermes/session/fork", call))["session"]
                assert made["title"] == f"at {at}"
                assert await items(peer, made["sessionId"]) == found[: at + 1]
                left = history(daemon, made["sessionId"])
                assert check(left) == []
                calls = [call.call_id for message in left for call in message.calls]
                assert calls == [item["callId"] for item in found[: at + 1] if item["type"] == "toolCall"]
            assert await items(peer, session) == found

    run(story())


def test_a_cursor_before_the_beginning_of_a_fork_gets_a_snapshot(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path))
            await peer.say(session, "hello")
            made = await peer.request("hermes/session/fork", {"sessionId": session})
            fork = made["session"]["sessionId"]
            follower = Follower(peer, fork)
            assert (await follower.subscribe(since=(made["epoch"], 0)))["mode"] == "snapshot"
            assert len(follower.view.items) == 2
            assert (await follower.subscribe(since=(made["epoch"], made["seq"])))["mode"] == "replay"
            pull = {"sessionId": fork, "epoch": made["epoch"], "after": 0}
            assert (await peer.refused("hermes/session/events", pull))["code"] == -32054

    run(story())


def test_a_fork_while_a_turn_runs_ends_behind_the_last_result(tmp_path: Path) -> None:
    async def story() -> None:
        going, go_on = asyncio.Event(), asyncio.Event()

        async def slow(args: dict[str, Any], ctx: ToolContext) -> ToolOutcome:
            if args.get("text") == "two":
                going.set()
                await go_on.wait()
            return ToolOutcome("seen")

        tools = [TestTool("look", slow, read_only=True)]
        async with live(str(tmp_path), tools=tools) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path), model=scripted(tmp_path))
            await peer.submit(session, "go")
            await going.wait()
            opened = [(await peer.event("item.started"))["itemId"] for _ in range(5)]
            while (await peer.event("item.completed"))["data"]["item"]["type"] != "toolCall":
                pass
            made = await peer.request("hermes/session/fork", {"sessionId": session})
            fork = made["session"]["sessionId"]
            assert made["session"]["state"] == "idle"
            assert kinds(await items(peer, fork)) == ["userMessage", "reasoning", "agentMessage", "toolCall"]
            left = history(daemon, fork)
            assert check(left) == []
            assert [len(message.calls) for message in left] == [0, 1, 0]
            call = {"sessionId": session, "atItemId": opened[4]}
            still = await peer.refused("hermes/session/fork", call)
            assert (still["code"], "still open" in still["message"]) == (-32044, True)
            go_on.set()
            await peer.event("turn.ended", status="completed")

    run(story())


def test_a_repeated_fork_is_one_session(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path))
            call = {"sessionId": session, "key": "once"}
            first = await peer.request("hermes/session/fork", call)
            assert await peer.request("hermes/session/fork", call) == first | {"duplicate": True}
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            again = await peer.request("hermes/session/fork", call)
            assert again == first | {"duplicate": True}
            listed = (await peer.request("hermes/session/list"))["sessions"]
            assert {row["sessionId"] for row in listed} == {session, first["session"]["sessionId"]}
            assert (await peer.refused("hermes/session/fork", call | {"key": "k", "atItemId": "x"}))["code"] == -32042

    run(story())


def test_a_history_that_no_longer_has_what_was_said_refuses_and_changes_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path))
            await peer.say(session, "hello")
            found = await items(peer, session)
        connection = sqlite3.connect(tmp_path / "state.db")
        connection.execute("DELETE FROM messages")
        connection.commit()
        connection.close()
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            refused = await peer.refused(
                "hermes/session/rewind", {"sessionId": session, "toItemId": found[1]["itemId"], "expectRev": 0}
            )
            assert (refused["code"], "not in the conversation any more" in refused["message"]) == (-32803, True)
            assert await items(peer, session) == found

    run(story())


@pytest.mark.parametrize("method", ["fork", "rewind"])
def test_a_full_disk_leaves_the_session_as_it_was(tmp_path: Path, method: str) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path))
            await peer.say(session, "hello")
            before = (await items(peer, session), history(daemon, session))
            blocker = sqlite3.connect(tmp_path / "state.db", isolation_level=None)
            blocker.execute("CREATE TRIGGER no BEFORE INSERT ON events BEGIN SELECT RAISE(ABORT, 'no room'); END")
            params = {"sessionId": session}
            if method == "rewind":
                params |= {"toItemId": before[0][0]["itemId"], "expectRev": 0}  # type: ignore[dict-item]
            error = await peer.refused(f"hermes/session/{method}", params)
            assert error["data"]["kind"] == "storage_error"
            assert (await items(peer, session), history(daemon, session)) == before
            assert (await peer.request("hermes/session/get", {"sessionId": session}))["session"]["rev"] == 0
            blocker.execute("DROP TRIGGER no")
            blocker.close()
            await peer.request(f"hermes/session/{method}", params)

    run(story())
