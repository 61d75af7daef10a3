"""Middleware that a client runs for a session: registered, asked, answered, gone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes_daemon.core.ports import ToolContext, ToolOutcome
from hermes_daemon.middleware.registry import Registry
from tests.support.live import Live, Peer, TestTool
from tests.support.middleware_talk import WRITE, items, tell


class Spy:
    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self.tool = TestTool("write", self.run, read_only=True)

    async def run(self, args: dict[str, Any], ctx: ToolContext) -> ToolOutcome:
        self.calls.append(args)
        return ToolOutcome("wrote")


async def offer(peer: Peer, session: str, *points: str, **more: Any) -> list[str]:
    offers = [{"point": point, **more} for point in points]
    result = await peer.request("hermes/session/register", {"sessionId": session, "middleware": offers})
    names: list[str] = result.get("middleware", [])
    return names


async def asked(peer: Peer, point: str, **answer: Any) -> Any:
    """The next request, for that point; answered."""
    data = (await peer.event("request.opened"))["data"]
    assert (data["kind"], data["point"], bool(data["connectionId"])) == ("clientMiddleware", point, True)
    await peer.request("hermes/request/answer", {"requestId": data["requestId"], "answer": answer})
    return data["payload"]


@pytest.mark.parametrize(
    ("point", "result", "call", "said"),
    [
        ("tool_request", {"args": {"text": "y"}}, {"text": "y"}, "wrote"),
        ("tool_request", None, {"text": "x"}, "wrote"),
        ("pre_tool_call", {"action": "modify", "args": {"text": "z"}}, {"text": "z"}, "wrote"),
        ("tool_result", {"result": "changed"}, {"text": "x"}, "changed"),
        ("tool_result", "changed", {"text": "x"}, "changed"),
        ("output", {"text": "Bye."}, {"text": "x"}, "Bye."),
    ],
)
def test_a_client_changes_what_passes(tmp_path: Path, point: str, result: Any, call: Any, said: str) -> None:
    spy = Spy()

    async def story(daemon: Live, peer: Peer) -> None:
        session = await peer.session("/", model=WRITE)
        assert await offer(peer, session, point) == [point]
        await peer.submit(session, "go")
        payload = await asked(peer, point, result=result)
        if "args" in payload:
            assert (payload["tool_name"], payload["args"]) == ("write", {"text": "x"})
        await peer.event("turn.ended")
        [item] = await items(peer, session, "agentMessage")
        assert item["text"] == said

    tell(tmp_path, Registry(), story, tools=[spy.tool])
    assert spy.calls == [call]


def test_a_request_is_changed_in_its_known_shape_and_secrets_never_leave(tmp_path: Path) -> None:
    sent: list[Any] = []

    async def add(request: Any, _: Any) -> Any:
        return msgspec.structs.replace(request, extra_headers={"authorization": "Bearer abc"})

    async def note(request: Any, following: Any, _: Any) -> Any:
        sent.append(request)
        return await following()

    registry = Registry()
    registry.use("llm_request", add, owner="key")
    registry.use("llm_execution", note, owner="note")

    async def story(daemon: Live, peer: Peer) -> None:
        session = await peer.session("/")
        await offer(peer, session, "llm_request")
        await peer.submit(session, "go")
        data = (await peer.event("request.opened"))["data"]
        shown = data["payload"]
        assert shown["extra_headers"] == {"authorization": "[REDACTED]"}
        answer = {"requestId": data["requestId"], "answer": {"result": shown | {"temperature": 0.25}}}
        await peer.request("hermes/request/answer", answer)
        await peer.event("turn.ended")

    tell(tmp_path, registry, story)
    assert (sent[0].temperature, sent[0].extra_headers) == (0.25, {"authorization": "Bearer abc"})


def test_a_block_of_a_client_is_a_block(tmp_path: Path) -> None:
    spy = Spy()

    async def story(daemon: Live, peer: Peer) -> None:
        session = await peer.session("/", model=WRITE)
        await offer(peer, session, "pre_tool_call")
        await peer.submit(session, "go")
        await asked(peer, "pre_tool_call", result={"action": "block", "message": "not in this tree"})
        await peer.event("turn.ended")
        [item] = await items(peer, session, "toolCall")
        assert item["error"] == "Blocked by policy: not in this tree"

    tell(tmp_path, Registry(), story, tools=[spy.tool])
    assert spy.calls == []


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("answer", [{"error": "broken"}, {"result": 3}])
def test_a_client_that_fails_is_left_out_or_stops_the_call(tmp_path: Path, closed: bool, answer: Any) -> None:
    async def story(daemon: Live, peer: Peer) -> None:
        session = await peer.session("/")
        await offer(peer, session, "llm_request", failClosed=closed)
        await peer.submit(session, "go")
        await asked(peer, "llm_request", **answer)
        ended = (await peer.event("turn.ended"))["data"]
        assert ended["status"] == ("failed" if closed else "completed")
        if closed:
            assert ended["error"]["message"].startswith("client test failed at llm_request[0]")

    tell(tmp_path, Registry(), story)


def test_a_client_that_does_not_answer_in_time_is_not_waited_for(tmp_path: Path) -> None:
    async def story(daemon: Live, peer: Peer) -> None:
        session = await peer.session("/")
        await offer(peer, session, "output", timeoutMs=1)
        await peer.submit(session, "go")
        assert (await peer.event("request.resolved"))["data"]["outcome"] == "timeout"
        assert (await peer.event("turn.ended"))["data"]["status"] == "completed"

    tell(tmp_path, Registry(), story)


def test_only_its_own_connection_may_answer_and_it_goes_with_it(tmp_path: Path) -> None:
    spy = Spy()

    async def story(daemon: Live, peer: Peer) -> None:
        session = await peer.session("/", model=WRITE)
        editor = await daemon.peer("editor")
        await editor.request("hermes/session/subscribe", {"sessionId": session})
        await offer(editor, session, "tool_request")
        await peer.submit(session, "go")
        opened = (await peer.event("request.opened"))["data"]
        answer = {"requestId": opened["requestId"], "answer": {"result": {"args": {"text": "forged"}}}}
        assert (await peer.refused("hermes/request/answer", answer))["data"]["kind"] == "permission_denied"
        editor.close()
        assert (await peer.event("request.resolved"))["data"]["outcome"] == "lost"
        await peer.event("turn.ended")
        assert not daemon.room.sessions.get(session).middleware.has("tool_request")
        await peer.say(session, "again")

    tell(tmp_path, Registry(), story, tools=[spy.tool])
    assert spy.calls == [{"text": "x"}, {"text": "x"}]


@pytest.mark.parametrize(
    ("offers", "path"),
    [
        ([{"point": "output", "timeoutMs": 0}], "$.middleware[0].timeoutMs"),
        ([{"point": "output"}, {"point": "output"}], "$.middleware[1].point"),
        ([{"point": "session_start"}], "$.middleware[0].point"),
    ],
)
def test_an_offer_that_does_not_fit_is_refused_and_changes_nothing(tmp_path: Path, offers: Any, path: str) -> None:
    async def story(daemon: Live, peer: Peer) -> None:
        session = await peer.session("/")
        await offer(peer, session, "output")
        error = await peer.refused("hermes/session/register", {"sessionId": session, "middleware": offers})
        assert (error["code"], error["data"]["path"]) == (-32602, path)
        assert daemon.room.sessions.get(session).middleware.has("output")
        assert await offer(peer, session) == []
        assert not daemon.room.sessions.get(session).middleware.has("output")

    tell(tmp_path, Registry(), story)
