"""aimock as the scripted endpoint: text, thinking, tool rounds, parallel calls, and the errors it injects."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_daemon.core.ports import ReasoningDelta, Request, ToolSpec
from hermes_daemon.core.settings import ProviderSettings
from hermes_daemon.providers.http_provider import HttpProvider
from hermes_protocol.content import Message, TextPart, ToolResult, Usage
from tests.support.aimock import Aimock, aimock
from tests.support.model_streams import answer, asking, collect
from tests.support.retrying import persistently

pytestmark = pytest.mark.real

TOOLS = (ToolSpec("read_file", "", {"type": "object"}), ToolSpec("list_files", "", {"type": "object"}))
FIXTURES: list[dict[str, Any]] = [
    {"match": {"userMessage": "hello"}, "response": {"content": "Hello, how are you today?"}, "chunkSize": 3},
    {"match": {"userMessage": "think"}, "response": {"content": "42", "reasoning": "six times seven"}},
    {
        "match": {"userMessage": "read", "hasToolResult": False},
        "response": {
            "toolCalls": [
                {"name": "read_file", "arguments": '{"path": "a.txt"}'},
                {"name": "list_files", "arguments": "{}"},
            ]
        },
    },
    {"match": {"userMessage": "read", "hasToolResult": True}, "response": {"content": "It says A."}},
    {
        "match": {"userMessage": "counted"},
        "response": {"content": "x", "usage": {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14}},
    },
    {"match": {"userMessage": "cut"}, "response": {"content": "too long to", "finishReason": "length"}},
    {
        "match": {"userMessage": "limited", "sequenceIndex": 0},
        "response": {"error": {"message": "Rate limited", "type": "rate_limit_error"}, "status": 429, "retryAfter": 1},
    },
    {"match": {"userMessage": "limited", "sequenceIndex": 1}, "response": {"content": "patience"}},
    {
        "match": {"userMessage": "truncated", "sequenceIndex": 0},
        "response": {"content": "a longer answer that is cut in the middle"},
        "chunkSize": 4,
        "truncateAfterChunks": 3,
    },
    {"match": {"userMessage": "truncated", "sequenceIndex": 1}, "response": {"content": "a whole answer"}},
    {
        "match": {"userMessage": "denied"},
        "response": {"error": {"message": "Invalid key", "type": "authentication_error"}, "status": 401},
    },
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aimock]:
    folder: Path = tmp_path_factory.mktemp("aimock")
    with aimock(FIXTURES, folder) as running:
        yield running


def run(server: Aimock, use: Callable[[HttpProvider], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        chat = HttpProvider("aimock", ProviderSettings(base_url=server.base_url, stall_timeout=10), lambda _: None)
        try:
            return await use(chat)
        finally:
            await chat.close()

    return asyncio.run(main())


def test_text_comes_in_pieces(server: Aimock) -> None:
    async def use(chat: HttpProvider) -> None:
        chunks, failure = await collect(chat, asking("hello", "gpt-4o"))
        assert failure is None
        assert len(chunks) > 5
        assert (await answer(chat, asking("hello", "gpt-4o"))).message.text == "Hello, how are you today?"

    run(server, use)


def test_thinking_comes_apart_from_the_text(server: Aimock) -> None:
    async def use(chat: HttpProvider) -> None:
        chunks, _ = await collect(chat, asking("think", "gpt-4o"))
        assert "".join(c.text for c in chunks if isinstance(c, ReasoningDelta)) == "six times seven"
        assert (await answer(chat, asking("think", "gpt-4o"))).message.text == "42"

    run(server, use)


def test_a_round_of_parallel_tool_calls(server: Aimock) -> None:
    async def use(chat: HttpProvider) -> None:
        first = await answer(chat, asking("read", "gpt-4o", tools=TOOLS))
        assert first.stop == "tool_calls"
        calls = first.message.calls
        assert [call.name for call in calls] == ["read_file", "list_files"]
        assert len({call.call_id for call in calls}) == 2
        results = [Message("tool", (ToolResult(call.call_id, "A"),)) for call in calls]
        question = Message("user", (TextPart("read"),))
        second = await answer(chat, Request("gpt-4o", "", (question, first.message, *results), TOOLS))
        assert second.message.text == "It says A."

    run(server, use)


def test_usage_and_stops(server: Aimock) -> None:
    async def use(chat: HttpProvider) -> None:
        assert (await answer(chat, asking("counted", "gpt-4o"))).usage == Usage(11, 3)
        assert (await answer(chat, asking("cut", "gpt-4o"))).stop == "length"

    run(server, use)


def test_an_injected_rate_limit_is_waited_out(server: Aimock) -> None:
    async def use(chat: HttpProvider) -> None:
        reply, failures = await persistently(chat, asking("limited", "gpt-4o"))
        assert reply is not None
        assert reply.message.text == "patience"
        assert [(failure.kind, failure.retry_after) for failure in failures] == [("rate", 1.0)]

    run(server, use)


def test_a_truncated_stream_is_asked_again(server: Aimock) -> None:
    async def use(chat: HttpProvider) -> None:
        reply, failures = await persistently(chat, asking("truncated", "gpt-4o"))
        assert reply is not None
        assert reply.message.text == "a whole answer"
        assert len(failures) == 1
        assert failures[0].kind in ("incomplete", "network")

    run(server, use)


def test_a_refused_key_and_an_unknown_fixture_are_told_at_once(server: Aimock) -> None:
    async def use(chat: HttpProvider) -> None:
        reply, failures = await persistently(chat, asking("denied", "gpt-4o"))
        assert reply is None
        assert [failure.kind for failure in failures] == ["auth"]
        reply, failures = await persistently(chat, asking("no fixture has this", "gpt-4o"))
        assert reply is None
        assert failures[0].status == 404

    run(server, use)


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("malformedRate", "malformed"),
        ("disconnectRate", "network"),
        ("dropRate", "overload"),
        ("rateLimitRate", "rate"),
    ],
)
def test_chaos_of_every_kind_is_a_clear_failure(server: Aimock, fault: str, kind: str) -> None:
    async def use(chat: HttpProvider) -> None:
        _, failure = await collect(chat, asking("hello", "gpt-4o"))
        assert failure is not None
        assert failure.kind == kind
        assert server.url in failure.message

    server.chaos(**{fault: 1.0})
    try:
        run(server, use)
    finally:
        server.chaos()
    run(server, lambda chat: answer(chat, asking("hello", "gpt-4o")))
