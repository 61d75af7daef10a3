"""Many turns at once through the whole daemon while aimock drops, garbles and breaks off its answers at random: no
tool call runs twice or half, every turn ends once and says how, every session stays usable."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from hermes_daemon.core.ports import ModelInfo, ToolContext, ToolOutcome
from hermes_daemon.core.settings import ProviderSettings
from hermes_daemon.providers.http_provider import HttpProvider
from tests.support.aimock import Aimock, aimock
from tests.support.live import Live, TestTool, live

pytestmark = pytest.mark.real

MODELS = {
    "openai_chat": "gpt-4o",
    "openai_responses": "gpt-4o",
    "anthropic_messages": "claude-sonnet-4-5",
    "ollama": "llama3.1",
}
CALLS = [{"name": "left", "arguments": '{"text": "a"}'}, {"name": "right", "arguments": '{"text": "b"}'}]
FIXTURES: list[dict[str, Any]] = [
    {"match": {"userMessage": "again"}, "response": {"content": "Here I am."}},
    {
        "match": {"userMessage": "work", "hasToolResult": False},
        "response": {"content": "Let me do both of them.", "toolCalls": CALLS},
        "chunkSize": 4,
    },
    {
        "match": {"userMessage": "work", "hasToolResult": True},
        "response": {"content": "Both are done."},
        "chunkSize": 4,
    },
]
SESSIONS = 16
CHAOS = {"dropRate": 0.15, "malformedRate": 0.15, "disconnectRate": 0.15}
CONFIG = "agent: {api_max_retries: 2}\n"
Ran = Counter[tuple[str, str, str]]


async def one_turn(daemon: Live, name: str, folder: str) -> tuple[str, dict[str, Any], list[dict[str, Any]]]:
    """(session, what turn.ended says, every event) of one turn of a client of its own."""
    peer = await daemon.peer(name)
    session = await peer.session(folder)
    ended = await peer.say(session, "work")
    return session, ended["data"], [*peer.events, ended]


@pytest.mark.parametrize("name", MODELS)
def test_chaos_runs_no_call_twice_and_leaves_every_session_usable(tmp_path: Path, name: str) -> None:
    ran: Ran = Counter()

    def tool(side: str) -> TestTool:
        async def run(args: dict[str, Any], ctx: ToolContext) -> ToolOutcome:
            assert args == {"text": {"left": "a", "right": "b"}[side]}
            ran[ctx.session_id, side, ctx.call_id] += 1
            return ToolOutcome(f"{side} done")

        return TestTool(side, run, read_only=True)

    async def run(server: Aimock) -> None:
        settings = ProviderSettings(base_url=server.base_url, format=name, api_key_env="K")  # type: ignore[arg-type]
        provider = HttpProvider("aimock", settings, {"K": "test"}.get)
        info = ModelInfo(f"aimock/{MODELS[name]}", MODELS[name], "aimock")
        tools = [tool("left"), tool("right")]
        parts: dict[str, Any] = {"provider": provider, "info": info, "tools": tools, "config": CONFIG}
        async with live(str(tmp_path / "home"), **parts) as daemon:
            server.chaos(**CHAOS)
            try:
                turns = (one_turn(daemon, f"peer{n}", str(tmp_path)) for n in range(SESSIONS))
                outcomes = await asyncio.gather(*turns)
            finally:
                server.chaos()
            retried = sum(event["kind"] == "turn.retrying" for _, _, events in outcomes for event in events)
            assert retried, "there was no chaos"
            for session, ended, events in outcomes:
                check(ran, session, ended, events)
            peer = await daemon.peer("after")
            for session, _, _ in outcomes:
                await peer.request("hermes/session/subscribe", {"sessionId": session})
                assert (await peer.say(session, "again"))["data"]["status"] == "completed"
        await provider.close()

    with aimock(FIXTURES, tmp_path) as server:
        asyncio.run(run(server))


def check(ran: Ran, session: str, ended: dict[str, Any], events: list[dict[str, Any]]) -> None:
    mine = {key: count for key, count in ran.items() if key[0] == session}
    assert set(mine.values()) <= {1}, "a call ran twice"
    assert Counter(side for _, side, _ in mine) in ({}, {"left": 1, "right": 1})
    assert sum(event["kind"] == "turn.ended" for event in events) == 1
    if ended["status"] == "completed":
        assert len(mine) == 2
    else:
        assert ended["status"] == "failed"
        assert ended["error"]["kind"] in ("overload", "network", "malformed", "incomplete")
        assert ended["error"]["message"]
