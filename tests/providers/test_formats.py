"""What holds for every wire format alike: one answer read, one round of tools sent back, one way to fail."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from hermes_daemon.core.ports import CallDelta, ProviderFailure, ReasoningDelta, Reply, TextDelta
from hermes_daemon.core.settings import ProviderSettings
from hermes_daemon.providers.formats import FORMATS
from hermes_daemon.providers.http_provider import HttpProvider
from hermes_daemon.providers.opaque import seal
from hermes_daemon.providers.wire import Terms, Traits
from hermes_protocol.content import ImagePart, Message, ReasoningPart, TextPart, ToolResult, Usage
from tests.support.formats_talk import FORMATS as NAMES
from tests.support.formats_talk import TOOLS, conversation, recorded
from tests.support.model_streams import answer, asking, collect
from tests.support.raw_http import Handler, HttpConnection, HttpRequest, RawHttp

PATHS = {
    "openai_chat": "/v1/chat/completions",
    "openai_responses": "/v1/responses",
    "anthropic_messages": "/v1/messages",
    "ollama": "/api/chat",
}
every_format = pytest.mark.parametrize("name", NAMES)


def talk(name: str, handler: Handler, use: Callable[[RawHttp, HttpProvider], Awaitable[Any]], **settings: Any) -> Any:
    async def run() -> Any:
        secrets = settings.pop("secrets", {})
        async with RawHttp(handler) as server:
            told = ProviderSettings(base_url=f"{server.url}/v1", format=name, **settings)  # type: ignore[arg-type]
            provider = HttpProvider("acme", told, secrets.get)
            try:
                return await use(server, provider)
            finally:
                await provider.close()

    return asyncio.run(run())


def kind_of(name: str) -> str:
    return "application/x-ndjson" if name == "ollama" else "text/event-stream"


def playing(name: str, pieces: list[bytes]) -> Handler:
    async def handler(request: HttpRequest, connection: HttpConnection) -> None:
        await connection.begin_stream(kind_of(name))
        for piece in pieces:
            await connection.piece(piece)
        await connection.end_stream()

    return handler


@every_format
def test_a_streamed_round_of_tools_is_read_whole(name: str) -> None:
    async def use(server: RawHttp, provider: HttpProvider) -> None:
        chunks, failure = await collect(provider, asking("x", tools=TOOLS))
        assert failure is None
        reply = chunks[-1]
        assert isinstance(reply, Reply)
        assert "".join(c.text for c in chunks if isinstance(c, ReasoningDelta)) == "plan"
        assert "".join(c.text for c in chunks if isinstance(c, TextDelta)) == reply.message.text == "Let me look."
        assert {c.name for c in chunks if isinstance(c, CallDelta)} == {"read_file", "todo"}
        assert reply.stop == "tool_calls"
        assert [(c.name, json.loads(c.arguments)) for c in reply.message.calls] == [
            ("read_file", {"path": "a.txt"}),
            ("todo", {"n": 7}),
        ]
        assert len({c.call_id for c in reply.message.calls}) == 2
        counted = Usage(20, 9) if name == "ollama" else Usage(20, 9, cache_read_tokens=8, reasoning_tokens=3)
        assert reply.usage == counted
        assert server.requests[0].path == PATHS[name]

    talk(name, playing(name, recorded(name)), use)


@every_format
def test_an_answer_goes_back_with_its_results(name: str) -> None:
    """The bodies of two rounds: the second holds the first, the calls as they came, and their results by id or name."""

    async def use(server: RawHttp, provider: HttpProvider) -> None:
        first = await answer(provider, asking("What is in a.txt?", tools=TOOLS))
        await answer(provider, conversation(answered=first.message))
        sent = json.dumps(server.requests[1].json())
        for text in ("What is in a.txt?", "Let me look.", "a.txt", "result 0", "result 1"):
            assert text in sent

    talk(name, playing(name, recorded(name)), use)


@every_format
def test_a_second_round_begins_with_the_bytes_of_the_first(name: str) -> None:
    """The message lists agree up to where the first ended, so that a provider's cache can be read. Only Anthropic's
    breakpoints move on; what they mark stays."""

    def rows(request: Any) -> list[bytes]:
        body = json.loads(FORMATS[name].body(request, Terms(prompt_caching=False)))  # type: ignore[index]
        listed = body.get("messages") or body.get("input")
        return [json.dumps(row).encode() for row in listed]

    whole = conversation()
    first = with_messages(whole, 1)
    assert rows(whole)[: len(rows(first))] == rows(first)
    later = Message("assistant", (TextPart("It says hello."),))
    longer = with_messages(whole, len(whole.messages), later, Message("user", (TextPart("Thanks."),)))
    assert rows(longer)[: len(rows(whole))] == rows(whole)


def with_messages(request: Any, upto: int, *more: Message) -> Any:
    return msgspec.structs.replace(request, messages=(*request.messages[:upto], *more))


@every_format
def test_an_answer_cut_off_anywhere_is_no_answer(name: str) -> None:
    body = b"".join(recorded(name))
    whole = body.rstrip()
    end = {"openai_chat": whole.rfind(b"tool_calls"), "openai_responses": whole.rfind(b"response.completed")}
    safe = end.get(name, whole.rfind(b"stop_reason" if name == "anthropic_messages" else b'"done": true'))
    cuts = range(0, safe, 29)
    outcomes: list[str] = []

    async def handler(request: HttpRequest, connection: HttpConnection) -> None:
        cut = cuts[len(outcomes)]
        await playing(name, [body[:cut]])(request, connection)

    async def use(server: RawHttp, provider: HttpProvider) -> None:
        while len(outcomes) < len(cuts):
            chunks, failure = await collect(provider, asking("x", tools=TOOLS))
            assert failure is not None, cuts[len(outcomes)]
            assert failure.retryable
            assert server.url in failure.message
            assert not any(isinstance(chunk, Reply) for chunk in chunks)
            outcomes.append(failure.kind)

    talk(name, handler, use)
    assert set(outcomes) == {"incomplete"}


@every_format
def test_a_connection_dropped_in_the_middle_of_a_call_keeps_the_text_and_gives_no_call(name: str) -> None:
    pieces = recorded(name)

    async def handler(request: HttpRequest, connection: HttpConnection) -> None:
        await connection.begin_stream(kind_of(name))
        for piece in pieces[:-3]:
            await connection.piece(piece)
        connection.drop()

    async def use(server: RawHttp, provider: HttpProvider) -> ProviderFailure:
        chunks, failure = await collect(provider, asking("x", tools=TOOLS))
        assert failure is not None
        assert "".join(c.text for c in chunks if isinstance(c, TextDelta)).startswith("Let me")
        assert not any(isinstance(chunk, Reply) for chunk in chunks)
        return failure

    failure = talk(name, handler, use)
    assert (failure.kind, failure.retryable) == ("network", True)


@every_format
def test_silence_is_a_stall(name: str) -> None:
    async def handler(request: HttpRequest, connection: HttpConnection) -> None:
        await connection.begin_stream(kind_of(name))
        await connection.piece(b"".join(recorded(name)[:2]))
        await connection.gone.wait()

    async def use(server: RawHttp, provider: HttpProvider) -> None:
        _, failure = await collect(provider, asking("x"))
        assert failure is not None
        assert (failure.kind, failure.retryable) == ("stall", True)

    talk(name, handler, use, stall_timeout=0.05)


@every_format
def test_cancelling_closes_the_connection(name: str) -> None:
    async def handler(request: HttpRequest, connection: HttpConnection) -> None:
        await connection.begin_stream(kind_of(name))
        await connection.piece(b"".join(recorded(name)[:4]))
        await connection.gone.wait()

    async def use(server: RawHttp, provider: HttpProvider) -> None:
        shown = asyncio.Event()

        async def read() -> None:
            async for _ in provider.stream(asking("x")):
                shown.set()

        reading = asyncio.ensure_future(read())
        await shown.wait()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        await asyncio.wait_for(server.connections[0].gone.wait(), 5)

    talk(name, handler, use)


ERRORS = {
    "openai_chat": (b'data: {"error":{"message":"Slow down","code":429}}\n\n', "rate"),
    "openai_responses": (
        b'data: {"type":"response.failed","response":{"status":"failed",'
        b'"error":{"code":"rate_limit_exceeded","message":"Slow down"}}}\n\n',
        "rate",
    ),
    "anthropic_messages": (
        b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n',
        "overload",
    ),
    "ollama": (b'{"error":"model runner has unexpectedly stopped"}\n', "overload"),
}


@every_format
def test_an_error_inside_a_stream_is_told_with_its_words(name: str) -> None:
    line, kind = ERRORS[name]

    async def use(server: RawHttp, provider: HttpProvider) -> None:
        chunks, failure = await collect(provider, asking("x"))
        assert failure is not None
        assert (failure.kind, failure.retryable) == (kind, True)
        assert any(word in failure.message for word in ("Slow down", "Overloaded", "unexpectedly stopped"))
        assert not any(isinstance(chunk, Reply) for chunk in chunks)

    talk(name, playing(name, [*recorded(name)[:4], line, *recorded(name)[4:]]), use)


@every_format
@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, {"error": {"message": "bad key"}}, "auth"),
        (402, {"error": {"message": "pay"}}, "quota"),
        (429, {"error": {"message": "slow", "type": "rate_limit_error"}}, "rate"),
        (529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "overload"),
        (400, {"error": {"message": "prompt is too long: 210000 tokens > 200000 maximum"}}, "context_overflow"),
        (400, {"error": {"message": "content_filter triggered", "code": "content_filter"}}, "content_filter"),
        (404, {"error": "model 'm' not found"}, "model_missing"),
        (422, {"detail": "nonsense"}, "bad_request"),
    ],
)
def test_a_refusal_is_classified(name: str, status: int, body: dict[str, Any], kind: str) -> None:
    async def handler(request: HttpRequest, connection: HttpConnection) -> None:
        await connection.answer(status, json.dumps(body).encode(), retry_after="2")

    async def use(server: RawHttp, provider: HttpProvider) -> None:
        _, failure = await collect(provider, asking("x"))
        assert failure is not None
        assert failure.kind == kind
        assert failure.retry_after == (2.0 if failure.retryable else None)
        assert failure.context_limit == (200_000 if kind == "context_overflow" else None)

    talk(name, handler, use)


@every_format
def test_a_document_that_is_no_answer_is_told_apart(name: str) -> None:
    async def use(server: RawHttp, provider: HttpProvider) -> None:
        _, failure = await collect(provider, asking("x"))
        assert failure is not None
        assert failure.kind in ("malformed", "incomplete")

    async def handler(request: HttpRequest, connection: HttpConnection) -> None:
        await connection.answer(200, b"<html>Welcome</html>", content_type="text/html")

    talk(name, handler, use)


@every_format
def test_an_image_is_sent_placed_or_refused(name: str) -> None:
    body = FORMATS[name].body  # type: ignore[index]
    request = conversation(image=True)
    assert b"aGk=" in body(request, Terms())
    blind = Terms(traits=Traits(vision=False))
    assert b"aGk=" not in body(request, blind)
    assert b"cannot see" in body(request, blind)


@every_format
def test_lone_surrogates_are_sent_as_something_that_utf8_holds(name: str) -> None:
    body = FORMATS[name].body(asking("broken \ud83c here"), Terms())  # type: ignore[index]
    assert "broken" in body.decode()


@every_format
def test_models_are_listed(name: str) -> None:
    rows: dict[str, Any] = {"models": [{"name": "m:7b"}]} if name == "ollama" else {"data": [{"id": "m:7b"}]}

    async def handler(request: HttpRequest, connection: HttpConnection) -> None:
        await connection.answer(200, json.dumps(rows).encode())

    async def use(server: RawHttp, provider: HttpProvider) -> None:
        assert [row["id"] for row in await provider.models()] == ["m:7b"]
        assert server.requests[0].path == ("/api/tags" if name == "ollama" else "/v1/models")

    talk(name, handler, use)


@every_format
def test_the_key_goes_into_the_header_of_the_format(name: str) -> None:
    async def use(server: RawHttp, provider: HttpProvider) -> dict[str, str]:
        await answer(provider, asking("x"))
        return server.requests[0].headers

    def headers(**more: Any) -> dict[str, str]:
        told: dict[str, str] = talk(
            name, playing(name, recorded(name)), use, api_key_env="K", secrets={"K": "k1"}, **more
        )
        return told

    if name == "anthropic_messages":
        assert headers()["x-api-key"] == "k1"
        assert headers()["anthropic-version"] == "2023-06-01"
    else:
        assert headers()["authorization"] == "Bearer k1"
    assert headers(key_header="api-key")["api-key"] == "k1"


@every_format
def test_thinking_and_foreign_parts_of_other_models_are_left_out(name: str) -> None:
    """What another model signed is refused by this one, so it is not sent."""
    foreign = seal(name, "another", {"signature": "SECRET", "encrypted_content": "SECRET"})
    message = Message("assistant", (ReasoningPart("plan", foreign), TextPart("Hm.")))
    request = with_messages(asking("x"), 1, message, Message("user", (TextPart("y"),)))
    assert b"SECRET" not in FORMATS[name].body(request, Terms())  # type: ignore[index]


def test_an_image_whose_bytes_are_gone_is_told() -> None:
    gone = with_messages(asking("x"), 0, Message("user", (ImagePart("image/png"), TextPart("y"))))
    for format in FORMATS.values():
        assert b"not available any more" in format.body(gone, Terms())


def test_results_without_calls_do_not_crash_a_format() -> None:
    """The engine repairs histories; a format that meets a broken one still gives a body."""
    odd = with_messages(asking("x"), 1, Message("tool", (ToolResult("nobody", "r"),)))
    for format in FORMATS.values():
        assert b'"r"' in format.body(odd, Terms())
