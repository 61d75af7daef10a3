"""No frame is longer than its reader takes (maxFrameBytes, decisions 12), and nothing is lost by that."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_daemon.core.ports import ToolContext, ToolOutcome
from hermes_daemon.server.fitting import fitted
from tests.support.live import Live, Peer, TestTool, live
from tests.support.loops import run

LIMIT = 65_536
SHORT: dict[str, Any] = {"capabilities": {"maxLatencyMs": 0, "maxFrameBytes": LIMIT}}
ROOMY = "scripted/words?n=1&context=900000000"


class Measuring:
    """A connection that notes the longest line it is sent."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer

    @property
    def longest(self) -> int:
        return max(len(msgspec.json.encode(frame)) for frame in self.peer.order)


async def whole(peer: Peer, blob_id: str, limit: int, encoding: str = "utf8") -> bytes:
    """Everything a blob holds, page by page."""
    data, offset = b"", 0
    while True:
        asked = {"blobId": blob_id, "offset": offset, "limit": limit, "encoding": encoding}
        page = await peer.request("hermes/blob/read", asked)
        data += base64.b64decode(page["data"]) if encoding == "base64" else page["data"].encode()
        assert page["nextOffset"] > offset or page["eof"]
        offset = page["nextOffset"]
        if page["eof"]:
            assert (offset, len(data)) == (page["total"], page["total"])
            return data


async def long_message(daemon: Live, folder: str, text: str) -> str:
    owner = await daemon.peer("owner", capabilities={"maxFrameBytes": 16_777_216})
    session = await owner.session(folder, model=ROOMY)
    await owner.say(session, text)
    return session


def test_a_long_message_is_cut_for_a_reader_of_short_frames_and_can_be_read_whole(tmp_path: Path) -> None:
    text = "begin " + "ünïcödé 🎈 " * 20_000 + "end"

    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            short = await daemon.peer("short", **SHORT)
            session = await short.session(str(tmp_path), model=ROOMY)
            owner = await daemon.peer("owner")
            await owner.request("hermes/session/subscribe", {"sessionId": session})
            await owner.say(session, text)
            completed = await short.event("item.completed")
            item = completed["data"]["item"]
            assert item["text"].startswith("begin ")
            assert item["text"].endswith("end")
            assert "characters left out" in item["text"]
            assert item["blob"]["bytes"] == len(text.encode())
            assert (await whole(short, item["blob"]["id"], 30_000)).decode() == text
            await short.event("turn.ended")
            assert Measuring(short).longest <= LIMIT
            full = (await owner.event("item.completed"))["data"]["item"]
            assert (full["text"], "blob" in full) == (text, False)

    run(story())


