"""Handed cases of the area rpc, fed to a real socket as they are."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from tests.support.live import live
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
