"""The reasoning effort of a session, checked against its model when it is set."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from hermes_daemon.core.ports import ModelInfo
from hermes_daemon.engine.host import EngineHost
from hermes_daemon.engine.session_row import refusal
from hermes_daemon.providers.scripted import Scripted
from hermes_protocol.errors import ProtocolError
from tests.support.live import Live, Peer, live


def with_model(tmp_path: Path, efforts: tuple[str, ...] | None,
               work: Callable[[Live, Peer], Awaitable[None]]) -> None:  # fmt: skip
    async def run() -> None:
        info = ModelInfo("scripted/hang", "hang", "scripted", efforts=efforts)
        async with live(str(tmp_path / "home"), provider=Scripted(), info=info) as daemon:
            await work(daemon, await daemon.peer())

    asyncio.run(run())


async def refused(peer: Peer, method: str, params: dict[str, object]) -> str:
    peer.send({"jsonrpc": "2.0", "id": "r", "method": method, "params": params})
    error = (await peer.answer("r"))["error"]
    assert error["data"]["kind"] == "invalid_params"
    return str(error["message"])


def test_an_effort_the_model_does_not_take_is_refused_with_those_it_takes(tmp_path: Path) -> None:
    async def work(daemon: Live, peer: Peer) -> None:
        session = await peer.session(str(tmp_path))
        option = {"sessionId": session, "id": "thinking"}
        text = await refused(peer, "hermes/session/setOption", {**option, "value": "ultra"})
        assert "takes no reasoning effort ultra; it takes low, high" in text
        text = await refused(peer, "hermes/session/setOption", {**option, "value": "lots"})
        assert "none, minimal, low, medium, high, xhigh, max, ultra" in text
        taken = await peer.request("hermes/session/setOption", {**option, "value": "high"})
        assert taken["options"]["thinking"] == "high"
        created = {"cwd": str(tmp_path), "options": {"thinking": "max"}}
        assert "$.options.thinking" in await refused(peer, "hermes/session/create", created)

    with_model(tmp_path, ("low", "high"), work)


def test_a_model_nobody_knows_is_left_to_say_no(tmp_path: Path) -> None:
    async def work(daemon: Live, peer: Peer) -> None:
        session = await peer.session(str(tmp_path), options={"thinking": "ultra"})
        assert daemon.room.sessions.get(session).row.options.thinking == "ultra"

    with_model(tmp_path, None, work)


def test_the_effort_of_the_running_turn_is_checked_holds_for_it_alone_and_is_gone_after(tmp_path: Path) -> None:
    async def work(daemon: Live, peer: Peer) -> None:
        host = EngineHost(daemon.room.sessions.get)
        session = await peer.session(str(tmp_path))
        assert host.set_turn_reasoning(session, "low", "") == "no turn runs"
        await peer.submit(session, "x")
        await peer.event("turn.started")
        assert "it takes low, high" in host.set_turn_reasoning(session, "max", "")
        assert host.set_turn_reasoning(session, "high", "") == ""
        runner = daemon.room.sessions.get(session).runner
        assert runner is not None
        assert runner.thinking == "high"
        await peer.request("hermes/turn/interrupt", {"sessionId": session})
        await peer.event("turn.ended")
        await peer.submit(session, "y")
        await peer.event("turn.started")
        later = daemon.room.sessions.get(session).runner
        assert later is not None
        assert later is not runner
        assert later.thinking is None

    with_model(tmp_path, ("low", "high"), work)


@pytest.mark.parametrize("efforts", [(), ("none",)])
def test_a_model_that_does_not_reason_is_told_as_such(efforts: tuple[str, ...]) -> None:
    assert "does not reason" in refusal(ModelInfo("a/b", "b", "a", efforts=efforts), "low")


def test_an_unknown_session_is_an_error() -> None:
    def nobody(session_id: str) -> None:
        raise ProtocolError("session_not_found", session_id)

    with pytest.raises(ProtocolError, match="s1"):
        EngineHost(nobody).set_turn_reasoning("s1", "low", "")  # type: ignore[arg-type]