def test_snapshots_and_pages_fit_and_lead_to_every_item(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            session = await long_message(daemon, str(tmp_path), "z" * 400_000)
            owner = await daemon.peer("owner2")
            await owner.request("hermes/session/subscribe", {"sessionId": session})
            for number in range(12):
                await owner.say(session, f"{number} " + "y" * 9_000)
            short = await daemon.peer("short", **SHORT)
            snapshot = (await short.request("hermes/session/subscribe", {"sessionId": session}))["snapshot"]
            items, cursor = list(snapshot["items"]), snapshot["olderCursor"]
            assert 0 < len(items) < 26
            while cursor:
                asked = {"sessionId": session, "before": cursor, "limit": 1000}
                page = await short.request("hermes/session/items", asked)
                items, cursor = page["items"] + items, page.get("nextCursor")
            everything = (await owner.request("hermes/session/items", {"sessionId": session, "limit": 1000}))["items"]
            assert [item["itemId"] for item in items] == [item["itemId"] for item in everything]
            forwards, cursor = [], None
            while True:
                asked = {"sessionId": session, "limit": 1000, **({"after": cursor} if cursor else {})}
                page = await short.request("hermes/session/items", asked)
                forwards += page["items"]
                cursor = page.get("nextCursor")
                if cursor is None:
                    break
            assert [item["itemId"] for item in forwards] == [item["itemId"] for item in everything]
            assert Measuring(short).longest <= LIMIT

    run(story())


def test_an_open_item_that_is_too_long_is_cut_and_its_end_is_whole(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            owner = await daemon.peer("owner")
            script = tmp_path / "long.yaml"
            script.write_text(f"- text: {'w' * 300_000}\n  hang: true\n")
            session = await owner.session(str(tmp_path), model=f"scripted/file:{script}")
            await owner.submit(session, "go")
            await owner.event("item.delta")
            short = await daemon.peer("short", **SHORT)
            snapshot = (await short.request("hermes/session/subscribe", {"sessionId": session}))["snapshot"]
            assert snapshot["inflight"][0]["offset"] == 300_000
            await short.request("hermes/turn/interrupt", {"sessionId": session})
            item = (await short.event("item.completed"))["data"]["item"]
            assert (await whole(short, item["blob"]["id"], 65_536)).decode() == "w" * 300_000
            assert Measuring(short).longest <= LIMIT

    run(story())


@pytest.mark.parametrize("size", [900, 50_000, 70_000, 1_000_000])
def test_a_big_tool_output_is_head_and_tail_and_a_blob_that_pages_back_to_the_byte(tmp_path: Path, size: int) -> None:
    text = ("ä\n🎈x" * size)[: size // 2]

    async def look(args: dict[str, Any], ctx: ToolContext) -> ToolOutcome:
        for start in range(0, len(text), 10_000):
            ctx.progress(text[start : start + 10_000])
        return ToolOutcome(text)

    async def story() -> None:
        async with live(str(tmp_path), tools=[TestTool("look", look, read_only=True)]) as daemon:
            peer = await daemon.peer("short", **SHORT)
            session = await peer.session(str(tmp_path), model="scripted/tool?name=look&context=900000000")
            await peer.say(session, "go")
            page = await peer.request("hermes/session/items", {"sessionId": session})
            output = next(item for item in page["items"] if item["type"] == "toolCall")["output"]
            data = text.encode()
            assert ("text" in output) == (size < 1000)  # 65,536 bytes are shown inline, but not in half a short frame
            if "text" in output:
                assert output["text"] == text
                return
            assert text.startswith(output["head"])
            assert text.endswith(output["tail"])
            assert output["blob"]["bytes"] == len(data)
            assert output["blob"]["lines"] == text.count("\n") + 1
            assert await whole(peer, output["blob"]["id"], 10_001) == data
            assert await whole(peer, output["blob"]["id"], 1_000_000, "base64") == data
            assert Measuring(peer).longest <= LIMIT

    run(story())


def test_a_blob_page_always_goes_forward(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            session = await long_message(daemon, str(tmp_path), "🎈" * 20_000)
            peer = await daemon.peer("short", **SHORT)
            items = (await peer.request("hermes/session/items", {"sessionId": session}))["items"]
            blob = items[0]["blob"]["id"]
            for limit in (0, 1, 3, -5):
                page = await peer.request("hermes/blob/read", {"blobId": blob, "limit": limit})
                assert (page["data"], page["nextOffset"]) == ("🎈", 4)
            page = await peer.request("hermes/blob/read", {"blobId": blob, "offset": -9, "limit": 8})
            assert (page["data"], page["nextOffset"]) == ("🎈🎈", 8)
            beyond = await peer.request("hermes/blob/read", {"blobId": blob, "offset": 10**9})
            assert (beyond["data"], beyond["eof"]) == ("", True)
            for unknown in ("blob_none", "text:", "text:s_none:i", f"text:{session}:none"):
                assert (await peer.refused("hermes/blob/read", {"blobId": unknown}))["data"]["kind"] == "blob_not_found"

    run(story())


def test_an_answer_that_cannot_be_cut_is_refused_as_too_large(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer("short", **SHORT)
            error = await peer.refused("hermes/daemon/ping", {"echo": list(range(100_000))})
            assert (error["code"], error["data"]["limit"]) == (-32055, LIMIT)

    run(story())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=300),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(JSON, st.integers(100, 100_000))
def test_what_fits_is_left_alone_and_what_is_cut_fits(value: Any, repeat: int) -> None:
    long = {"value": value, "text": "x" * repeat, "list": ["y" * repeat] * 3}
    cut = fitted(long, 20_000)
    assert len(msgspec.json.encode(cut)) <= 20_000 + len(msgspec.json.encode(value))
    if len(msgspec.json.encode(long)) <= 20_000:
        assert cut == long
    assert cut["text"][0] == "x"
    assert cut["text"][-1] == "x"
