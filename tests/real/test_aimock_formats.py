"""aimock's surfaces of the other formats: Responses, Messages, Ollama's own chat; and the faults it injects there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_daemon.core.ports import ReasoningDelta, Request, ToolSpec
from hermes_daemon.core.settings import ProviderSettings
from hermes_daemon.providers.http_provider import HttpProvider
from hermes_protocol.content import Message, TextPart, ToolResult
from tests.support.aimock import Aimock, aimock
from tests.support.model_streams import answer, asking, collect
from tests.support.retrying import persistently

pytestmark = pytest.mark.real

TOOLS = (ToolSpec("read_file", "", {"type": "object"}), ToolSpec("list_files", "", {"type": "object"}))
MODELS = {"openai_responses": "gpt-4o", "anthropic_messages": "claude-sonnet-4-5", "ollama": "llama3.1"}
FIXTURES: list[dict[str, Any]] = [
    {"match": {"userMessage": "hello"}, "response": {"content": "Hello, how are you today?"}, "chunkSize": 3},
    {"match": {"userMessage": "think"}, "response": {"content": "42", "reasoning": "six times seven"}},
    {
        "match": {"userMessage": "read", "hasToolResult": False},
        "response": {
            "content": "Let me look.",
            "toolCalls": [
                {"name": "read_file", "arguments": '{"path": "a.txt"}'},
                {"name": "list_files", "arguments": "{}"},
            ],
        },
    },
    {"match": {"userMessage": "read", "hasToolResult": True}, "response": {"content": "It says A."}},
    {"match": {"userMessage": "slow"}, "response": {"content": "word " * 400}, "chunkSize": 4, "latency": 50},
    {
        "match": {"userMessage": "limited"},
        "response": {"error": {"message": "Rate limited", "type": "rate_limit_error"}, "status": 429, "retryAfter": 1},
    },
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
every_format = pytest.mark.parametrize("name", MODELS)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Aimock]:
    """One for each test: it counts how often a question came."""
    with aimock(FIXTURES, tmp_path) as running:
        yield running


def run(server: Aimock, name: str, use: Callable[[HttpProvider, str], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        settings = ProviderSettings(
            base_url=server.base_url,
            format=name,  # type: ignore[arg-type]
            api_key_env="K",
            stall_timeout=10,
        )
        provider = HttpProvider("aimock", settings, {"K": "test"}.get)
        try:
            return await use(provider, MODELS[name])
        finally:
            await provider.close()

    return asyncio.run(main())


@every_format
def test_text_thinking_and_a_round_of_tools(server: Aimock, name: str) -> None:
    async def use(provider: HttpProvider, model: str) -> None:
        chunks, failure = await collect(provider, asking("hello", model))
        assert failure is None, failure
        assert len(chunks) > 5
        assert (await answer(provider, asking("hello", model))).message.text == "Hello, how are you today?"

        chunks, failure = await collect(provider, asking("think", model))
        assert failure is None, failure
        assert "".join(c.text for c in chunks if isinstance(c, ReasoningDelta)) == "six times seven"

        first = await answer(provider, asking("read", model, tools=TOOLS))
        assert first.stop == "tool_calls"
        calls = first.message.calls
        assert [(call.name, json.loads(call.arguments)) for call in calls] == [
            ("read_file", {"path": "a.txt"}),
            ("list_files", {}),
        ]
        results = [Message("tool", (ToolResult(call.call_id, "A"),)) for call in calls]
        question = Message("user", (TextPart("read"),))
        second = await answer(provider, Request(model, "", (question, first.message, *results), TOOLS))
        assert (second.message.text, second.stop) == ("It says A.", "stop")

    run(server, name, use)


@every_format
def test_a_cancelled_answer_leaves_the_endpoint_usable(server: Aimock, name: str) -> None:
    async def use(provider: HttpProvider, model: str) -> None:
        stream = provider.stream(asking("slow", model))
        await anext(stream)
        await stream.aclose()
        assert (await answer(provider, asking("hello", model))).message.text

    run(server, name, use)


@every_format
def test_injected_errors_are_told(server: Aimock, name: str) -> None:
    async def use(provider: HttpProvider, model: str) -> None:
        _, failure = await collect(provider, asking("denied", model))
        assert failure is not None
        assert (failure.kind, failure.retryable) == ("auth", False)
        _, failure = await collect(provider, asking("limited", model))
        assert failure is not None
        assert (failure.kind, failure.status) == ("rate", 429)

    run(server, name, use)


@every_format
def test_a_truncated_stream_is_asked_again(server: Aimock, name: str) -> None:
    async def use(provider: HttpProvider, model: str) -> None:
        reply, failures = await persistently(provider, asking("truncated", model))
        assert reply is not None
        assert reply.message.text == "a whole answer"
        assert [f.kind in ("incomplete", "network") for f in failures] == [True]

    run(server, name, use)


@every_format
@pytest.mark.parametrize(
    ("fault", "kinds"),
    [
        ("malformedRate", ("malformed", "incomplete")),  # broken JSON without its newline is a line that was cut
        ("disconnectRate", ("network",)),
        ("dropRate", ("overload",)),
        ("rateLimitRate", ("rate",)),
    ],
)
def test_chaos_is_a_clear_failure(server: Aimock, name: str, fault: str, kinds: tuple[str, ...]) -> None:
    async def use(provider: HttpProvider, model: str) -> None:
        server.chaos(**{fault: 1.0})
        _, failure = await collect(provider, asking("hello", model))
        assert failure is not None
        assert failure.kind in kinds
        assert server.url in failure.message
        server.chaos()
        assert (await answer(provider, asking("hello", model))).message.text

    run(server, name, use)
