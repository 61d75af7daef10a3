"""Handed cases of the area rpc, fed to a real socket as they are."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec

from hermes_daemon.core.ports import ToolContext, ToolOutcome
from tests.support.live import TestTool, live
from tests.support.shared_data import case


def test_frame_batch_and_types(tmp_path: Path) -> None:
    """Valid JSON that is no valid request is refused frame by frame; the connection stays and the last is answered."""
    items = json.loads((case("rpc", "frame-batch-and-types") / "items.json").read_text())

    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            peer._next = 100  # the ids of the case are its own
            for item in items:
                peer.send(item)
            refused = []
            while not any(answer.get("id") == 5 for answer in refused):
                await peer._read()
                refused = [frame for frame in peer.order if isinstance(frame, dict) and "error" in frame]
            answers = [(frame["id"], frame["error"]["code"]) for frame in refused]
            assert answers == [
                *[(None, -32600)] * 3,
                (1, -32600),
                (2, -32600),
                (None, -32600),
                (3, -32600),
                (4, -32600),
                (5, -32601),
            ]
            assert (await peer.request("hermes/daemon/ping", {"echo": "still here"}))["echo"] == "still here"

    asyncio.run(story())


def test_cancel_before_start(tmp_path: Path) -> None:
    """What waits behind a slow request and is cancelled there is answered at once and never carried out."""
    assert case("rpc", "cancel-before-start")
    running, let_go = asyncio.Event(), asyncio.Event()

    async def slow(args: dict[str, Any], ctx: ToolContext) -> ToolOutcome:
        running.set()
        await let_go.wait()
        return ToolOutcome("done")

    async def story() -> None:
        model = "scripted/tool?name=slow&args=%7B%7D"
        async with live(str(tmp_path), tools=[TestTool("slow", slow, read_only=True)]) as daemon:
            peer = await daemon.peer()
            session = await peer.session(model=model)
            await peer.submit(session, "slow")
            await running.wait()
            waits = [
                peer.call("hermes/session/wait", {"sessionId": session, "until": "idle", "timeoutMs": 600_000})
                for _ in range(30)
            ]
            queued = [
                {"jsonrpc": "2.0", "id": f"q{n}", "method": "hermes/turn/submit",
                 "params": {"sessionId": session, "key": f"q{n}", "input": [{"type": "text", "text": f"queued {n}"}]}}
                for n in range(30)
            ]  # fmt: skip
            cancels = [{"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": f"q{n}"}} for n in range(30)]
            # In one write: the cancels are read before any of the requests has begun.
            peer.send(b"\n".join(map(msgspec.json.encode, [*queued, *cancels])))
            for n in range(30):
                assert (await peer.answer(f"q{n}"))["error"]["code"] == -32800
            for wait in waits:
                peer.send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": wait}})
                assert (await peer.answer(wait))["error"]["code"] == -32800
            for unknown in ("q0", waits[0], "never asked", 10**9):
                peer.send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": unknown}})
            assert (await peer.request("hermes/queue/list", {"sessionId": session}))["queue"] == []
            last = await peer.submit(session, "one more")
            let_go.set()
            while (await peer.event("turn.ended"))["turnId"] != last["turnId"]:
                pass
            page = await peer.request("hermes/session/items", {"sessionId": session})
            assert [item["text"] for item in page["items"] if item["type"] == "userMessage"] == ["slow", "one more"]

    asyncio.run(story())
