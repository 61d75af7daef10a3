"""Ways of asking a service, behind one client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

from hermes_daemon.api import HttpReply

from .answers import Answer, read
from .declines import Declined
from .questions import Asked

DEFAULT_MODEL: Final = "jev-latest"
SYSTEM_ONE: Final = "v1/systemone"


class Send(Protocol):
    """One exchange with the endpoint. Raises Unavailable."""

    async def __call__(self, method: str, path: str, body: bytes | None = None) -> HttpReply: ...


class Health(msgspec.Struct, frozen=True):
    """What a probe found. `reachable`: a server answered. `model` is what it has ready, None for nothing."""

    reachable: bool
    model: str | None = None
    problem: str = ""


class Backend(Protocol):
    """How the questions are put on the wire. `tails` are ends of an endpoint that mean the same service."""

    name: str
    tails: tuple[str, ...]
    needs_endpoint: bool
    needs_model: bool

    async def ask(self, send: Send, model: str, state: Any, questions: Sequence[Asked]) -> dict[str, Answer]:
        """An answer for each question. Raises Declined and Unavailable."""
        ...

    async def health(self, send: Send, model: str) -> Health:
        """One fresh GET. Raises Unavailable."""
        ...


class SystemOne:
    """POST {state, model, questions} to /v1/systemone; GET /health."""

    name = "systemone"
    tails: tuple[str, ...] = ("/v1/systemone", "/v1")
    needs_endpoint = True
    needs_model = False

    async def ask(self, send: Send, model: str, state: Any, questions: Sequence[Asked]) -> dict[str, Answer]:
        """See Backend."""
        asked = {each.id: each.wire() for each in questions}
        body = msgspec.json.encode({"state": state, "model": model or DEFAULT_MODEL, "questions": asked})
        return read(questions, field(decoded(await send("POST", SYSTEM_ONE, body)), "answers"))

    async def health(self, send: Send, model: str) -> Health:
        """See Backend. A server without a loaded model answers 200 with `model: null`, some name none at all."""
        reply = await send("GET", "health")
        if reply.status != 200:
            return Health(True, None, f"/health answered with status {reply.status}")
        try:
            said = msgspec.json.decode(reply.body)
        except msgspec.DecodeError:
            return Health(True, None, "/health answered something that is not JSON")
        ready = said.get("model") if isinstance(said, Mapping) else None
        if not isinstance(ready, str) or not ready:
            return Health(True, None, "the server names no model")
        return Health(True, ready)


def decoded(reply: HttpReply) -> Any:
    """The JSON of a reply with status 200. Declined with the reason for everything else; of the body nothing is
    repeated."""
    status = reply.status
    if status >= 500:
        raise Declined("service_error", f"the service answered with status {status}", failure=True)
    if status == 413:
        raise Declined("text_limits", "the service takes no request of that size")
    if status != 200:
        raise Declined("service_error", f"the service refused the request with status {status}")
    if reply.cut:
        raise Declined("unusable_body", "the reply is too long")
    try:
        return msgspec.json.decode(reply.body)
    except (msgspec.DecodeError, RecursionError):
        raise Declined("unusable_body", "the reply is not JSON") from None


def field(value: Any, *path: str | int) -> Any:
    """The value at a path of keys and indexes, None where there is none."""
    for step in path:
        if isinstance(step, str) and isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(step, int) and isinstance(value, Sequence) and not isinstance(value, str) and len(value) > step:
            value = value[step]
        else:
            return None
    return value
