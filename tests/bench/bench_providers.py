"""What reading a model's stream costs: per chunk, for a huge call, and until a cancelled one has let its socket go."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Callable

from hermes_daemon.core.settings import ProviderSettings
from hermes_daemon.providers.formats import FORMATS
from hermes_daemon.providers.http_provider import HttpProvider
from hermes_daemon.providers.wire import FormatName
from tests.bench.figure import Figure, interleaved
from tests.support.formats_talk import block_delta, block_start, call_delta, chat, lines, sse
from tests.support.model_streams import asking
from tests.support.raw_http import HttpConnection, HttpRequest, RawHttp

CHUNKS = 4000
ROUNDS = 7
CANCELS = 15
MEGABYTE = 1_000_000
PIECE = "x" * 50


def measure() -> list[Figure]:
    figures = [_per_chunk(name) for name in FORMATS]
    figures += [_linear(name) for name in FORMATS if name != "ollama"]  # there a call comes in one piece
    figures.append(asyncio.run(_cancel()))
    return figures


def _reading(name: FormatName, pieces: list[bytes]) -> float:
    """CPU seconds to frame and read these pieces."""
    format = FORMATS[name]
    framing, reader = format.framing(), format.reader(asking("x"))
    began = time.process_time()
    for piece in pieces:
        for event in framing.feed(piece):
            reader.feed(event.data)
    return time.process_time() - began


def _parsing(pieces: list[bytes]) -> float:
    """CPU seconds to do the least with them: find the JSON and parse it with the standard library."""
    began = time.process_time()
    for piece in pieces:
        json.loads(piece[piece.index(b"{") :])
    return time.process_time() - began


def _texts(name: FormatName) -> list[bytes]:
    if name == "openai_chat":
        return sse(*(chat({"content": f" word{n}"}) for n in range(CHUNKS)))
    if name == "openai_responses":
        kind = "response.output_text.delta"
        return sse(
            *(
                {"type": kind, "item_id": "m", "output_index": 0, "delta": f" word{n}", "sequence_number": n}
                for n in range(CHUNKS)
            )
        )
    if name == "anthropic_messages":
        begun = sse(block_start(0, {"type": "text", "text": ""}))
        return begun + sse(*(block_delta(0, "text_delta", text=f" word{n}") for n in range(CHUNKS)))
    return lines(*({"message": {"role": "assistant", "content": f" word{n}"}, "done": False} for n in range(CHUNKS)))


def _per_chunk(name: FormatName) -> Figure:
    pieces = _texts(name)
    ours, bare = interleaved(lambda: _reading(name, pieces), lambda: _parsing(pieces), ROUNDS)
    return Figure(
        f"a streamed chunk of {name} read",
        ours / len(pieces) * 1e6,
        "µs",
        goal=25,
        comparison=bare / len(pieces) * 1e6,
        compared_with="json.loads alone",
        note="CPU",
    )


def _arguments(name: FormatName, size: int) -> list[bytes]:
    texts = ['{"text": "', *[PIECE] * (size // len(PIECE)), '"}']
    if name == "openai_chat":
        return sse(chat(call_delta(0, "", id="c", name="t")), *(chat(call_delta(0, text)) for text in texts))
    if name == "openai_responses":
        kind, item = "response.function_call_arguments.delta", {"type": "function_call", "id": "f", "name": "t"}
        added = {"type": "response.output_item.added", "output_index": 0, "item": item}
        return sse(added, *({"type": kind, "item_id": "f", "output_index": 0, "delta": text} for text in texts))
    begun = block_start(0, {"type": "tool_use", "id": "c", "name": "t", "input": {}})
    return sse(begun, *(block_delta(0, "input_json_delta", partial_json=text) for text in texts))


def _linear(name: FormatName) -> Figure:
    whole, tenth = _arguments(name, MEGABYTE), _arguments(name, MEGABYTE // 10)
    big, small = interleaved(lambda: _reading(name, whole), lambda: _reading(name, tenth), 3)
    return Figure(
        f"1 MB of arguments in pieces of 50, {name}",
        big * 1000,
        "ms",
        goal=15,
        of="ratio",
        comparison=small * 1000,
        compared_with="a tenth of it",
        note="CPU; 10 is linear",
    )


async def _cancel() -> Figure:
    """Milliseconds from the cancellation of a slow stream to the server seeing its connection closed."""

    async def handler(request: HttpRequest, connection: HttpConnection) -> None:
        await connection.begin_stream()
        await connection.piece(sse(chat({"content": "a"}))[0])
        await connection.gone.wait()

    async with RawHttp(handler) as server:
        provider = HttpProvider("bench", ProviderSettings(base_url=server.url), no_secret)
        ours = [await _closed(server, provider) for _ in range(CANCELS)]
        await provider.close()
        bare = [await _bare_closed(server) for _ in range(CANCELS)]
    return Figure(
        "from cancelling a stream to its closed socket",
        statistics.median(ours) * 1000,
        "ms",
        goal=100,
        comparison=statistics.median(bare) * 1000,
        compared_with="a bare socket closed",
    )


no_secret: Callable[[str], str | None] = {}.get


async def _closed(server: RawHttp, provider: HttpProvider) -> float:
    shown = asyncio.Event()

    async def read() -> None:
        async for _ in provider.stream(asking("x")):
            shown.set()

    reading = asyncio.ensure_future(read())
    await shown.wait()
    began = time.perf_counter()
    reading.cancel()
    await server.connections[-1].gone.wait()
    took = time.perf_counter() - began
    await asyncio.gather(reading, return_exceptions=True)
    return took


async def _bare_closed(server: RawHttp) -> float:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"POST / HTTP/1.1\r\ncontent-length: 0\r\n\r\n")
    await reader.readuntil(b"\r\n\r\n")
    began = time.perf_counter()
    writer.close()
    await server.connections[-1].gone.wait()
    return time.perf_counter() - began
