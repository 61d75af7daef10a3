"""A daemon with middleware of the test: one turn, and what became of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from hermes_daemon.core.ports import Provider, Tool
from hermes_daemon.middleware.registry import Registry
from tests.support.live import Live, Peer, live

Story = Callable[[Live, Peer], Awaitable[None]]
EVERYTHING: dict[str, Any] = {"requests": ["permission"], "maxLatencyMs": 0, "telemetry": "all",
                              "middlewareTrace": True}  # fmt: skip
WRITE = 'scripted/tool?name=write&args={"text":"x"}'


def tell(
    home: Path, registry: Registry, story: Story, *, tools: Sequence[Tool] = (), config: str = "",
    provider: Provider | None = None,
) -> None:  # fmt: skip
    """Run `story(daemon, peer)` with a daemon that has these registrations."""

    async def run() -> None:
        async with live(str(home), middleware=registry, tools=tools, config=config, provider=provider) as daemon:
            await story(daemon, await daemon.peer(capabilities=EVERYTHING))

    asyncio.run(run())


async def items(peer: Peer, session: str, kind: str) -> list[dict[str, Any]]:
    """The stored items of one type."""
    page = await peer.request("hermes/session/items", {"sessionId": session})
    return [item for item in page["items"] if item["type"] == kind]


async def answered(peer: Peer, option: str = "allow_once") -> dict[str, Any]:
    """Answer the next permission request; what it said."""
    data: dict[str, Any] = (await peer.event("request.opened"))["data"]
    await peer.request("hermes/request/answer", {"requestId": data["requestId"], "answer": {"optionId": option}})
    return data


async def fact(peer: Peer, name: str, **attrs: Any) -> dict[str, Any]:
    """The attributes of the next telemetry of that name."""
    while True:
        note = await peer.note("telemetry/event")
        found: dict[str, Any] = note.get("attrs", {})
        if note["name"] == name and all(found.get(key) == value for key, value in attrs.items()):
            return found


def kinds(peer: Peer) -> list[str]:
    """Every event so far."""
    return [frame["params"]["kind"] for frame in peer.order if frame.get("method") == "hermes/event"]
