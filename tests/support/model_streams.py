"""Reading a provider's stream to its end in a test."""

from __future__ import annotations

from typing import Any

from hermes_daemon.core.ports import Chunk, Provider, ProviderFailure, Reply, Request, TextDelta
from hermes_protocol.content import Message, TextPart


async def collect(provider: Provider, request: Request) -> tuple[list[Chunk], ProviderFailure | None]:
    """All chunks, and the failure that ended the stream if one did."""
    chunks: list[Chunk] = []
    try:
        async for chunk in provider.stream(request):
            chunks.append(chunk)  # noqa: PERF401 - what came before a failure counts
    except ProviderFailure as failure:
        return chunks, failure
    return chunks, None


async def answer(provider: Provider, request: Request) -> Reply:
    """The reply; fails the test when there is none, or when its text is not what was streamed."""
    chunks, failure = await collect(provider, request)
    assert failure is None, failure
    reply = chunks[-1]
    assert isinstance(reply, Reply)
    assert "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta)) == reply.message.text
    return reply


def asking(text: str, model: str = "m", **fields: Any) -> Request:
    """A request with one user message."""
    return Request(model, "", (Message("user", (TextPart(text),)),), **fields)
