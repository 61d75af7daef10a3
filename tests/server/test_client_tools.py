"""Tools that a client runs for a session: offered, listed, approved, called, answered, gone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hermes_daemon.core.ports import ToolContext, ToolOutcome
from tests.support.live import Live, Peer, TestTool, live
from tests.support.loops import run

SHOWS: dict[str, Any] = {"requests": ["permission", "clientTool"], "maxLatencyMs": 0}
PARAMETERS = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
OFFER = {"name": "open_file", "description": "Show a file.", "parameters": PARAMETERS, "readOnly": True}
CALLING = 'scripted/tool?name=open_file&args={"text":"a.txt"}'


async def look(args: dict[str, Any], ctx: ToolContext) -> ToolOutcome:
    return ToolOutcome("looked")


async def editor(daemon: Live, name: str = "editor") -> Peer:
    return await daemon.peer(name, capabilities=SHOWS)


async def register(peer: Peer, session: str, *offers: dict[str, Any]) -> list[str]:
    result = await peer.request("hermes/session/register", {"sessionId": session, "tools": list(offers)})
    names: list[str] = result["tools"]
    return names


async def rows(peer: Peer, session: str) -> dict[str, dict[str, Any]]:
    listed = await peer.request("hermes/tool/list", {"sessionId": session})
    return {row["name"]: row for row in listed["tools"]}


async def call_item(peer: Peer, session: str) -> dict[str, Any]:
    page = await peer.request("hermes/session/items", {"sessionId": session})
    item: dict[str, Any] = [item for item in page["items"] if item["type"] == "toolCall"][-1]
    return item


def answer(request: dict[str, Any], **given: Any) -> dict[str, Any]:
    return {"requestId": request["data"]["requestId"], "answer": given}


def test_the_model_calls_a_tool_that_a_client_runs(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer, other = await editor(daemon), await daemon.peer("other")
            session = await peer.session(str(tmp_path), model=CALLING)
            await other.request("hermes/session/subscribe", {"sessionId": session})
            assert await register(peer, session, OFFER | {"timeoutMs": 5000}) == ["open_file"]
            row = (await rows(other, session))["open_file"]
            assert (row["source"], row["toolset"], row["readOnly"]) == ("client editor", "client", True)
            await other.submit(session, "go")
            opened = await peer.event("request.opened")
            data = opened["data"]
            assert (data["kind"], data["name"], data["args"]) == ("clientTool", "open_file", '{"text":"a.txt"}')
            assert (data["timeoutMs"], bool(data["callId"])) == (5000, True)
            assert (await peer.request("hermes/session/get", {"sessionId": session}))["state"] == "running"
            error = await other.refused("hermes/request/answer", answer(opened, result="forged"))
            assert error["data"]["kind"] == "permission_denied"
            given = await peer.request("hermes/request/answer", answer(opened, result={"shown": True}))
            assert given["outcome"] == "answered"
            await peer.event("turn.ended")
            item = await call_item(peer, session)
            assert (item["status"], item["output"]["text"]) == ("completed", '{"shown":true}')
            started = next(event for event in events(peer) if event["kind"] == "item.started"
                           and event["data"]["item"]["type"] == "toolCall")  # fmt: skip
            assert started["seq"] < opened["seq"]

    run(story())


def events(peer: Peer) -> list[dict[str, Any]]:
    return [frame["params"] for frame in peer.order if frame.get("method") == "hermes/event"]


def test_a_tool_that_may_change_something_is_approved_first(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await editor(daemon)
            session = await peer.session(str(tmp_path), model=CALLING)
            await register(peer, session, OFFER | {"readOnly": False})
            await peer.submit(session, "go")
            permission = await peer.event("request.opened")
            assert (permission["data"]["kind"], permission["data"]["toolCall"]["name"]) == ("permission", "open_file")
            await peer.request("hermes/request/answer", answer(permission, optionId="allow_once"))
            call = await peer.event("request.opened")
            assert call["data"]["kind"] == "clientTool"
            await peer.request("hermes/request/answer", answer(call, error="no such file"))
            await peer.event("turn.ended")
            assert (await call_item(peer, session))["error"] == "Error: no such file"

    run(story())


@pytest.mark.parametrize("way", ["close", "unsubscribe", "shutdown"])
def test_the_call_is_lost_with_the_client_that_ran_it(tmp_path: Path, way: str) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer, watcher = await editor(daemon), await daemon.peer("watcher")
            session = await peer.session(str(tmp_path), model=CALLING)
            await watcher.request("hermes/session/subscribe", {"sessionId": session})
            await register(peer, session, OFFER)
            await watcher.submit(session, "go")
            await watcher.event("request.opened")
            if way == "close":
                peer.close()
            elif way == "shutdown":
                await peer.request("shutdown")
            else:
                await peer.request("hermes/session/unsubscribe", {"sessionId": session})
            assert (await watcher.event("request.resolved"))["data"]["outcome"] == "lost"
            assert (await watcher.event("turn.ended"))["data"]["status"] == "completed"
            assert "the client that ran it is gone" in (await call_item(watcher, session))["error"]
            assert "open_file" not in await rows(watcher, session)

    run(story())


def test_subscribing_again_keeps_the_tools_and_the_call(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await editor(daemon)
            session = await peer.session(str(tmp_path), model=CALLING)
            await register(peer, session, OFFER)
            await peer.submit(session, "go")
            opened = await peer.event("request.opened")
            await peer.request("hermes/session/subscribe", {"sessionId": session})
            assert "open_file" in await rows(peer, session)
            await peer.request("hermes/request/answer", answer(opened, result="shown"))
            await peer.event("turn.ended")
            assert (await call_item(peer, session))["output"]["text"] == "shown"

    run(story())


def test_registering_again_replaces_and_registering_nothing_takes_away(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await editor(daemon)
            session = await peer.session(str(tmp_path), model=CALLING)
            await register(peer, session, OFFER, OFFER | {"name": "close_file"})
            await register(peer, session, OFFER | {"name": "save_file"})
            assert list(await rows(peer, session)) == ["save_file"]
            await peer.say(session, "go")
            assert "there is no tool 'open_file'" in (await call_item(peer, session))["error"]
            assert await register(peer, session) == []
            assert await rows(peer, session) == {}

    run(story())


@pytest.mark.parametrize(
    ("offers", "path"),
    [
        ([OFFER | {"name": "look"}], "$.tools[0].name"),
        ([OFFER, OFFER], "$.tools[1].name"),
        ([OFFER | {"name": "theirs"}], "$.tools[0].name"),
        ([OFFER | {"name": "a b"}], "$.tools[0].name"),
        ([OFFER | {"name": ""}], "$.tools[0].name"),
        ([OFFER | {"name": "x" * 65}], "$.tools[0].name"),
        ([OFFER | {"parameters": {"type": "array"}}], "$.tools[0].parameters.type"),
        ([OFFER | {"parameters": {"properties": []}}], "$.tools[0].parameters.properties"),
        ([OFFER | {"timeoutMs": 0}], "$.tools[0].timeoutMs"),
    ],
)
def test_an_offer_that_does_not_fit_is_refused_and_changes_nothing(
    tmp_path: Path, offers: list[dict[str, Any]], path: str
) -> None:
    async def story() -> None:
        async with live(str(tmp_path), tools=[TestTool("look", look)]) as daemon:
            peer, other = await editor(daemon), await daemon.peer("other")
            session = await peer.session(str(tmp_path))
            await other.request("hermes/session/subscribe", {"sessionId": session})
            await register(other, session, OFFER | {"name": "theirs"})
            await register(peer, session, OFFER | {"name": "before"})
            error = await peer.refused("hermes/session/register", {"sessionId": session, "tools": offers})
            assert (error["code"], error["data"]["path"]) == (-32602, path)
            assert set(await rows(peer, session)) == {"look", "theirs", "before"}

    run(story())


def test_only_a_controller_that_follows_the_session_may_offer_tools(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            owner, stranger = await editor(daemon), await editor(daemon, "stranger")
            observer = await daemon.peer("o", client={"id": "o", "name": "o", "role": "observer"})
            session = await owner.session(str(tmp_path))
            await observer.request("hermes/session/subscribe", {"sessionId": session})
            params = {"sessionId": session, "tools": [OFFER]}
            assert (await stranger.refused("hermes/session/register", params))["code"] == -32043
            assert (await observer.refused("hermes/session/register", params))["code"] == -32048

    run(story())


def test_a_client_that_declines_its_own_tool_ends_the_call(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await editor(daemon)
            session = await peer.session(str(tmp_path), model=CALLING)
            await register(peer, session, OFFER)
            await peer.submit(session, "go")
            opened = await peer.event("request.opened")
            declined = await peer.request("hermes/request/answer", answer(opened, decline=True))
            assert declined["outcome"] == "declined"
            await peer.event("turn.ended")
            assert "will not run it" in (await call_item(peer, session))["error"]

    run(story())


def test_a_client_that_gives_no_result_in_time_is_not_waited_for(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await editor(daemon)
            session = await peer.session(str(tmp_path), model=CALLING)
            await register(peer, session, OFFER | {"timeoutMs": 1})
            await peer.submit(session, "go")
            assert (await peer.event("request.resolved"))["data"]["outcome"] == "timeout"
            await peer.event("turn.ended")
            assert "gave no result within 0.001 s" in (await call_item(peer, session))["error"]

    run(story())


def test_a_long_result_is_cut_for_the_model_and_whole_for_people(tmp_path: Path) -> None:
    async def story() -> None:
        config = "tool_output:\n  max_bytes: 100\n"
        async with live(str(tmp_path), config=config) as daemon:
            peer = await editor(daemon)
            session = await peer.session(str(tmp_path), model=CALLING)
            await register(peer, session, OFFER)
            await peer.submit(session, "go")
            opened = await peer.event("request.opened")
            await peer.request("hermes/request/answer", answer(opened, result="a" * 500 + "b" * 500))
            await peer.event("turn.ended")
            page = await peer.request("hermes/session/items", {"sessionId": session})
            assert page["items"][1]["output"]["text"] == "a" * 500 + "b" * 500
            assert "a" * 40 + "\n[… 900 characters left out …]\n" + "b" * 60 in page["items"][-1]["text"]

    run(story())
