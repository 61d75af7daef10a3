"""A round whose model call failed for good: another model, or a shorter request; nothing is done twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from hermes_daemon.core.ports import Chunk, ModelInfo, ProviderFailure, Reply, Request, ToolContext, ToolOutcome
from hermes_daemon.core.settings import ProviderSettings
from hermes_daemon.providers.http_provider import HttpProvider
from hermes_protocol.content import Message, TextPart, ToolCall, Usage
from tests.support.live import Live, Peer, TestTool, live
from tests.support.raw_http import HttpConnection, HttpRequest, RawHttp
from tests.support.shared_data import case

Events = list[dict[str, Any]]


def kinds(events: Events, kind: str) -> Events:
    return [event["data"] for event in events if event["kind"] == kind]


def turn(tmp_path: Path, model: str, config: str, check: Callable[[Live, Peer, str, dict[str, Any]], Any],
         **parts: Any) -> None:  # fmt: skip
    async def run() -> None:
        async with live(str(tmp_path / "home"), config=config, **parts) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path), model=model)
            ended = await peer.say(session, "hello there")
            await check(daemon, peer, session, ended["data"])

    asyncio.run(run())


@pytest.mark.parametrize("kind", ["auth", "quota", "model_missing", "overload"])
def test_the_turn_goes_on_with_the_first_fallback_that_is_there(tmp_path: Path, kind: str) -> None:
    async def check(daemon: Live, peer: Peer, session: str, ended: dict[str, Any]) -> None:
        assert ended["status"] == "completed"
        retrying = kinds(peer.events, "turn.retrying")
        assert retrying[-1]["model"] == "scripted/echo"
        assert retrying[-1]["error"]["kind"] == kind
        assert "model.fallback" in [notice["code"] for notice in kinds(peer.events, "notice")]
        rows = (await peer.request("hermes/usage/get", {"sessionId": session}))["byModel"]
        assert rows[0]["name"] == "scripted/echo"
        summary = (await peer.request("hermes/session/get", {"sessionId": session}))["session"]
        assert summary["model"].startswith("scripted/fail")  # the next turn begins with its own model again

    config = "agent: {api_max_retries: 0}\nmodel: {fallbacks: [nobody/none, scripted/echo]}\n"
    turn(tmp_path, f"scripted/fail?kind={kind}&times=0", config, check)


def test_what_was_shown_of_the_failed_call_is_taken_back(tmp_path: Path) -> None:
    async def check(daemon: Live, peer: Peer, session: str, ended: dict[str, Any]) -> None:
        assert len(kinds(peer.events, "item.discarded")) == 1
        page = await peer.request("hermes/session/items", {"sessionId": session})
        texts = [item["text"] for item in page["items"] if item["type"] == "agentMessage"]
        assert texts == ["hello there"]

    config = "agent: {api_max_retries: 0}\nmodel: {fallbacks: [scripted/echo]}\n"
    turn(tmp_path, "scripted/fail?kind=network&times=0&after=2", config, check)


@pytest.mark.parametrize("kind", ["bad_request", "content_filter"])
def test_a_failure_of_the_request_itself_follows_to_no_other_model(tmp_path: Path, kind: str) -> None:
    async def check(daemon: Live, peer: Peer, session: str, ended: dict[str, Any]) -> None:
        assert ended["status"] in ("failed", "refused")
        assert ended["error"]["kind"] == kind
        assert not kinds(peer.events, "turn.retrying")

    turn(tmp_path, f"scripted/fail?kind={kind}&times=0", "model: {fallbacks: [scripted/echo]}\n", check)


def test_when_every_fallback_fails_the_last_failure_is_told_and_each_was_asked_once(tmp_path: Path) -> None:
    async def check(daemon: Live, peer: Peer, session: str, ended: dict[str, Any]) -> None:
        assert ended["status"] == "failed"
        assert ended["error"]["kind"] == "quota"
        assert [row["model"] for row in kinds(peer.events, "turn.retrying")] == ["scripted/fail?kind=quota&times=0"]
        assert (await peer.request("hermes/session/get", {"sessionId": session}))["state"] == "idle"

    config = "agent: {api_max_retries: 0}\nmodel: {fallbacks: ['scripted/fail?kind=quota&times=0']}\n"
    turn(tmp_path, "scripted/fail?kind=auth&times=0", config, check)


def test_a_wait_before_the_next_attempt_is_broken_off_by_an_interrupt(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(str(tmp_path / "home")) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path), model="scripted/fail?kind=rate&times=0&retry_after=100")
            await peer.submit(session, "x")
            waits = await peer.event("turn.retrying")
            assert waits["data"]["delayMs"] >= 100_000
            await peer.request("hermes/turn/interrupt", {"sessionId": session})
            assert (await peer.event("turn.ended"))["data"]["status"] == "interrupted"

    asyncio.run(run())


def test_a_stream_that_falls_silent_between_two_chunks_is_told_and_asked_again(tmp_path: Path) -> None:
    asked = 0

    async def handler(request: HttpRequest, connection: HttpConnection) -> None:
        nonlocal asked
        asked += 1
        await connection.begin_stream()
        await connection.piece(b'data: {"choices":[{"index":0,"delta":{"content":"Hel"}}]}\n\n')
        if asked == 1:
            await connection.gone.wait()
            return
        await connection.piece(b'data: {"choices":[{"index":0,"delta":{"content":"lo"},"finish_reason":"stop"}]}\n\n')
        await connection.piece(b"data: [DONE]\n\n")
        await connection.end_stream()

    async def run() -> None:
        async with RawHttp(handler) as server:
            provider = HttpProvider("lab", ProviderSettings(base_url=server.url, stall_timeout=0.2), {}.get)
            info = ModelInfo("lab/m", "m", "lab")
            async with live(str(tmp_path / "home"), provider=provider, info=info) as daemon:
                peer = await daemon.peer()
                session = await peer.session(str(tmp_path))
                assert (await peer.say(session, "hello"))["data"]["status"] == "completed"
                assert [row["error"]["kind"] for row in kinds(peer.events, "turn.retrying")] == ["stall"]
                page = await peer.request("hermes/session/items", {"sessionId": session})
                assert page["items"][-1]["text"] == "Hello"
                spent = await peer.request("hermes/usage/get", {"sessionId": session})
                assert spent["byTask"][0]["calls"] == 2  # the one that broke off is billed as well
            await provider.close()

    asyncio.run(run())


class Narrow:
    """A provider that asks for a big file, refuses what is longer than it likes, and then answers in words."""

    name = "test"

    def __init__(self, most_chars: int, limit: int | None = None) -> None:
        self.most_chars, self.limit = most_chars, limit
        self.requests: list[Request] = []

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        self.requests.append(request)
        results = [result for message in request.messages for result in message.results]
        if sum(len(result.text) for result in results) > self.most_chars:
            text = "too long: your prompt has more tokens than the model reads"
            raise ProviderFailure("context_overflow", text, provider="test", status=400, context_limit=self.limit)
        if not results:
            call = ToolCall("c1", "look", '{"text": "big"}')
            yield Reply(Message("assistant", (call,)), "tool_calls", Usage(10, 1))
            return
        yield Reply(Message("assistant", (TextPart("I have read it."),)), "stop", Usage(20, 2))

    async def close(self) -> None:
        return None


def narrow_turn(tmp_path: Path, provider: Narrow) -> tuple[dict[str, Any], Events, int, dict[str, Any]]:
    """(turn.ended, all events, how often the tool ran, the next turn's end)."""
    ran = 0

    async def look(args: dict[str, Any], ctx: ToolContext) -> ToolOutcome:
        nonlocal ran
        ran += 1
        return ToolOutcome("line of a file\n" * 3000)

    async def run() -> tuple[dict[str, Any], Events, int, dict[str, Any]]:
        info = ModelInfo("test/model", "model", "test", context_length=200_000)
        tools = [TestTool("look", look, read_only=True)]
        async with live(str(tmp_path / "home"), provider=provider, info=info, tools=tools) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path))
            ended = await peer.say(session, "read the file")
            events, count = list(peer.events), ran
            provider.most_chars = 1_000_000
            return ended["data"], events, count, (await peer.say(session, "go on"))["data"]

    return asyncio.run(run())


