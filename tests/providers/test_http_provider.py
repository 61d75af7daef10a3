from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from hermes_daemon.core.ports import Chunk, ProviderFailure, Reply, Request, TextDelta
from hermes_daemon.core.settings import ProviderSettings
from hermes_daemon.providers.http_provider import HttpProvider, is_loopback
from hermes_daemon.providers.prices import Price
from hermes_daemon.providers.wire import Traits
from hermes_protocol.content import Message, TextPart, ToolCall, ToolResult, Usage
from tests.support.model_streams import answer, asking, collect
from tests.support.raw_http import Handler, HttpConnection, HttpRequest, RawHttp
from tests.support.scripted_http import ScriptedHttp
from tests.support.shared_data import case_bytes

HELLO = (
    b'data: {"choices":[{"index":0,"delta":{"content":"Hello"}}]}\n\n'
    b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
)
DONE = b"data: [DONE]\n\n"


def provider(url: str, **settings: Any) -> HttpProvider:
    secrets = settings.pop("secrets", {})
    extra = {name: settings.pop(name) for name in ("traits", "extra", "now") if name in settings}
    return HttpProvider("acme", ProviderSettings(base_url=url, **settings), secrets.get, **extra)


def streaming(*pieces: bytes) -> Handler:
    async def handler(request: HttpRequest, connection: HttpConnection) -> None:
        await connection.begin_stream()
        for piece in pieces:
            await connection.piece(piece)
        await connection.end_stream()

    return handler


def answering(status: int, body: bytes, **headers: str) -> Handler:
    async def handler(request: HttpRequest, connection: HttpConnection) -> None:
        await connection.answer(status, body, **headers)

    return handler


def talk(handler: Handler, use: Callable[[RawHttp, HttpProvider], Awaitable[Any]], **settings: Any) -> Any:
    async def run() -> Any:
        async with RawHttp(handler) as server:
            chat = provider(f"{server.url}/v1", **settings)
            try:
                return await use(server, chat)
            finally:
                await chat.close()

    return asyncio.run(run())


def failure_of(handler: Handler, **settings: Any) -> tuple[list[Chunk], ProviderFailure]:
    async def use(server: RawHttp, chat: HttpProvider) -> tuple[list[Chunk], ProviderFailure]:
        chunks, failure = await collect(chat, asking("x"))
        assert failure is not None
        assert server.url in failure.message
        return chunks, failure

    return talk(handler, use, **settings)


# --- what goes well -------------------------------------------------------------------------------------------------


def test_an_answer_is_streamed_and_the_connection_is_kept() -> None:
    async def use(server: RawHttp, chat: HttpProvider) -> None:
        for _ in range(3):
            assert (await answer(chat, asking("x"))).message.text == "Hello"
        assert len(server.connections) == 1
        assert [request.path for request in server.requests] == ["/v1/chat/completions"] * 3
        assert server.requests[0].headers["authorization"] == "Bearer k1"
        assert server.requests[0].headers["x-team"] == "7"

    talk(streaming(HELLO, DONE), use, api_key_env="KEY", secrets={"KEY": " k1\n"}, headers={"X-Team": "7"})


def test_a_stream_without_done_ends_with_its_connection() -> None:
    async def use(server: RawHttp, chat: HttpProvider) -> None:
        assert (await answer(chat, asking("x"))).message.text == "Hello"

    talk(streaming(HELLO), use)


def test_a_connection_that_breaks_behind_the_finish_reason_costs_nothing() -> None:
    async def handler(request: HttpRequest, connection: HttpConnection) -> None:
        await connection.begin_stream()
        await connection.piece(HELLO)
        connection.drop()

    async def use(server: RawHttp, chat: HttpProvider) -> None:
        assert (await answer(chat, asking("x"))).message.text == "Hello"

    talk(handler, use)


def test_a_kept_connection_that_the_server_has_closed_meanwhile_costs_nothing() -> None:
    async def handler(request: HttpRequest, connection: HttpConnection) -> None:
        if len(server_requests) % 2 == 0:
            connection.drop()  # as if the idle time of the connection had just run out
        else:
            await streaming(HELLO, DONE)(request, connection)

    server_requests: list[HttpRequest] = []

    async def use(server: RawHttp, chat: HttpProvider) -> None:
        nonlocal server_requests
        server_requests = server.requests
        for _ in range(3):
            assert (await answer(chat, asking("x"))).message.text == "Hello"
        assert len(server.requests) == 5

    talk(handler, use)


