"""A System One server of the tests: it answers in the shapes of the wire, or fails as told, and keeps the requests.

The shapes (names and types of fields, errors, `/health` without a model) are those of typed-gguf 0.3.0's server, which
tests/real/test_typed_gguf.py asks itself.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from tests.support.raw_http import HttpConnection, HttpRequest, RawHttp

Step = Callable[[HttpRequest, HttpConnection], Any]


class SystemOneServer(RawHttp):
    """Each POST takes the next of `steps`, the last one again and again; without any it answers properly. While
    `held` is not set, answers wait. `health` is what GET /health says."""

    def __init__(self, *steps: Step) -> None:
        super().__init__(self._handle)
        self.steps = list(steps)
        self.held = asyncio.Event()
        self.held.set()
        self.arrived = asyncio.Event()
        self.health: tuple[int, Any] = (200, {"status": "ok", "service": "test", "model": "small", "warm": True})

    @property
    def posts(self) -> list[HttpRequest]:
        return [request for request in self.requests if request.method == "POST"]

    @property
    def gets(self) -> list[HttpRequest]:
        return [request for request in self.requests if request.method == "GET"]

    async def _handle(self, request: HttpRequest, connection: HttpConnection) -> None:
        if request.method == "GET":
            status, body = self.health
            await connection.answer(status, json.dumps(body).encode())
            return
        self.arrived.set()
        step = (self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]) if self.steps else answering
        await self.held.wait()
        await step(request, connection)


async def answering(request: HttpRequest, connection: HttpConnection) -> None:
    """The first option of each question, with probability 0.75."""
    body = request.json()
    assert request.path == "/v1/systemone"
    assert set(body) == {"state", "model", "questions"}
    answers = {id: _answer(question) for id, question in body["questions"].items()}
    reply = {"model": body["model"], "answers": answers, "usage": {"input_tokens": 9, "output_tokens": 0}}
    await connection.answer(200, json.dumps(reply).encode())


def status(code: int, body: Any = None) -> Step:
    """An answer with that status."""

    async def step(request: HttpRequest, connection: HttpConnection) -> None:
        await connection.answer(code, json.dumps(body if body is not None else {"detail": "no"}).encode())

    return step


def saying(body: bytes) -> Step:
    """An answer with status 200 and that body."""

    async def step(request: HttpRequest, connection: HttpConnection) -> None:
        await connection.answer(200, body)

    return step


async def breaking(request: HttpRequest, connection: HttpConnection) -> None:
    """No answer: the connection breaks."""
    connection.drop()


async def silent(request: HttpRequest, connection: HttpConnection) -> None:
    """No answer, and the connection stays."""
    await connection.gone.wait()


def _answer(question: dict[str, Any]) -> dict[str, Any]:
    kind, criteria = question["type"], question["criteria"]
    if kind == "noul":
        return {"type": "noul", "noul": 0.75, "probabilities": {"yes": 0.75, "no": 0.25}}
    options = [str(n) for n in range(len(criteria))] if kind == "score" else list(criteria)
    rest = 0.25 / max(1, len(options) - 1)
    shares = {option: 0.75 if option == options[0] else rest for option in options}
    common = {"type": kind, "confidence": 0.5, "probabilities": shares}
    if kind == "choice":
        return common | {"choice": options[0]}
    mean = sum(int(option) * share for option, share in shares.items())
    return common | {"score": mean, "legend": dict(zip(options, criteria, strict=True))}