def test_an_overflow_in_the_middle_of_a_turn_is_sent_again_shorter_and_the_turn_goes_on(tmp_path: Path) -> None:
    case("provider", "overflow-inside-turn")
    provider = Narrow(40_000)
    ended, events, ran, _ = narrow_turn(tmp_path, provider)
    assert ended["status"] == "completed"
    assert ran == 1
    assert len(provider.requests) == 4  # the last is the next turn's
    cut = provider.requests[2].messages[-1].results[0].text
    assert "are left out here" in cut
    codes = [notice["code"] for notice in kinds(events, "notice")]
    assert codes == ["context.retried", "context.trimmed"]
    assert kinds(events, "turn.retrying")[0]["error"]["kind"] == "context_overflow"


def test_a_second_overflow_in_a_turn_is_a_clear_error_and_the_session_stays_usable(tmp_path: Path) -> None:
    provider = Narrow(100)
    ended, events, ran, after = narrow_turn(tmp_path, provider)
    assert (ended["status"], ended["stop"]) == ("failed", "context_overflow")
    assert "too long" in ended["error"]["message"]
    assert ran == 1
    assert len(kinds(events, "turn.retrying")) == 1
    assert after["status"] == "completed"


def test_errors_of_an_overflow_are_never_sent_to_the_model(tmp_path: Path) -> None:
    provider = Narrow(100)
    narrow_turn(tmp_path, provider)
    sent = "".join(part.text for part in provider.requests[-1].messages[-1].parts if isinstance(part, TextPart))
    everything = "".join(map(str, provider.requests[-1].messages))
    assert sent == "go on"
    assert "more tokens than the model reads" not in everything
