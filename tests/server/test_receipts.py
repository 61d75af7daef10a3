"""Every method that changes something does it once for a key, and says the same again (decisions 9)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.live import Peer, live
from tests.support.loops import run

CASES: dict[str, tuple[dict[str, Any], dict[str, Any] | None]] = {
    # what is asked for, and what else could be: None where there is nothing else
    "hermes/session/rename": ({"title": "one"}, {"title": "two"}),
    "hermes/session/setOption": ({"id": "mode", "value": "off"}, {"id": "mode", "value": "manual"}),
    "hermes/turn/interrupt": ({"queue": "pause"}, {"queue": "clear"}),
    "hermes/queue/resume": ({}, None),
    "hermes/queue/reorder": ({"order": []}, {"order": [], "expectQueueRev": 99}),
    "hermes/session/delete": ({}, None),
}


async def all_at_once(peers: list[Peer], method: str, params: dict[str, Any]) -> list[Any]:
    calls = [(peer, peer.call(method, params)) for _ in range(3) for peer in peers]
    return [await peer.answer(call) for peer, call in calls]


@pytest.mark.parametrize("method", CASES)
def test_nine_requests_with_one_key_over_three_connections_and_a_restart_are_one(tmp_path: Path, method: str) -> None:
    same, other = CASES[method]

    async def story() -> None:
        home = str(tmp_path)
        async with live(home) as daemon:
            peers = [await daemon.peer(f"p{number}") for number in range(3)]
            session = await peers[0].session(home)
            params = {"sessionId": session, "key": "k", **same}
            answers = await all_at_once(peers, method, params)
            assert all("result" in frame for frame in answers), answers
            assert all(frame["result"] == answers[0]["result"] for frame in answers)
        async with live(home) as daemon:
            peer = await daemon.peer()
            assert await peer.request(method, params) == answers[0]["result"]
            if other is not None:
                error = await peer.refused(method, {"sessionId": session, "key": "k", **other})
                assert (error["code"], error["data"]["receipt"]) == (-32047, answers[0]["result"])

    run(story())


def test_a_session_that_somebody_else_deleted_is_deleted_for_every_other_key(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path))
            await peer.request("hermes/session/delete", {"sessionId": session, "key": "mine"})
            for more in ({}, {"key": "another"}):
                error = await peer.refused("hermes/session/delete", {"sessionId": session, **more})
                assert error["code"] == -32041

    run(story())
