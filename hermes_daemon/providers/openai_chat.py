"""Chat completions over HTTP, streamed: the format that OpenAI began and nearly every server speaks.

One object serves one endpoint and all sessions, over one client with kept connections. It never tries again by
itself (core.retry decides); only a parameter that a server refuses by name is said in another way, once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from hermes_daemon.core.ports import Chunk, ProviderFailure, Reply, Request
from hermes_daemon.core.settings import ProviderSettings
from hermes_daemon.providers.chat_request import Dialect, request_body
from hermes_daemon.providers.chat_stream import ErrorObject, Malformed, ReplyReader
from hermes_daemon.providers.failures import Endpoint, missing_key, status_failure, stream_failure, transport_failure
from hermes_daemon.providers.sse import Event, SSEReader, TooLong

if TYPE_CHECKING:
    import httpx

ERROR_BODY_BYTES = 65_536
ANSWER_BYTES = 32 * 1024 * 1024
AFTER_FINISH_S = 5.0  # how long the usage may take to follow the finish reason
FAREWELL_S = 0.25  # how long the end of the body may take to follow [DONE]; read to the end, a connection is kept


class Price(msgspec.Struct, frozen=True):
    """US dollars for a million tokens."""

    input: float
    output: float


class OpenAIChat:
    """A Provider for one endpoint. `secret` looks up the key by `settings.api_key_env` at every call."""

    def __init__(
        self,
        name: str,
        settings: ProviderSettings,
        secret: Callable[[str], str | None],
        *,
        prices: Mapping[str, Price] | None = None,
        extra: Mapping[str, Any] | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._name = name
        self._settings = settings
        self._secret = secret
        self._prices = dict(prices or {})
        self._extra = dict(extra or {})
        self._now = now
        self._dialects: dict[str, Dialect] = {}
        self._client: httpx.AsyncClient | None = None
        self._kept = False  # some connection may be waiting to be used again

    @property
    def name(self) -> str:
        return self._name

    def url(self, path: str) -> str:
        """The address of `path` below base_url; a query that base_url carries is kept."""
        base, mark, query = self._settings.base_url.partition("?")
        base = base.rstrip("/").removesuffix("/chat/completions")
        return f"{base}/{path}{mark}{query}"

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """See ports.Provider."""
        at = self._endpoint("chat/completions", request.model)
        headers = self._headers(at)
        refused: ProviderFailure | None = None
        for _ in range(3):  # as it is, without usage, with the other name of the output limit
            dialect = self._dialects.get(request.model, Dialect())
            body = request_body(request, dialect, self._extra)
            reader = ReplyReader([tool.name for tool in request.tools], _call_ids(request))
            refused = None
            async with aclosing(self._attempt(at, headers, body, reader)) as chunks:
                async for chunk in chunks:
                    if isinstance(chunk, ProviderFailure):
                        refused = chunk
                    else:
                        yield self._priced(chunk, request.model)
            if refused is None:
                return
            other = _other_dialect(dialect, refused)
            if other is None:
                raise refused
            self._dialects[request.model] = other
        if refused is not None:
            raise refused

    async def models(self) -> list[dict[str, Any]]:
        """What GET /models lists: objects with an `id` and whatever else the server tells. Raises ProviderFailure."""
        at = self._endpoint("models")
        headers = self._headers(at)
        client = self._open()
        import httpx

        try:
            response = await client.get(at.url, headers=headers)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise transport_failure(at, error, streaming=False, stall_s=self._settings.stall_timeout) from error
        if response.status_code != 200:
            raise status_failure(at, response.status_code, response.headers, response.content, self._now())
        try:
            raw = msgspec.json.decode(response.content)
        except msgspec.DecodeError:
            raise at.fail("malformed", f"{at.url} answered something that is not JSON. Check base_url.") from None
        rows = raw.get("data", raw.get("models")) if isinstance(raw, dict) else raw
        return [row for row in rows if isinstance(row, dict) and isinstance(row.get("id"), str)] if rows else []

    async def close(self) -> None:
        """Give up the connections. Safe to call twice; a later call opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _attempt(
        self, at: Endpoint, headers: dict[str, str], body: bytes, reader: ReplyReader
    ) -> AsyncGenerator[Chunk | ProviderFailure, None]:
        """One HTTP exchange. A 400 comes as the last value instead of being raised: it may be answered differently."""
        import httpx

        streaming = False
        try:
            async with self._exchange(at, headers, body) as response:
                if response.status_code != 200:
                    content = await _bounded_body(response, ERROR_BODY_BYTES)
                    failure = status_failure(at, response.status_code, response.headers, content, self._now())
                    if response.status_code != 400:
                        raise failure
                    yield failure
                    return
                streaming = True
                async with aclosing(self._read(at, response, reader)) as chunks:
                    async for chunk in chunks:
                        yield chunk
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            reply = reader.reply()  # the finish reason came: what broke was only the farewell
            if reply is None:
                raise transport_failure(at, error, streaming=streaming, stall_s=self._settings.stall_timeout) from error
            yield reply

    @asynccontextmanager
    async def _exchange(self, at: Endpoint, headers: dict[str, str], body: bytes) -> AsyncIterator[httpx.Response]:
        """Send, and wait for the head of the answer.

        A kept connection that the server closed in the same moment breaks before any answer. That says nothing about
        the server, so it is asked once more, over a new one.
        """
        import httpx

        client = self._open()
        again = self._kept
        while True:
            request = client.build_request("POST", at.url, headers=headers, content=body)
            try:
                response = await client.send(request, stream=True)
                break
            except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
                if not again:
                    raise
                again = False
        self._kept = True
        try:
            yield response
        finally:
            await response.aclose()

    async def _read(self, at: Endpoint, response: httpx.Response, reader: ReplyReader) -> AsyncGenerator[Chunk, None]:
        pieces = response.aiter_bytes()
        kind = response.headers.get("content-type", "")
        if "json" in kind or "html" in kind:
            for chunk in _whole_answer(at, await _bounded_body(response, ANSWER_BYTES), reader):
                yield chunk
        else:
            sse = SSEReader()
            try:
                while (data := await _next_piece(pieces, AFTER_FINISH_S if reader.finished else None)) is not None:
                    for chunk in _chunks(at, sse.feed(data), reader):
                        yield chunk
                    if reader.done:
                        break
                else:
                    for chunk in _chunks(at, sse.finish(), reader, last=True):
                        yield chunk
            except TooLong as error:
                raise at.fail("malformed", f"{at.url} sent {error}.", retryable=True) from None
        reply = reader.reply()
        if reply is None:
            raise at.fail("incomplete", f"{at.url} ended its answer before it was finished (no finish_reason).",
                          retryable=True)  # fmt: skip
        yield reply
        if reader.done:
            await _read_to_the_end(pieces)

    def _priced(self, chunk: Chunk, model: str) -> Chunk:
        price = self._prices.get(model)
        if price is None or not isinstance(chunk, Reply) or chunk.usage is None or chunk.usage.cost is not None:
            return chunk
        cost = (chunk.usage.input_tokens * price.input + chunk.usage.output_tokens * price.output) / 1e6
        return msgspec.structs.replace(chunk, usage=msgspec.structs.replace(chunk.usage, cost=cost))

    def _endpoint(self, path: str, model: str = "") -> Endpoint:
        env = self._settings.api_key_env
        key = (self._secret(env) or "").strip() if env else ""
        return Endpoint(self._name, self.url(path), model, env, key)

    def _headers(self, at: Endpoint) -> dict[str, str]:
        if at.key_env and not at.key:
            raise missing_key(at)
        headers = {"content-type": "application/json", "accept": "text/event-stream, application/json"}
        if at.key:
            if not at.key.isascii() or not at.key.isprintable():
                raise at.fail("auth", f"The key in {at.key_env} holds characters that no header can carry.")
            headers["authorization"] = f"Bearer {at.key}"
        for name, value in self._settings.headers.items():
            if not (name + value).isascii() or not value.isprintable():
                raise at.fail("bad_request", f"providers.{self._name}.headers.{name} cannot be sent: not plain ASCII.")
            headers[name.lower()] = value
        return headers

    def _open(self) -> httpx.AsyncClient:
        if self._client is None:
            import httpx

            limits = httpx.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=60)
            local = is_loopback(self._settings.base_url)
            stall = self._settings.stall_timeout or None
            self._client = httpx.AsyncClient(
                timeout=httpx.Timeout(stall, connect=self._settings.connect_timeout or None, pool=None),
                limits=limits,
                # An http:// endpoint needs no certificates, whose loading costs more than the rest of the client.
                verify=self._settings.verify_tls and self._settings.base_url.startswith("https:"),
                trust_env=not local,
                headers={"user-agent": "hermes-daemon"},
            )
        return self._client


