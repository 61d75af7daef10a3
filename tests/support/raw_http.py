"""A small HTTP/1.1 server on asyncio for tests: the handler decides about every byte it sends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any


@dataclass
class HttpRequest:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class HttpConnection(asyncio.Protocol):
    """What a handler writes to. `gone` is set when the client closed its end."""

    def __init__(self, server: RawHttp) -> None:
        self._server = server
        self._input = bytearray()
        self._requests: asyncio.Queue[HttpRequest] = asyncio.Queue()
        self._may_write = asyncio.Event()
        self._may_write.set()
        self.gone = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._server.connections.append(self)
        self._task = asyncio.get_running_loop().create_task(self._serve())

    def data_received(self, data: bytes) -> None:
        self._input += data
        while (end := self._input.find(b"\r\n\r\n")) >= 0:
            first, *lines = self._input[:end].decode("latin-1").split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            total = end + 4 + int(headers.get("content-length", "0"))
            if len(self._input) < total:
                return
            method, path, _ = first.split(" ")
            self._requests.put_nowait(HttpRequest(method, path, headers, bytes(self._input[end + 4 : total])))
            del self._input[:total]

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone.set()
        self._may_write.set()
        self._task.cancel()

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    async def _serve(self) -> None:
        while True:
            request = await self._requests.get()
            self._server.requests.append(request)
            await self._server.handler(request, self)

    async def send(self, data: bytes) -> None:
        self._transport.write(data)
        await self._may_write.wait()

    async def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        """A whole answer. Header names are given with underscores."""
        fields = {"content-type": "application/json", "content-length": str(len(body))}
        fields |= {name.replace("_", "-"): value for name, value in headers.items()}
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        await self.send(f"HTTP/1.1 {status} X\r\n{head}\r\n".encode() + body)

    async def begin_stream(self, content_type: str = "text/event-stream") -> None:
        """The head of a chunked answer; `piece` and `end_stream` follow."""
        head = f"HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ntransfer-encoding: chunked\r\n\r\n"
        await self.send(head.encode())

    async def piece(self, data: bytes) -> None:
        if data:
            await self.send(b"%x\r\n%b\r\n" % (len(data), data))

    async def end_stream(self) -> None:
        await self.send(b"0\r\n\r\n")

    def drop(self) -> None:
        """Break the connection off at once."""
        self._transport.abort()

    def finish(self) -> None:
        """Close once everything written is sent."""
        self._transport.close()

    async def stop(self) -> None:
        self._transport.abort()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


Handler = Callable[[HttpRequest, HttpConnection], Awaitable[None]]


class RawHttp:
    """`async with RawHttp(handler) as server: server.url`. Connections are kept until a side closes them."""

    def __init__(self, handler: Handler, port: int = 0) -> None:
        self.handler = handler
        self._port = port
        self.requests: list[HttpRequest] = []
        self.connections: list[HttpConnection] = []

    async def __aenter__(self) -> RawHttp:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: HttpConnection(self), "127.0.0.1", self._port)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()
        for connection in self.connections:
            await connection.stop()
        await self._server.wait_closed()
