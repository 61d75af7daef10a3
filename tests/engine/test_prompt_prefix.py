"""Prompt caches count the bytes that two requests share from the beginning. In a real turn with tools each request is
the one before it and more behind, in every format; what models want back goes back as it came."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes_daemon.core.ports import ModelInfo, ToolContext, ToolOutcome
from hermes_daemon.core.settings import ModelEntry, ProviderSettings
from hermes_daemon.providers.formats import FORMATS
from hermes_daemon.providers.http_provider import HttpProvider
from hermes_daemon.providers.model_traits import joined_traits
from hermes_daemon.providers.wire import Traits
from tests.support.formats_talk import FORMATS as NAMES
from tests.support.formats_talk import recorded
from tests.support.live import TestTool, live
from tests.support.raw_http import HttpConnection, HttpRequest, RawHttp

ROUNDS = 3
CACHE_MARK = b',"cache_control":{"type":"ephemeral"}'
THOUGHTS_GO = ("openai_chat", "ollama")  # these formats get the thoughts of the running turn only
SEALED = {"openai_responses": b'"gAAA"', "anthropic_messages": b'"signature"'}


def bodies(tmp_path: Path, name: str) -> list[bytes]:
    """The bodies of two turns of three rounds each; every round thinks, speaks and calls two tools."""
    sent: list[bytes] = []

    async def handler(request: HttpRequest, connection: HttpConnection) -> None:
        sent.append(request.body)
        await connection.begin_stream("application/x-ndjson" if FORMATS[name].lines else "text/event-stream")  # type: ignore[index]
        for piece in recorded(name):
            await connection.piece(piece.replace(b"call_", b"call_%d" % len(sent)))
        await connection.end_stream()

    async def tool(args: dict[str, Any], ctx: ToolContext) -> ToolOutcome:
        return ToolOutcome("what it says")

    async def run() -> None:
        async with RawHttp(handler) as server:
            settings = ProviderSettings(base_url=f"{server.url}/v1", format=name)  # type: ignore[arg-type]
            traits = joined_traits(ModelEntry("m", reasoning=True, cache=True), {}, Traits(), None)
            provider = HttpProvider("lab", settings, lambda _: None, traits=lambda _: traits)
            tools = [TestTool(each, tool, read_only=True) for each in ("read_file", "todo")]
            info = ModelInfo("lab/m", "m", "lab")
            config = f"agent: {{max_rounds: {ROUNDS}}}\n"
            async with live(str(tmp_path / "home"), provider=provider, info=info, tools=tools, config=config) as daemon:
                peer = await daemon.peer()
                session = await peer.session(str(tmp_path))
                for words in ("look at it", "once more"):
                    assert (await peer.say(session, words))["data"]["stop"] == "max_rounds"
            await provider.close()

    asyncio.run(run())
    return sent


def conversation(body: bytes) -> bytes:
    """The body up to the end of its last message."""
    decoded = msgspec.json.decode(body)
    rows = msgspec.json.encode(decoded.get("messages", decoded.get("input")))[:-1]
    at = body.index(rows)
    return body[: at + len(rows)]


@pytest.mark.parametrize("name", NAMES)
def test_each_request_of_a_turn_begins_with_all_of_the_one_before(tmp_path: Path, name: str) -> None:
    plain = [conversation(body.replace(CACHE_MARK, b"")) for body in bodies(tmp_path, name)]
    assert len(plain) == 2 * ROUNDS
    for turn in (plain[:ROUNDS], plain[ROUNDS:]):
        for before, after in pairwise(turn):
            assert after.startswith(before)
            assert len(after) > len(before)


@pytest.mark.parametrize("name", NAMES)
def test_the_next_turn_begins_with_the_last_one_as_far_as_its_thoughts_are_kept(tmp_path: Path, name: str) -> None:
    plain = [conversation(body.replace(CACHE_MARK, b"")) for body in bodies(tmp_path, name)]
    last = ROUNDS - 1 if name not in THOUGHTS_GO else 0  # where they go, what stood before the turn is shared
    assert plain[ROUNDS].startswith(plain[last])


def test_breakpoints_stand_where_the_next_request_still_agrees(tmp_path: Path) -> None:
    """What is marked in one request is within what the next one repeats, so that the cache is found again."""
    sent = bodies(tmp_path, "anthropic_messages")
    for before, after in pairwise(sent):
        told = conversation(before)
        marked = told[: told.rindex(CACHE_MARK)].replace(CACHE_MARK, b"")
        assert after.replace(CACHE_MARK, b"").startswith(marked)
        assert before.count(CACHE_MARK) > told.count(CACHE_MARK)  # system or tools have one as well


@pytest.mark.parametrize("name", SEALED)
def test_what_a_model_sealed_goes_back_byte_for_byte(tmp_path: Path, name: str) -> None:
    sent = bodies(tmp_path, name)
    assert sent[0].count(SEALED[name]) == 0
    assert sent[2].count(SEALED[name]) == 2
