"""The least that a Python server can do with our frames: asyncio, msgspec, no protocol. python -m tests.bench.bare_echo
SOCKET [uvloop]"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

import msgspec


class Params(msgspec.Struct, frozen=True):
    echo: Any = None


class Frame(msgspec.Struct):
    id: int
    method: str
    params: Params = Params()


class Result(msgspec.Struct, rename="camel"):
    monotonic_ms: float
    echo: Any


class Answer(msgspec.Struct):
    id: int
    result: Result
    jsonrpc: str = "2.0"


class Echo(asyncio.Protocol):
    """Reads a ping, answers a pong."""

    def __init__(self) -> None:
        self._decoder = msgspec.json.Decoder(Frame)
        self._encoder = msgspec.json.Encoder()
        self._rest = b""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            frame = self._decoder.decode(line)
            answer = Answer(frame.id, Result(time.monotonic() * 1000, frame.params.echo))
            self._transport.write(self._encoder.encode(answer) + b"\n")


async def _serve(path: str) -> None:
    server = await asyncio.get_running_loop().create_unix_server(Echo, path)
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    if sys.argv[2:] == ["uvloop"]:
        import uvloop

        uvloop.run(_serve(sys.argv[1]))
    else:
        asyncio.run(_serve(sys.argv[1]))