def test_a_price_makes_a_cost_unless_the_server_told_one() -> None:
    usage = b'data: {"choices":[],"usage":{"prompt_tokens":1000,"completion_tokens":100%s}}\n\n'

    def cost(tail: bytes) -> float | None:
        async def use(server: RawHttp, chat: HttpProvider) -> float | None:
            reply = await answer(chat, asking("x"))
            assert reply.usage is not None
            return reply.usage.cost

        return talk(streaming(HELLO, usage % tail, DONE), use, traits=lambda model: Traits(price=Price(2.0, 10.0)))

    assert cost(b"") == pytest.approx(0.003)
    assert cost(b',"cost":0.5') == 0.5


def test_answers_that_are_no_stream_are_read_too() -> None:
    whole = json.dumps({"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]}).encode()

    async def use(server: RawHttp, chat: HttpProvider) -> str:
        return (await answer(chat, asking("x"))).message.text

    assert talk(answering(200, whole), use) == "Hello"
    assert talk(answering(200, HELLO + DONE), use) == "Hello"  # a stream labelled as JSON


def test_options_that_a_server_refuses_by_name_are_said_otherwise_and_remembered() -> None:
    async def handler(request: HttpRequest, connection: HttpConnection) -> None:
        body = request.json()
        if "stream_options" in body:
            await connection.answer(400, b'{"error":{"message":"Unknown parameter: stream_options"}}')
        elif "max_tokens" in body:
            message = b'{"error":{"message":"Unsupported parameter: max_tokens. Use max_completion_tokens."}}'
            await connection.answer(400, message)
        else:
            await streaming(HELLO, DONE)(request, connection)

    async def use(server: RawHttp, chat: HttpProvider) -> None:
        for _ in range(2):
            await answer(chat, asking("x", max_output=7))
        assert len(server.requests) == 4
        assert server.requests[-1].json()["max_completion_tokens"] == 7

    talk(handler, use)


def test_a_whole_tool_round_over_http() -> None:
    async def run() -> None:
        async with ScriptedHttp() as server:
            chat = provider(server.base_url)
            model = "tool?name=terminal&args=%7B%22command%22%3A%22ls%22%7D"
            first = await answer(chat, asking("list", model))
            assert first.stop == "tool_calls"
            call = first.message.calls[0]
            assert call == ToolCall(call.call_id, "terminal", '{"command":"ls"}')
            result = Message("tool", (ToolResult(call.call_id, "a.txt"),))
            request = Request(model, "", (Message("user", (TextPart("list"),)), first.message, result))
            second = await answer(chat, request)
            assert (second.message.text, second.stop) == ("a.txt", "stop")
            assert second.usage is not None
            await chat.close()

    asyncio.run(run())


def test_ten_thousand_deltas_arrive_in_order() -> None:
    async def run() -> None:
        async with ScriptedHttp() as server:
            chat = provider(server.base_url)
            chunks, failure = await collect(chat, asking("x", "words?n=10000"))
            assert failure is None
            assert len(chunks) == 10_001
            assert chunks[9_999] == TextDelta(" word9999")
            assert isinstance(chunks[-1], Reply)
            assert chunks[-1].usage == Usage(5, 10_000)
            await chat.close()

    asyncio.run(run())


def test_models_are_listed() -> None:
    async def run() -> list[dict[str, Any]]:
        async with ScriptedHttp() as server:
            chat = provider(server.base_url)
            rows = await chat.models()
            await chat.close()
            return rows

    assert "echo" in [row["id"] for row in asyncio.run(run())]


# --- handed cases, cut at every byte ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "file", "outcome"),
    [
        ("stream-data-no-space", "body.sse", "AB"),
        ("stream-keepalive-comment", "body.sse", "hi"),
        ("stream-usage-with-content", "body.sse", "last words"),
        ("stream-malformed-chunk", "body.sse", "malformed"),
        ("chat-error-then-done", "error.sse", "overload"),
        ("chat-error-then-done", "bare.sse", "incomplete"),
    ],
)
def test_case_streams_cut_anywhere_give_the_same(name: str, file: str, outcome: str) -> None:
    body = case_bytes("stream", name, file)
    outcomes: list[str] = []

    async def handler(request: HttpRequest, connection: HttpConnection) -> None:
        cut = len(outcomes)
        await streaming(body[:cut], body[cut:])(request, connection)

    async def use(server: RawHttp, chat: HttpProvider) -> None:
        while len(outcomes) <= len(body):
            chunks, failure = await collect(chat, asking("x"))
            if failure is not None:
                assert failure.retryable
                outcomes.append(failure.kind)
            else:
                assert isinstance(chunks[-1], Reply)
                outcomes.append(chunks[-1].message.text)

    talk(handler, use)
    assert set(outcomes) == {outcome}


def test_the_words_before_an_error_are_shown_and_the_error_told() -> None:
    chunks, failure = failure_of(streaming(case_bytes("stream", "chat-error-then-done", "error.sse")))
    assert chunks == [TextDelta("Once upon")]
    assert "upstream disconnected" in failure.message


# --- what goes wrong -------------------------------------------------------------------------------------------------


def test_a_stream_that_just_ends_is_incomplete() -> None:
    chunks, failure = failure_of(streaming(HELLO.split(b"\n\n")[0] + b"\n\n"))
    assert chunks == [TextDelta("Hello")]
    assert (failure.kind, failure.retryable) == ("incomplete", True)
    assert failure_of(streaming(b'data: {"choices":[{"ind'))[1].kind == "incomplete"
    assert failure_of(streaming())[1].kind == "incomplete"


def test_a_dropped_connection_is_a_network_failure() -> None:
    async def handler(request: HttpRequest, connection: HttpConnection) -> None:
        await connection.begin_stream()
        await connection.piece(HELLO.split(b"\n\n")[0] + b"\n\n")
        connection.drop()

    _, failure = failure_of(handler)
    assert (failure.kind, failure.retryable) == ("network", True)
    assert "in the middle of the answer" in failure.message

    async def at_once(request: HttpRequest, connection: HttpConnection) -> None:
        connection.drop()

    assert failure_of(at_once)[1].kind == "network"


def test_silence_is_a_stall_and_comments_are_life() -> None:
    async def silent(request: HttpRequest, connection: HttpConnection) -> None:
        await connection.begin_stream()
        await connection.piece(HELLO.split(b"\n\n")[0] + b"\n\n")
        await connection.gone.wait()

    chunks, failure = failure_of(silent, stall_timeout=0.05)
    assert chunks == [TextDelta("Hello")]
    assert (failure.kind, failure.retryable) == ("stall", True)
    assert "stall_timeout" in failure.message

    async def never_answers(request: HttpRequest, connection: HttpConnection) -> None:
        await connection.gone.wait()

    assert failure_of(never_answers, stall_timeout=0.05)[1].kind == "stall"

    async def commenting(request: HttpRequest, connection: HttpConnection) -> None:
        await connection.begin_stream()
        for _ in range(20):  # longer in all than the stall time
            await connection.piece(b": working\n\n")
            await asyncio.sleep(0.02)
        await connection.piece(HELLO + DONE)
        await connection.end_stream()

    async def use(server: RawHttp, chat: HttpProvider) -> None:
        assert (await answer(chat, asking("x"))).message.text == "Hello"

    talk(commenting, use, stall_timeout=0.25)


def test_closing_the_iterator_closes_the_connection() -> None:
    async def handler(request: HttpRequest, connection: HttpConnection) -> None:
        await connection.begin_stream()
        await connection.piece(HELLO.split(b"\n\n")[0] + b"\n\n")
        await connection.gone.wait()

    async def use(server: RawHttp, chat: HttpProvider) -> None:
        stream = chat.stream(asking("x"))
        assert await anext(stream) == TextDelta("Hello")
        await stream.aclose()
        await asyncio.wait_for(server.connections[0].gone.wait(), 5)

    talk(handler, use)


def test_cancelling_the_reader_closes_the_connection() -> None:
    async def handler(request: HttpRequest, connection: HttpConnection) -> None:
        await connection.begin_stream()
        await connection.gone.wait()

    async def use(server: RawHttp, chat: HttpProvider) -> None:
        reading = asyncio.ensure_future(collect(chat, asking("x")))
        while not server.requests:
            await asyncio.sleep(0)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        await asyncio.wait_for(server.connections[0].gone.wait(), 5)

    talk(handler, use)


def test_statuses_become_failures_with_the_asked_wait() -> None:
    _, failure = failure_of(answering(429, b'{"error":{"message":"slow"}}', retry_after="3"))
    assert (failure.kind, failure.status, failure.retry_after) == ("rate", 429, 3.0)
    date = "Wed, 21 Oct 2026 07:28:09 GMT"
    now = 1_792_567_680.0  # nine seconds earlier
    _, failure = failure_of(answering(503, b"", retry_after=date), now=lambda: now)
    assert failure.retry_after == 9.0


def test_a_rejected_key_names_its_variable_and_is_never_shown() -> None:
    body = b'{"error":{"message":"Incorrect API key provided: topsecretkey"}}'
    _, failure = failure_of(answering(401, body), api_key_env="ACME_KEY", secrets={"ACME_KEY": "topsecretkey"})
    assert failure.kind == "auth"
    assert "ACME_KEY" in failure.message
    assert "topsecretkey" not in failure.message


def test_a_missing_or_unsendable_key_or_header_is_told_before_anything_is_sent() -> None:
    for settings, kind, words in (
        ({"api_key_env": "ACME_KEY"}, "auth", "set ACME_KEY"),
        ({"api_key_env": "ACME_KEY", "secrets": {"ACME_KEY": "schlüssel"}}, "auth", "ACME_KEY"),
        ({"headers": {"x-a": "ü"}}, "bad_request", "headers.x-a"),
    ):

        async def use(server: RawHttp, chat: HttpProvider) -> ProviderFailure:
            _, failure = await collect(chat, asking("x"))
            assert failure is not None
            assert server.requests == []
            return failure

        failure = talk(answering(200, b""), use, **settings)
        assert failure.kind == kind
        assert words in failure.message


def test_a_page_instead_of_an_answer_points_at_base_url() -> None:
    _, failure = failure_of(answering(200, b"<html>Welcome</html>", content_type="text/html"))
    assert (failure.kind, failure.retryable) == ("malformed", False)
    assert "base_url" in failure.message


def test_an_error_with_status_200_is_an_error() -> None:
    _, failure = failure_of(answering(200, b'{"error":{"message":"no capacity","code":529}}'))
    assert (failure.kind, failure.status) == ("overload", 529)


def test_a_huge_error_body_is_bounded() -> None:
    _, failure = failure_of(answering(500, b"x" * 5_000_000))
    assert len(failure.message) < 700


def test_an_endpoint_that_cannot_be_reached_says_how() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    async def run() -> None:
        for url, kind, words in (
            (f"http://127.0.0.1:{port}/v1", "network", "connection refused"),
            ("http://no-such-host.invalid/v1", "network", "name of the host was not found"),
            ("ftp://127.0.0.1/v1", "bad_request", "providers.acme.base_url"),
            ("", "bad_request", "providers.acme.base_url"),
            ("http://[::1/v1", "bad_request", "providers.acme.base_url"),
        ):
            chat = provider(url)
            _, failure = await collect(chat, asking("x"))
            await chat.close()
            assert failure is not None
            assert failure.kind == kind, failure
            assert words in failure.message

    asyncio.run(run())


def test_tls_to_a_server_without_tls_is_told_apart() -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async def run() -> None:
        async with await asyncio.start_server(plain, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            chat = provider(f"https://127.0.0.1:{port}/v1")
            _, failure = await collect(chat, asking("x"))
            await chat.close()
            assert failure is not None
            assert (failure.kind, failure.retryable) == ("network", False)
            assert "TLS" in failure.message

    asyncio.run(run())


@pytest.mark.parametrize(
    ("url", "local"),
    [("http://localhost:1/v1", True), ("http://127.3.0.1", True), ("http://[::1]:8/", True), ("https://a.test", False),
     ("http://127.example.com", False), ("", False)],
)  # fmt: skip
def test_loopback_addresses_are_known(url: str, local: bool) -> None:
    assert is_loopback(url) is local


def test_the_path_is_joined_whatever_base_url_looks_like() -> None:
    for base in ("http://a/v1", "http://a/v1/", "http://a/v1/chat/completions"):
        assert provider(base).url("chat/completions") == "http://a/v1/chat/completions"
    assert provider("http://a/v1?api-version=2").url("models") == "http://a/v1/models?api-version=2"
