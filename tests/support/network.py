"""A network listener beside the socket of a `live` daemon, and raw clients for it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import ssl
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from hermes_daemon.core.settings import ListenSettings
from hermes_daemon.server.listening import Listening
from tests.support.live import PATIENCE, Live, Peer

ACCEPTING = 5
"""Turns of the loop in which asyncio accepts a connection: closing the listener in between leaves it open for ever."""
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


class Network:
    """The listener of one test. `token` is the one in the file."""

    def __init__(self, listening: Listening, home: str, context: ssl.SSLContext | None) -> None:
        self.listening = listening
        self.host, _, port = listening.endpoints[0].partition("://")[2].rpartition(":")
        self.port = int(port)
        self.token_path = os.path.join(home, "token")
        self._context = context
        self._writers: list[asyncio.StreamWriter] = []

    @property
    def token(self) -> str:
        with open(self.token_path) as file:
            return file.read().strip()

    async def open(self, **more: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A bare connection."""
        reader, writer = await asyncio.open_connection(self.host, self.port, ssl=self._context, **more)
        self._writers.append(writer)
        return reader, writer

    async def peer(self, name: str = "test", *, initialize: bool = True, **hello: Any) -> Peer:
        """A newline client, initialized with the token."""
        peer = Peer(*await self.open())
        if initialize:
            await peer.initialize(name, **(hello if "auth" in hello else {"auth": {"token": self.token}, **hello}))
        return peer

    async def say(self, data: bytes) -> bytes:
        """Everything the daemon answers to these bytes until it closes."""
        reader, writer = await self.open()
        writer.write(data)
        async with asyncio.timeout(PATIENCE):
            return await reader.read()

    async def get(self, path: str, *headers: str, method: str = "GET") -> tuple[int, dict[str, str], bytes]:
        """Status, headers with lower case names, body. A Host header is added where none is given."""
        rows = [*([] if any(row.lower().startswith("host:") for row in headers) else ["Host: localhost"]), *headers]
        head = "".join(f"{row}\r\n" for row in rows)
        return parsed(await self.say(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode()))

    def bearer(self) -> str:
        return f"Authorization: Bearer {self.token}"

    async def websocket(self, *headers: str, path: str = "/") -> RawWebSocket:
        """A WebSocket after the upgrade; AssertionError with the answer where it was refused."""
        reader, writer = await self.open()
        writer.write(upgrade(*headers, path=path))
        async with asyncio.timeout(PATIENCE):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
        assert head.startswith("HTTP/1.1 101 "), head
        return RawWebSocket(reader, writer, head)

    def close(self) -> None:
        for writer in self._writers:
            writer.close()
        self.listening.close()


class RawWebSocket:
    """A client that can send what no good client sends."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: str = "") -> None:
        self.reader, self.writer, self.head = reader, writer, head
        self._next = 0

    def send(self, message: object) -> None:
        body = message if isinstance(message, bytes) else msgspec.json.encode(message)
        self.writer.write(frame(TEXT, body))

    async def frame(self) -> tuple[int, bytes]:
        """The next frame: opcode and payload. Server frames are whole and unmasked, and that is checked."""
        async with asyncio.timeout(PATIENCE):
            first, second = await self.reader.readexactly(2)
            assert first & 0xF0 == 0x80, "whole, without extensions"
            assert second < 128, "unmasked"
            size = second
            if size == 126:
                size = int.from_bytes(await self.reader.readexactly(2), "big")
            elif size == 127:
                size = int.from_bytes(await self.reader.readexactly(8), "big")
            return first & 0x0F, await self.reader.readexactly(size)

    async def message(self) -> Any:
        """The next text frame, decoded."""
        while True:
            opcode, body = await self.frame()
            if opcode == TEXT:
                return msgspec.json.decode(body)
            assert opcode == PING, (opcode, body)

    async def request(self, method: str, params: object = None) -> Any:
        self._next += 1
        self.send({"jsonrpc": "2.0", "id": self._next, "method": method, "params": params or {}})
        while True:
            message = await self.message()
            if isinstance(message, dict) and message.get("id") == self._next:
                return message

    async def closed(self) -> tuple[int, bytes]:
        """The code and reason of the close frame; the stream ends behind it."""
        while True:
            opcode, body = await self.frame()
            if opcode == CLOSE:
                async with asyncio.timeout(PATIENCE):
                    assert await self.reader.read() == b""
                return int.from_bytes(body[:2], "big"), body[2:]


def frame(opcode: int, payload: bytes = b"", *, fin: bool = True, masked: bool = True) -> bytes:
    """A client's frame."""
    head = bytes([opcode | (0x80 if fin else 0)])
    bit = 0x80 if masked else 0
    if len(payload) < 126:
        head += bytes([len(payload) | bit])
    elif len(payload) < 65_536:
        head += bytes([126 | bit]) + len(payload).to_bytes(2, "big")
    else:
        head += bytes([127 | bit]) + len(payload).to_bytes(8, "big")
    if not masked:
        return head + payload
    key = b"\x0f\xa0\x33\xc5"
    full = (key * (len(payload) // 4 + 1))[: len(payload)]
    mixed = int.from_bytes(payload, "big") ^ int.from_bytes(full, "big")
    return head + key + mixed.to_bytes(len(payload), "big")


def upgrade(*headers: str, path: str = "/", method: str = "GET") -> bytes:
    """The request that opens a WebSocket."""
    rows = [
        *([] if any(row.lower().startswith("host:") for row in headers) else ["Host: localhost"]),
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Key: {base64.b64encode(bytes(16)).decode()}",
        *headers,
    ]
    return (f"{method} {path} HTTP/1.1\r\n" + "".join(f"{row}\r\n" for row in rows) + "\r\n").encode()


def parsed(answer: bytes) -> tuple[int, dict[str, str], bytes]:
    """Status, headers with lower case names, body."""
    head, found, body = answer.partition(b"\r\n\r\n")
    assert found, answer
    first, *rows = head.decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (row.partition(":") for row in rows)}
    return int(first.split(" ")[1]), headers, body


@contextlib.asynccontextmanager
async def network(daemon: Live, context: ssl.SSLContext | None = None, **settings: Any) -> AsyncIterator[Network]:
    """The daemon, reachable at 127.0.0.1 with these `listen` settings; `context` is the client's for TLS."""
    place = {} if "tls" in settings or "tcp" in settings else {"tcp": ("127.0.0.1:0",)}
    listening = await Listening.open(daemon.daemon, ListenSettings(**place, **settings), daemon.home)
    assert not listening.problems, listening.problems
    opened = Network(listening, daemon.home, context)
    try:
        yield opened
    finally:
        for _ in range(ACCEPTING):  # a connection that was just made is taken before nobody listens any more
            await asyncio.sleep(0)
        opened.close()
        await asyncio.sleep(0)
