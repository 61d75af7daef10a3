"""Handed cases of the area stream, from the endpoint's bytes through a whole daemon to what a client is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from hermes_daemon.core.ports import ToolContext, ToolOutcome
from hermes_daemon.core.settings import ProviderSettings
from hermes_daemon.providers.http_provider import HttpProvider
from tests.support.live import Live, Peer, TestTool, live
from tests.support.raw_http import HttpConnection, HttpRequest, RawHttp
from tests.support.shared_data import case_bytes

FINE = (
    b'data: {"choices":[{"index":0,"delta":{"content":"all done"}}]}\n\n'
    b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
)
Story = Callable[[Live, Peer, str], Coroutine[Any, Any, None]]


def through_a_daemon(folder: Path, bodies: list[bytes], story: Story, *tools: str, retries: int = 0) -> None:
    """Run `story` in a session whose endpoint answers with `bodies`, one a request, the last one for ever."""
    asked = 0

    async def handler(request: HttpRequest, connection: HttpConnection) -> None:
        nonlocal asked
        await connection.begin_stream()
        await connection.piece(bodies[min(asked, len(bodies) - 1)])
        asked += 1
        await connection.end_stream()

    async def look(args: dict[str, Any], ctx: ToolContext) -> ToolOutcome:
        return ToolOutcome(f"saw {sorted(args.items())}")

    async def run() -> None:
        made = [TestTool(name, look, read_only=True) for name in tools]
        for tool in made:
            tool.card.parameters.pop("additionalProperties")
        async with RawHttp(handler) as server:
            chat = HttpProvider("acme", ProviderSettings(base_url=f"{server.url}/v1"), lambda _: None)
            config = f"agent:\n  api_max_retries: {retries}\n"
            async with live(str(folder), provider=chat, tools=made, config=config) as daemon:
                peer = await daemon.peer()
                await story(daemon, peer, await peer.session(str(folder)))
            await chat.close()

    asyncio.run(run())


async def answer_text(peer: Peer, session: str) -> str:
    page = await peer.request("hermes/session/items", {"sessionId": session})
    text: str = [item["text"] for item in page["items"] if item["type"] == "agentMessage"][-1]
    return text


@pytest.mark.parametrize(
    ("name", "text"),
    [("stream-data-no-space", "AB"), ("stream-keepalive-comment", "hi"), ("stream-usage-with-content", "last words")],
)
def test_a_stream_of_an_unusual_form_is_a_completed_turn(tmp_path: Path, name: str, text: str) -> None:
    async def story(daemon: Live, peer: Peer, session: str) -> None:
        assert (await peer.say(session, "go"))["data"]["status"] == "completed"
        assert await answer_text(peer, session) == text

    through_a_daemon(tmp_path, [case_bytes("stream", name, "body.sse")], story)


@pytest.mark.parametrize(
    ("name", "file", "kind"),
    [
        ("stream-malformed-chunk", "body.sse", "malformed"),
        ("chat-error-then-done", "error.sse", "overload"),
        ("chat-error-then-done", "bare.sse", "incomplete"),
    ],
)
def test_a_broken_stream_is_a_failed_turn_and_the_next_one_is_fine(
    tmp_path: Path, name: str, file: str, kind: str
) -> None:
    async def story(daemon: Live, peer: Peer, session: str) -> None:
        ended = (await peer.say(session, "go"))["data"]
        assert (ended["status"], ended["error"]["kind"], ended["error"]["retryable"]) == ("failed", kind, True)
        assert (await peer.say(session, "again"))["data"]["status"] == "completed"
        assert await answer_text(peer, session) == "all done"

    through_a_daemon(tmp_path, [case_bytes("stream", name, file), FINE], story)


@pytest.mark.parametrize(
    ("name", "calls"),
    [
        ("stream-parallel-same-index", [("web_search", '{"query":"Emma"}'), ("web_search", '{"query":"Virginia"}')]),
        ("stream-parallel-same-index-no-id", [("add", '{"a":2,"b":2}'), ("weather", '{"place":"Tokyo"}')]),
    ],
)
def test_parallel_calls_are_told_apart_and_each_is_run(tmp_path: Path, name: str, calls: list[tuple[str, str]]) -> None:
    async def story(daemon: Live, peer: Peer, session: str) -> None:
        assert (await peer.say(session, "go"))["data"]["status"] == "completed"
        page = await peer.request("hermes/session/items", {"sessionId": session})
        made = [item for item in page["items"] if item["type"] == "toolCall"]
        assert [(item["name"], item["args"].replace(" ", ""), item["status"]) for item in made] == [
            (tool, args, "completed") for tool, args in calls
        ]
        assert len({item["callId"] for item in made}) == 2
        assert await answer_text(peer, session) == "all done"

    body = case_bytes("stream", name, "body.sse")
    through_a_daemon(tmp_path, [body, FINE], story, *{tool for tool, _ in calls})
