"""Stands in for the engine in the child process: the same few names, a scripted endpoint behind them.

The first line of the model file says how it behaves: `fail` does not load, `slow` never gets ready, anything else
serves. A request whose text is `die` kills the process in the middle of its answer; `long` is refused as too long.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import types

from tests.support.raw_http import HttpConnection, HttpRequest, RawHttp

WORD = b'data: {"choices":[{"index":0,"delta":{"content":"%s"}}]}\n\n'
END = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
TOO_LONG = b'{"error":{"code":400,"message":"request exceeds the available context size (64 tokens)"}}'


class CommonParams:
    def __init__(self) -> None:
        self.model = types.SimpleNamespace(path="")
        self.cpuparams = types.SimpleNamespace(n_threads=-1)
        self.cpuparams_batch = types.SimpleNamespace(n_threads=-1)


class Server:
    def __init__(self, params: CommonParams) -> None:
        print("loading", params.model.path, flush=True)  # on standard output, as libraries do
        with open(params.model.path) as file:
            behaviour = file.readline().strip()
        if behaviour == "fail":
            print("the tensors are upside down", file=sys.stderr, flush=True)
            raise RuntimeError("Failed to init server")
        if behaviour == "slow":
            threading.Event().wait()
        self._key = params.api_keys[0]
        ready = threading.Event()
        threading.Thread(target=lambda: asyncio.run(self._serve(ready)), daemon=True).start()
        ready.wait()

    async def _serve(self, ready: threading.Event) -> None:
        async with RawHttp(self._answer) as server:
            self.listening_address = server.url
            ready.set()
            await asyncio.Event().wait()

    async def _answer(self, request: HttpRequest, connection: HttpConnection) -> None:
        text = request.json()["messages"][-1]["content"]
        if request.headers.get("authorization") != f"Bearer {self._key}":
            await connection.answer(401)
        elif text == "long":
            await connection.answer(400, TOO_LONG)
        else:
            await connection.begin_stream()
            await connection.piece(WORD % b"half")
            if text == "die":
                print("out of luck", file=sys.stderr, flush=True)
                os.kill(os.getpid(), signal.SIGKILL)
            await connection.piece(END)
            await connection.end_stream()
