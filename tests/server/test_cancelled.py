"""What is cancelled, or asked for by somebody who is gone, is done whole or not at all: never by half."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.live import Live, Peer, live
from tests.support.loops import run

LEAVING = pytest.mark.parametrize("leaves", ["cancels", "hangs up"])


@contextmanager
def locked(home: Path) -> Iterator[None]:
    """Nothing can be committed meanwhile."""
    lock = sqlite3.connect(home / "state.db", isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        lock.execute("ROLLBACK")
        lock.close()


async def leave(daemon: Live, peer: Peer, call: int, leaves: str) -> None:
    """Cancel a request that is under way, or be gone; returns when the daemon has noticed."""
    await peer.request("hermes/daemon/ping", {})
    if leaves == "cancels":
        peer.send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": call}})
        assert (await peer.answer(call))["error"]["data"]["kind"] == "cancelled"
        return
    before = len(daemon.daemon.connections)
    peer.writer.transport.abort()
    while len(daemon.daemon.connections) == before:
        await asyncio.sleep(0)


@LEAVING
def test_a_delete_that_nobody_waits_for_any_more_is_carried_out(tmp_path: Path, leaves: str) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer, other = await daemon.peer("one"), await daemon.peer("other")
            session = await other.session(str(tmp_path))
            with locked(tmp_path):
                call = peer.call("hermes/session/delete", {"sessionId": session, "key": "k"})
                await leave(daemon, peer, call, leaves)
            await other.event("session.deleted")
            assert (await other.refused("hermes/session/get", {"sessionId": session}))["code"] == -32041
            assert session not in {one.session_id for one in daemon.room.sessions.live}

    run(story())


@LEAVING
def test_a_delete_that_waits_for_a_turn_to_end_leaves_no_session_that_takes_nothing(
    tmp_path: Path, leaves: str
) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer, other = await daemon.peer("one"), await daemon.peer("other")
            session = await other.session(str(tmp_path), model="scripted/hang?text=words")
            await other.submit(session, "go")
            await other.event("item.delta")
            with locked(tmp_path):  # its turn cannot end before
                call = peer.call("hermes/session/delete", {"sessionId": session})
                await leave(daemon, peer, call, leaves)
            await other.event("session.deleted")
            error = await other.refused("hermes/session/rename", {"sessionId": session, "title": "x"})
            assert error["code"] == -32041

    run(story())


@LEAVING
def test_a_queue_that_somebody_resumed_and_left_goes_on(tmp_path: Path, leaves: str) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer, other = await daemon.peer("one"), await daemon.peer("other")
            session = await other.session(str(tmp_path), model="scripted/hang?text=words")
            await other.submit(session, "first")
            queued = await other.submit(session, "second")
            await other.request("hermes/turn/interrupt", {"sessionId": session, "queue": "pause"})
            await other.event("turn.ended")
            model = {"sessionId": session, "id": "model", "value": "scripted/echo"}
            await other.request("hermes/session/setOption", model)
            with locked(tmp_path):
                call = peer.call("hermes/queue/resume", {"sessionId": session, "key": "k"})
                await leave(daemon, peer, call, leaves)
            ended = await other.event("turn.ended")
            assert (ended["turnId"], ended["data"]["status"]) == (queued["turnId"], "completed")

    run(story())


@LEAVING
@pytest.mark.parametrize("method", ["fork", "rewind", "rename", "archive", "setOption"])
def test_what_had_begun_is_done_and_answered_to_whoever_asks_again(tmp_path: Path, method: str, leaves: str) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer, other = await daemon.peer("one"), await daemon.peer("other")
            session = await other.session(str(tmp_path))
            await other.say(session, "hello")
            items = (await other.request("hermes/session/items", {"sessionId": session}))["items"]
            more = {
                "fork": {},
                "rewind": {"toItemId": items[0]["itemId"], "expectRev": 0},
                "rename": {"title": "another"},
                "archive": {"archived": True},
                "setOption": {"id": "mode", "value": "off"},
            }[method]
            params = {"sessionId": session, "key": "k", **more}
            with locked(tmp_path):
                call = peer.call(f"hermes/session/{method}", params)
                await leave(daemon, peer, call, leaves)
            first = await other.request(f"hermes/session/{method}", params)
            assert await other.request(f"hermes/session/{method}", params) == first
            sessions = (await other.request("hermes/session/list", {"archived": method == "archive"}))["sessions"]
            assert len(sessions) == (2 if method == "fork" else 1)
            assert (await other.say(session, "and now?"))["data"]["status"] == "completed"

    run(story())
