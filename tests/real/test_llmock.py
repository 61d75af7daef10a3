"""llmock judges the provider together with the retry rule: whatever it breaks, its verdict has to be clean."""

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


@pytest.fixture(scope="module")
def server() -> Iterator[Llmock]:
    with llmock() as running:
        yield running


def ask(
    server: Llmock, *behaviours: dict[str, Any], stall_timeout: float = 30.0, **fields: Any
) -> tuple[Reply | None, list[ProviderFailure]]:
    """What comes of one call while these faults are ordered; the verdict is checked, warnings count."""
    server.reset()
    if behaviours:
        server.order(*behaviours)

    async def run() -> tuple[Reply | None, list[ProviderFailure]]:
        settings = ProviderSettings(base_url=server.base_url, api_key_env="K", stall_timeout=stall_timeout)
        chat = HttpProvider("llmock", settings, lambda _: "test-key")
        try:
            return await persistently(chat, asking("What is the weather?", "gpt-4o", **fields))
        finally:
            await chat.close()

    outcome = asyncio.run(run())
    assert server.findings() == []
    return outcome


SAY = {"type": "reply", "text": "one two three four five six seven"}


def test_an_undisturbed_answer(server: Llmock) -> None:
    reply, failures = ask(server, SAY)
    assert reply is not None
    assert reply.message.text == "one two three four five six seven"
    assert reply.usage is not None
    assert reply.usage.output_tokens > 0
    assert failures == []


@pytest.mark.parametrize("status", [429, 500, 502, 503, 529])
def test_passing_errors_are_outlived(server: Llmock, status: int) -> None:
    reply, failures = ask(server, {"type": "fail", "status": status, "times": 2}, SAY)
    assert reply is not None
    assert [failure.status for failure in failures] == [status, status]


def test_an_asked_wait_is_waited(server: Llmock) -> None:
    reply, failures = ask(server, {"type": "fail", "status": 429, "retry_after": 1.2}, SAY)
    assert reply is not None
    assert failures[0].retry_after == pytest.approx(1.2)


@pytest.mark.parametrize(("status", "kind"), [(400, "bad_request"), (401, "auth"), (403, "auth"), (422, "bad_request")])
def test_lasting_errors_are_told_at_once(server: Llmock, status: int, kind: str) -> None:
    reply, failures = ask(server, {"type": "fail", "status": status, "times": 5}, SAY)
    assert reply is None
    assert [failure.kind for failure in failures] == [kind]


def test_a_full_context_is_told_at_once(server: Llmock) -> None:
    words = "This model's maximum context length was exceeded."
    reply, failures = ask(server, {"type": "fail", "status": 400, "code": "context_length_exceeded", "message": words})
    assert reply is None
    assert failures[0].kind == "context_overflow"


@pytest.mark.parametrize(
    ("fault", "kind"),
    [("disconnect", "network"), ("truncate", "incomplete"), ("malformed", "malformed"), ("stall", "stall")],
)
def test_a_broken_stream_is_never_taken_for_an_answer(server: Llmock, fault: str, kind: str) -> None:
    broken = {"type": "stream_fault", "kind": fault, "after_chunks": 3, "stall_seconds": 3.0}
    # So long that the server cannot have sent it all before it can see that nobody reads on.
    long = {"type": "reply", "text": "word " * 20_000}
    reply, failures = ask(server, broken, long, SAY, stall_timeout=0.5)
    assert [failure.kind for failure in failures] == [kind]
    assert reply is not None
    assert reply.message.text == "one two three four five six seven"


def test_an_outage_ends_after_a_bounded_number_of_attempts(server: Llmock) -> None:
    reply, failures = ask(server, {"type": "fail", "status": 503, "times": None})
    assert reply is None
    assert len(failures) == 4


def test_tool_calls_come_whole_and_broken_arguments_stay_what_they_are(server: Llmock) -> None:
    tools = (ToolSpec("get_weather", "", {"type": "object", "properties": {"city": {"type": "string"}}}),)
    call = {"type": "reply", "tool_calls": [{"name": "get_weather", "arguments": {"city": "Paris, the one in France"}}]}
    reply, _ = ask(server, call, tools=tools)
    assert reply is not None
    assert reply.stop == "tool_calls"
    assert "Paris, the one in France" in reply.message.calls[0].arguments
    reply, failures = ask(server, {"type": "tool_fault", "kind": "malformed_arguments"}, tools=tools)
    assert reply is not None
    assert failures == []
    assert len(reply.message.calls) == 1
