"""Whole turns of a daemon against aimock in every format: one that uses tools, one that is cancelled."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hermes_daemon.core.ports import ModelInfo, ToolContext, ToolOutcome
from hermes_daemon.core.settings import ProviderSettings
from hermes_daemon.providers.http_provider import HttpProvider
from tests.support.aimock import aimock
from tests.support.live import TestTool, live

pytestmark = pytest.mark.real

MODELS = {
    "openai_chat": "gpt-4o",
    "openai_responses": "gpt-4o",
    "anthropic_messages": "claude-sonnet-4-5",
    "ollama": "llama3.1",
}
FIXTURES: list[dict[str, Any]] = [
    {
        "match": {"userMessage": "read", "hasToolResult": False},
        "response": {"toolCalls": [{"name": "look", "arguments": '{"text": "a.txt"}'}]},
    },
    {"match": {"userMessage": "read", "hasToolResult": True}, "response": {"content": "It says A."}},
    {"match": {"userMessage": "slow"}, "response": {"content": "word " * 150}, "chunkSize": 5, "latency": 50},
    {"match": {"userMessage": "again"}, "response": {"content": "Here I am."}},
]


@pytest.mark.parametrize("name", MODELS)
def test_a_turn_with_tools_and_a_cancelled_one(tmp_path: Path, name: str) -> None:
    seen: list[dict[str, Any]] = []

    async def look(args: dict[str, Any], ctx: ToolContext) -> ToolOutcome:
        seen.append(args)
        return ToolOutcome("A")

    async def run(url: str) -> None:
        settings = ProviderSettings(base_url=url, format=name, api_key_env="K")  # type: ignore[arg-type]
        provider = HttpProvider("aimock", settings, {"K": "test"}.get)
        info = ModelInfo(f"aimock/{MODELS[name]}", MODELS[name], "aimock")
        tools = [TestTool("look", look, read_only=True)]
        async with live(str(tmp_path / "home"), provider=provider, info=info, tools=tools) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path))
            assert (await peer.say(session, "read"))["data"]["status"] == "completed"
            assert seen == [{"text": "a.txt"}]
            page = await peer.request("hermes/session/items", {"sessionId": session})
            assert page["items"][-1]["text"] == "It says A."

            peer.events.clear()
            await peer.submit(session, "slow")
            await peer.event("item.delta")
            await peer.request("hermes/turn/interrupt", {"sessionId": session})
            assert (await peer.event("turn.ended"))["data"]["status"] == "interrupted"
            assert (await peer.say(session, "again"))["data"]["status"] == "completed"
        await provider.close()

    (tmp_path / "home").mkdir()
    with aimock(FIXTURES, tmp_path) as server:
        asyncio.run(run(server.base_url))