def is_loopback(url: str) -> bool:
    """Whether the address is on this machine, where no proxy of the environment should stand in between."""
    from ipaddress import ip_address  # with the first turn only, like the client itself

    try:
        host = (urlsplit(url).hostname or "").lower()
        return host == "localhost" or host.endswith(".localhost") or ip_address(host).is_loopback
    except ValueError:
        return False


def _chunks(at: Endpoint, events: list[Event], reader: ReplyReader, *, last: bool = False) -> Iterator[Chunk]:
    """The chunks of these events. `last`: the stream is over, so what does not parse was cut, not wrong."""
    for event in events:
        try:
            yield from reader.feed(event.data)
        except ErrorObject as error:
            raise stream_failure(at, error.error) from None
        except Malformed as error:
            if last:
                return
            raise at.fail("malformed", f"{at.url} sent a malformed stream: {error}", retryable=True) from None
        if reader.done:
            return


def _whole_answer(at: Endpoint, content: bytes, reader: ReplyReader) -> Iterator[Chunk]:
    """An answer that is not labelled as a stream: one JSON document, or a stream after all."""
    if content.lstrip()[:5] in (b"data:", b"event") or content.lstrip()[:1] == b":":
        sse = SSEReader()
        yield from _chunks(at, sse.feed(content) + sse.finish(), reader)
        return
    try:
        yield from reader.feed(content.decode("utf-8", "replace"))
    except ErrorObject as error:
        raise stream_failure(at, error.error) from None
    except Malformed as error:
        words = f"{at.url} answered something that is no chat completion: {error} Check base_url."
        raise at.fail("malformed", words) from None


