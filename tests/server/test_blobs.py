"""Big inputs and outputs: brought in pieces, read in pages, named in blocks, never streamed whole."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import tempfile
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_daemon.core.ports import Chunk, ModelInfo, Reply, Request, ToolContext, ToolOutcome
from hermes_daemon.core.records import PutBlob
from hermes_daemon.engine.call_context import MAX_INLINE
from hermes_daemon.engine.uploads import Upload
from hermes_protocol.content import ImagePart, Message, TextPart
from tests.support.live import Peer, TestTool, live
from tests.support.loops import run

PNG = base64.b64encode(b"\x89PNG not really").decode()


async def create(peer: Peer, session: str, data: str, **params: Any) -> dict[str, Any]:
    result: dict[str, Any] = await peer.request("hermes/blob/create", {"sessionId": session, "data": data, **params})
    return result


async def refused(peer: Peer, session: str, data: str, **params: Any) -> dict[str, Any]:
    return await peer.refused("hermes/blob/create", {"sessionId": session, "data": data, **params})


async def whole(peer: Peer, blob: str) -> str:
    page = await peer.request("hermes/blob/read", {"blobId": blob, "limit": 1_000_000})
    assert page["eof"]
    text: str = page["data"]
    return text


class Camera:
    """A provider that shows what it was sent."""

    name = "camera"

    def __init__(self) -> None:
        self.requests: list[Request] = []

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        self.requests.append(request)
        yield Reply(Message("assistant", (TextPart("seen"),)), "stop")

    async def close(self) -> None:
        return None


# --- bringing ---


def test_a_blob_comes_in_pieces_and_is_growing_until_the_last(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path))
            first = await create(peer, session, "one\n", final=False)
            blob = first["blobId"]
            assert first["bytes"] == 4
            page = await peer.request("hermes/blob/read", {"blobId": blob})
            assert (page["data"], page["eof"], page["total"], page["nextOffset"]) == ("one\n", False, 4, 4)
            wrong = await refused(peer, session, "two\n", blobId=blob, offset=3)
            assert (wrong["code"], wrong["data"]["path"], wrong["data"]["bytes"]) == (-32602, "$.offset", 4)
            assert (await create(peer, session, "two\n", blobId=blob, offset=4))["bytes"] == 8
            page = await peer.request("hermes/blob/read", {"blobId": blob, "offset": 4})
            assert (page["data"], page["eof"]) == ("two\n", True)
            ended = await refused(peer, session, "three\n", blobId=blob, offset=8)
            assert (ended["code"], ended["data"]["kind"]) == (-32042, "blob_not_found")

    run(story())


def test_a_blob_grows_in_its_own_session_only_and_observers_bring_none(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer, observer = await daemon.peer(), await daemon.peer("o", client={"id": "o", "role": "observer"})
            session, other = await peer.session(str(tmp_path)), await peer.session(str(tmp_path))
            blob = (await create(peer, session, "one\n", final=False))["blobId"]
            assert (await refused(peer, other, "x", blobId=blob, offset=4))["data"]["kind"] == "blob_not_found"
            assert (await refused(observer, session, "x"))["data"]["kind"] == "permission_denied"
            assert (await refused(peer, session, "no base64", encoding="base64"))["data"]["path"] == "$.data"
            bad = await peer.refused("hermes/blob/read", {"blobId": "none"})
            assert (bad["code"], bad["data"]["kind"]) == (-32042, "blob_not_found")

    run(story())


def test_more_than_a_session_may_have_is_refused_with_the_limit(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path), config="database:\n  session_blob_bytes: 10\n") as daemon:
            peer = await daemon.peer()
            session, other = await peer.session(str(tmp_path)), await peer.session(str(tmp_path))
            blob = (await create(peer, session, "123456\n", final=False))["blobId"]
            error = await refused(peer, session, "7890", blobId=blob, offset=7)
            assert (error["code"], error["data"]["kind"], error["data"]["limit"]) == (-32055, "too_large", 10)
            assert (await create(peer, other, "0123456789"))["bytes"] == 10

    run(story())


@given(cuts=st.lists(st.integers(0, 70), max_size=4), mime=st.sampled_from(["text/plain", "image/png"]))
def test_text_is_redacted_before_it_is_stored_wherever_it_is_cut(cuts: list[int], mime: str) -> None:
    secret = "hunter2hunter2"
    data = f"first line\nkey = {secret} and möre\nlast {secret}".encode()
    upload = Upload("b", mime, lambda text: text.replace(secret, "***"))
    places = [0, *sorted(cuts), len(data)]
    pieces = [data[start:end] for start, end in pairwise(places)]
    stored = [upload.ready(piece, final=place == len(pieces) - 1) for place, piece in enumerate(pieces)]
    expected = data.replace(secret.encode(), b"***") if mime == "text/plain" else data
    assert b"".join(stored) == expected


def test_a_restart_ends_what_grew_and_says_so(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path))
            blob = (await create(peer, session, "one\n", final=False))["blobId"]
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            error = await refused(peer, session, "two\n", blobId=blob, offset=4)
            assert (error["code"], "begin again" in error["message"]) == (-32042, True)

    run(story())


# --- naming ---


def test_an_image_that_a_block_names_is_read_for_every_request(tmp_path: Path) -> None:
    camera = Camera()

    async def story() -> None:
        async with live(str(tmp_path), provider=camera, info=ModelInfo("t/m", "m", "t", vision=True)) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path))
            blob = (await create(peer, session, PNG, encoding="base64", mime="image/png"))["blobId"]
            block = {"type": "image", "mime": "image/png", "blobId": blob}
            for key in ("a", "b"):
                await peer.request("hermes/turn/submit", {"sessionId": session, "input": [block], "key": key})
                await peer.event("turn.ended")
            stored = daemon.room.parts.store.messages(session)
            assert [part.data for message in stored for part in message.parts if isinstance(part, ImagePart)] == [
                None,
                None,
            ]
            sent = [part for message in camera.requests[-1].messages for part in message.parts]
            assert [part.data for part in sent if isinstance(part, ImagePart)] == [PNG, PNG]
            fork = (await peer.request("hermes/session/fork", {"sessionId": session}))["session"]["sessionId"]
            await peer.request("hermes/session/delete", {"sessionId": session})
            await peer.request("hermes/session/subscribe", {"sessionId": fork})
            await peer.request("hermes/turn/submit", {"sessionId": fork, "input": [block], "key": "c"})
            await peer.event("turn.ended")
            sent = [part for message in camera.requests[-1].messages for part in message.parts]
            assert [part.data for part in sent if isinstance(part, ImagePart)] == [PNG] * 3

    run(story())


def test_the_text_of_a_file_that_a_block_names_is_in_the_message(tmp_path: Path) -> None:
    camera = Camera()

    async def story() -> None:
        async with live(str(tmp_path), provider=camera) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path))
            blob = (await create(peer, session, "the whole file"))["blobId"]
            block = {"type": "file", "path": "/a/b.txt", "blobId": blob}
            await peer.request("hermes/turn/submit", {"sessionId": session, "input": [block], "key": "k"})
            await peer.event("turn.ended")
            assert camera.requests[0].messages[0].text == "[/a/b.txt]\nthe whole file"
            (item,) = [e["data"]["item"] for e in peer.events
                       if e["kind"] == "item.completed" and e["data"]["item"]["type"] == "userMessage"]  # fmt: skip
            assert item["input"] == [block]

    run(story())


def test_a_block_whose_blob_does_not_fit_is_refused_by_its_place(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            session, other = await peer.session(str(tmp_path)), await peer.session(str(tmp_path))
            image = (await create(peer, session, PNG, encoding="base64", mime="image/png"))["blobId"]
            text = (await create(peer, session, "text"))["blobId"]
            growing = (await create(peer, session, "text\n", final=False))["blobId"]
            foreign = (await create(peer, other, PNG, encoding="base64", mime="image/png"))["blobId"]
            for kind, blob, code in (
                ("image", "none", -32042),
                ("image", foreign, -32042),
                ("image", text, -32602),
                ("file", image, -32602),
                ("file", growing, -32602),
            ):
                said = {"type": "text", "text": "look"}
                named = {"type": kind, "blobId": blob} | ({"mime": "image/png"} if kind == "image" else {"path": "/a"})
                params = {"sessionId": session, "input": [said, named], "key": f"{kind}{blob}"}
                error = await peer.refused("hermes/turn/submit", params)
                assert (error["code"], error["data"]["path"]) == (code, "$.input[1].blobId")
            items = await peer.request("hermes/session/items", {"sessionId": session})
            assert items["items"] == []

    run(story())


# --- outputs ---


def test_a_big_output_is_head_tail_and_a_blob_and_is_not_streamed_past_the_inline_limit(tmp_path: Path) -> None:
    line = "0123456789 ünïcödé\n"
    full = line * 12_000

    async def loud(args: dict[str, Any], ctx: ToolContext) -> ToolOutcome:
        for start in range(0, 12_000, 100):
            ctx.progress(line * 100)
            if start % 1000 == 0:
                await asyncio.sleep(0)
        return ToolOutcome("short for the model", shown=full)

    async def story() -> None:
        script = tmp_path / "script.yaml"
        script.write_text("- calls:\n    - {name: loud, args: {}}\n- text: done\n")
        async with live(str(tmp_path), tools=[TestTool("loud", loud, read_only=True)]) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path), model=f"scripted/file:{script}")
            ended = await peer.say(session, "go")
            output = [e["data"] for e in peer.events if e["kind"] == "item.delta" and e["data"]["field"] == "output"]
            assert 0 < sum(len(data["text"]) for data in output) <= MAX_INLINE
            told = [e["data"]["bytes"] for e in peer.events if e["kind"] == "item.progress"]
            assert told == sorted(told)
            assert 2 < len(told) < 20  # each a quarter more than the one before
            assert told[-1] > len(full.encode()) * 0.7
            (item,) = [e["data"]["item"] for e in peer.events
                       if e["kind"] == "item.completed" and e["data"]["item"]["type"] == "toolCall"]  # fmt: skip
            data, shown = full.encode(), item["output"]
            assert full.startswith(shown["head"])
            assert full.endswith(shown["tail"])
            assert shown["blob"] == {"id": shown["blob"]["id"], "bytes": len(data), "lines": 12_001,
                                     "sha256": hashlib.sha256(data).hexdigest()}  # fmt: skip
            read, offset, eof = "", 0, False
            while not eof:
                page = await peer.request("hermes/blob/read", {"blobId": shown["blob"]["id"], "offset": offset})
                read, offset, eof = read + page["data"], page["nextOffset"], page["eof"]
            assert read == full
            # What told of progress is gone from the journal with the deltas.
            epoch = (await peer.request("hermes/session/get", {"sessionId": session}))["epoch"]
            pulled = await peer.request("hermes/session/events", {"sessionId": session, "epoch": epoch, "after": 0})
            assert not {"item.delta", "item.progress"} & {event["kind"] for event in pulled["events"]}
            assert pulled["head"] == ended["seq"]

    run(story())


def test_an_output_over_the_limit_of_its_session_keeps_its_ends_and_says_so(tmp_path: Path) -> None:
    async def loud(args: dict[str, Any], ctx: ToolContext) -> ToolOutcome:
        return ToolOutcome("short", shown="x" * 200_000)

    async def story() -> None:
        script = tmp_path / "script.yaml"
        script.write_text("- calls:\n    - {name: loud, args: {}}\n- text: done\n")
        config = "database:\n  session_blob_bytes: 1000\n"
        async with live(str(tmp_path), tools=[TestTool("loud", loud, read_only=True)], config=config) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path), model=f"scripted/file:{script}")
            await peer.say(session, "go")
            (item,) = [e["data"]["item"] for e in peer.events
                       if e["kind"] == "item.completed" and e["data"]["item"]["type"] == "toolCall"]  # fmt: skip
            assert "blob" not in item["output"]
            assert "200,000 bytes; the middle was not kept" in item["output"]["head"]

    run(story())


# --- reading ---


@pytest.mark.parametrize("encoding", ["utf8", "base64"])
def test_pages_put_together_are_the_whole_wherever_they_begin_and_end(encoding: str) -> None:
    @settings(max_examples=15, deadline=None)
    @given(
        text=st.text(st.characters(codec="utf-8"), max_size=200),
        limits=st.lists(st.integers(0, 40), min_size=1, max_size=5),
        grown=st.booleans(),
    )
    def law(text: str, limits: list[int], grown: bool) -> None:
        with tempfile.TemporaryDirectory() as home:
            run(_reading(home, text, limits, encoding, grown))

    law()


async def _reading(home: str, text: str, limits: list[int], encoding: str, growing: bool) -> None:
    async with live(home) as daemon:
        peer = await daemon.peer()
        session = await peer.session(home)
        data = text.encode()
        put = PutBlob(blob_id="b", session_id=session, data=data, growing=growing)
        await daemon.room.parts.store.write(put)
        read, offset, count = b"", 0, 0
        while offset < len(data) or not count:
            limit = limits[count % len(limits)]
            params = {"blobId": "b", "offset": offset, "limit": limit, "encoding": encoding}
            page = await peer.request("hermes/blob/read", params)
            piece = base64.b64decode(page["data"]) if encoding == "base64" else page["data"].encode()
            assert (page["total"], page["nextOffset"]) == (len(data), offset + len(piece))
            assert piece == data[offset : offset + len(piece)]
            assert len(piece) <= max(limit, 4)
            assert piece or offset == len(data)
            assert page["eof"] == (page["nextOffset"] == len(data) and not growing)
            read, offset, count = read + piece, page["nextOffset"], count + 1
        assert read == data
        beyond = await peer.request("hermes/blob/read", {"blobId": "b", "offset": len(data) + 9, "encoding": encoding})
        assert (beyond["data"], beyond["eof"]) == ("", not growing)
