"""Reading the answer of an HTTP exchange: bytes to events to chunks, and what each way of ending means."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import TYPE_CHECKING

from hermes_daemon.core.ports import Chunk, Reply
from hermes_daemon.providers.failures import Endpoint, stream_failure
from hermes_daemon.providers.wire import ErrorObject, Event, Malformed, StreamReader, TooLong, WireFormat

if TYPE_CHECKING:
    import httpx

ANSWER_BYTES = 32 * 1024 * 1024
AFTER_FINISH_S = 5.0  # how long the usage may take to follow the finish reason
FAREWELL_S = (
    0.25  # how long the end of the body may take to follow the last event; read to its end, a connection is kept
)


async def read_answer(
    at: Endpoint, response: httpx.Response, format: WireFormat, reader: StreamReader
) -> AsyncGenerator[Chunk, None]:
    """The chunks of an answer with status 200, the Reply last. Raises ProviderFailure and what httpx raises."""
    pieces = response.aiter_bytes()
    kind = response.headers.get("content-type", "")
    if not format.lines and ("json" in kind or "html" in kind):
        for chunk in _whole_answer(at, await bounded_body(response, ANSWER_BYTES), format, reader):
            yield chunk
    else:
        framing = format.framing()
        try:
            while (data := await _next_piece(pieces, AFTER_FINISH_S if reader.finished else None)) is not None:
                for chunk in _chunks(at, framing.feed(data), reader):
                    yield chunk
                if reader.done:
                    break
            else:
                for chunk in _chunks(at, framing.finish(), reader, last=True):
                    yield chunk
        except TooLong as error:
            raise at.fail("malformed", f"{at.url} sent {error}.", retryable=True) from None
    try:
        reply = reader.reply()
    except Malformed as error:
        raise at.fail("malformed", f"{at.url} sent a malformed stream: {error}.", retryable=True) from None
    if reply is None:
        raise at.fail("incomplete", f"{at.url} ended its answer before it was finished (no finish_reason).",
                      retryable=True)  # fmt: skip
    yield reply
    if reader.done:
        await _read_to_the_end(pieces)


def finished_reply(reader: StreamReader) -> Reply | None:
    """What was read so far, if the server said that it had finished; for when the connection broke behind it."""
    try:
        return reader.reply()
    except Malformed:
        return None


async def bounded_body(response: httpx.Response, limit: int) -> bytes:
    """The first `limit` bytes of the body."""
    body = bytearray()
    async for data in response.aiter_bytes():
        body += data
        if len(body) >= limit:
            break
    return bytes(body[:limit])


def _chunks(at: Endpoint, events: list[Event], reader: StreamReader, *, last: bool = False) -> Iterator[Chunk]:
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


def _whole_answer(at: Endpoint, content: bytes, format: WireFormat, reader: StreamReader) -> Iterator[Chunk]:
    """An answer that is not labelled as a stream: one JSON document, or a stream after all."""
    if content.lstrip()[:5] in (b"data:", b"event") or content.lstrip()[:1] == b":":
        framing = format.framing()
        yield from _chunks(at, framing.feed(content) + framing.finish(), reader)
        return
    try:
        yield from reader.feed(content.decode("utf-8", "replace"))
    except ErrorObject as error:
        raise stream_failure(at, error.error) from None
    except Malformed as error:
        words = f"{at.url} answered something that is no answer in the format {format.name}: {error} Check base_url."
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
