"""llmock judges the other formats as it judges chat completions: its verdict has to be clean."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from hermes_daemon.core.ports import ProviderFailure, Reply, ToolSpec
from hermes_daemon.core.settings import ProviderSettings
from hermes_daemon.providers.http_provider import HttpProvider
from tests.support.llmock import Llmock, llmock
from tests.support.model_streams import asking
from tests.support.retrying import persistently

pytestmark = pytest.mark.real

PLACES = {"openai_responses": ("/v1", "gpt-4o"), "anthropic_messages": ("/anthropic", "claude-sonnet-4-5")}
SAY = {"type": "reply", "text": "one two three four five six seven"}
every_format = pytest.mark.parametrize("name", PLACES)


@pytest.fixture(scope="module")
def server() -> Iterator[Llmock]:
    with llmock() as running:
        yield running


def ask(
    server: Llmock, name: str, *behaviours: dict[str, Any], stall_timeout: float = 30.0, **fields: Any
) -> tuple[Reply | None, list[ProviderFailure]]:
    """What comes of one call while these faults are ordered; the verdict is checked, warnings count."""
    server.reset()
    if behaviours:
        server.order(*behaviours)
    path, model = PLACES[name]

    async def run() -> tuple[Reply | None, list[ProviderFailure]]:
        settings = ProviderSettings(
            base_url=server.url + path,
            format=name,  # type: ignore[arg-type]
            api_key_env="K",
            stall_timeout=stall_timeout,
        )
        provider = HttpProvider("llmock", settings, {"K": "test-key"}.get)
        try:
            return await persistently(provider, asking("What is the weather?", model, **fields))
        finally:
            await provider.close()

    outcome = asyncio.run(run())
    assert server.findings() == []
    return outcome


@every_format
def test_an_undisturbed_answer(server: Llmock, name: str) -> None:
    reply, failures = ask(server, name, SAY)
    assert failures == []
    assert reply is not None
    assert reply.message.text == "one two three four five six seven"
    assert reply.usage is not None
    assert reply.usage.output_tokens > 0


@every_format
@pytest.mark.parametrize("status", [429, 500, 529])
def test_passing_errors_are_outlived(server: Llmock, name: str, status: int) -> None:
    reply, failures = ask(server, name, {"type": "fail", "status": status, "times": 2}, SAY)
    assert reply is not None
    assert [failure.status for failure in failures] == [status, status]


@every_format
def test_an_asked_wait_is_waited(server: Llmock, name: str) -> None:
    reply, failures = ask(server, name, {"type": "fail", "status": 429, "retry_after": 1.2}, SAY)
    assert reply is not None
    assert failures[0].retry_after == pytest.approx(1.2)


@every_format
@pytest.mark.parametrize(("status", "kind"), [(400, "bad_request"), (401, "auth"), (403, "auth")])
def test_lasting_errors_are_told_at_once(server: Llmock, name: str, status: int, kind: str) -> None:
    reply, failures = ask(server, name, {"type": "fail", "status": status, "times": 5}, SAY)
    assert reply is None
    assert [failure.kind for failure in failures] == [kind]


@every_format
@pytest.mark.parametrize(
    ("fault", "kind"),
    [("disconnect", "network"), ("truncate", "incomplete"), ("malformed", "malformed"), ("stall", "stall")],
)
def test_a_broken_stream_is_never_taken_for_an_answer(server: Llmock, name: str, fault: str, kind: str) -> None:
    broken = {"type": "stream_fault", "kind": fault, "after_chunks": 3, "stall_seconds": 3.0}
    long = {"type": "reply", "text": "word " * 20_000}
    reply, failures = ask(server, name, broken, long, SAY, stall_timeout=0.5)
    assert [failure.kind for failure in failures] == [kind]
    assert reply is not None
    assert reply.message.text == "one two three four five six seven"


@every_format
def test_tool_calls_come_whole(server: Llmock, name: str) -> None:
    tools = (ToolSpec("get_weather", "", {"type": "object", "properties": {"city": {"type": "string"}}}),)
    call = {"type": "reply", "tool_calls": [{"name": "get_weather", "arguments": {"city": "Paris, the one in France"}}]}
    reply, _ = ask(server, name, call, tools=tools)
    assert reply is not None
    assert reply.stop == "tool_calls"
    assert "Paris, the one in France" in reply.message.calls[0].arguments