async def _next_piece(pieces: AsyncIterator[bytes], timeout_s: float | None) -> bytes | None:
    """The next bytes, None at the end or when `timeout_s` passed without any."""
    if timeout_s is None:
        return await anext(pieces, None)
    try:
        async with asyncio.timeout(timeout_s):
            return await anext(pieces, None)
    except TimeoutError:
        return None


async def _read_to_the_end(pieces: AsyncIterator[bytes]) -> None:
    import httpx

    try:
        async with asyncio.timeout(FAREWELL_S):
            async for _ in pieces:
                pass
    except (TimeoutError, httpx.HTTPError):
        return  # the answer is whole; this connection is closed instead of kept


def _call_ids(request: Request) -> set[str]:
    return {call.call_id for message in request.messages for call in message.calls}


def _other_dialect(dialect: Dialect, refused: ProviderFailure) -> Dialect | None:
    """The way of speaking that avoids what a 400 named, or None when it named nothing of that."""
    words = refused.message
    if dialect.include_usage and ("stream_options" in words or "include_usage" in words):
        return msgspec.structs.replace(dialect, include_usage=False)
    if dialect.output_limit == "max_tokens" and "max_completion_tokens" in words:
        return msgspec.structs.replace(dialect, output_limit="max_completion_tokens")
    return None


async def _bounded_body(response: httpx.Response, limit: int) -> bytes:
    body = bytearray()
    async for data in response.aiter_bytes():
        body += data
        if len(body) >= limit:
            break
    return bytes(body[:limit])
