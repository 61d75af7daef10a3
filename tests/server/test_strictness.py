"""What is malformed is answered as protocol section 1 says, and the connection stays where it can."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.live import Live, Peer, live
from tests.support.loops import on_every_loop, run

INVALID, PARSE, PARAMS, UNKNOWN, NOT_READY = -32600, -32700, -32602, -32601, -32002
PING: dict[str, Any] = {"jsonrpc": "2.0", "id": "still-here", "method": "hermes/daemon/ping"}


async def answer_to(peer: Peer, body: bytes, id: object) -> dict[str, Any]:
    """The error that the body gets; the connection then still answers a ping."""
    peer.send(body)
    error: dict[str, Any] = (await peer.answer(id))["error"]
    peer.send(PING)
    assert "result" in await peer.answer("still-here")
    return error


@on_every_loop
@pytest.mark.parametrize(
    ("body", "code", "id"),
    [
        (b"{nonsense", PARSE, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"x"', PARSE, None),
        (b"\xff\xfe\xfd", PARSE, None),
        (b"[" * 100_000, PARSE, None),
        (b'{"a":' * 100_000, PARSE, None),
        (b"null", INVALID, None),
        (b"5", INVALID, None),
        (b'"text"', INVALID, None),
        (b"[]", INVALID, None),
        (b"{}", INVALID, None),
        (b'{"id":7,"method":"hermes/daemon/ping"}', INVALID, 7),
        (b'{"jsonrpc":"1.0","id":7,"method":"hermes/daemon/ping"}', INVALID, 7),
        (b'{"jsonrpc":2.0,"id":7,"method":"hermes/daemon/ping"}', INVALID, 7),
        (b'{"jsonrpc":"2.0","id":null,"method":"hermes/daemon/ping"}', INVALID, None),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"hermes/daemon/ping"}', INVALID, None),
        (b'{"jsonrpc":"2.0","id":1e400,"method":"hermes/daemon/ping"}', INVALID, None),
        (b'{"jsonrpc":"2.0","id":true,"method":"hermes/daemon/ping"}', INVALID, None),
        (b'{"jsonrpc":"2.0","id":[],"method":"hermes/daemon/ping"}', INVALID, None),
        (b'{"jsonrpc":"2.0","id":7,"method":7}', INVALID, 7),
        (b'{"jsonrpc":"2.0","id":7}', INVALID, 7),
        (b'{"jsonrpc":"2.0","id":7,"result":1,"error":{}}', INVALID, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"hermes/daemon/ping","params":"text"}', INVALID, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"hermes/daemon/ping","params":[1]}', PARAMS, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"hermes/no/such"}', UNKNOWN, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"hermes/session/get","params":{}}', PARAMS, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"hermes/session/get","params":{"sessionId":5}}', PARAMS, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"hermes/session/get","params":{"sessionId":"\xff"}}', PARAMS, 7),
    ],
)
def test_each_malformed_message_gets_its_error_and_the_connection_stays(
    tmp_path: Path, loop: str, body: bytes, code: int, id: object
) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            assert (await answer_to(peer, body, id))["code"] == code

    run(story(), loop)


@on_every_loop
def test_ids_that_are_legal_come_back_as_they_were(tmp_path: Path, loop: str) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            for id in (0, -1, "", "ü\u0000", 2**63, 10**40, "x" * 10_000):
                peer.send({"jsonrpc": "2.0", "id": id, "method": "hermes/daemon/ping", "params": {"echo": [id]}})
                assert (await peer.answer(id))["result"]["echo"] == [id]

    run(story(), loop)


def test_an_error_names_its_kind_and_the_json_path(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            block = {"type": "text", "text": 5}
            error = await peer.refused("hermes/turn/submit", {"sessionId": "s", "key": "k", "input": [block]})
            assert error["data"]["kind"] == "invalid_params"
            assert error["data"]["path"] == "$.input[0].text"
            assert "str" in error["message"]
            assert error["data"]["retryable"] is False

    run(story())


def test_an_unknown_method_is_named_and_no_other(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            error = await peer.refused("hermes/sesion/list")
            assert "hermes/sesion/list" in error["message"]
            assert "hermes/session/list" not in msgspec.json.encode(error).decode()

    run(story())


def test_responses_and_unknown_notifications_are_ignored(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            peer.send({"jsonrpc": "2.0", "id": 99, "result": 1})
            peer.send({"jsonrpc": "2.0", "id": 99, "error": {"code": 1, "message": "m"}})
            peer.send({"jsonrpc": "2.0", "method": "no/such", "params": {}})
            peer.send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": []}})
            peer.send({"jsonrpc": "2.0", "method": "hermes/request/seen", "params": {}})
            peer.send(b"\n\r\n \n")
            peer.send(PING)
            await peer.answer("still-here")
            assert [frame.get("id") for frame in peer.order] == [1, "still-here"]

    run(story())


# --- batches ---


def entries(count: int) -> list[dict[str, Any]]:
    return [{**PING, "id": number, "params": {"echo": number}} for number in range(count)]


@on_every_loop
def test_a_batch_is_answered_in_order_as_one_array(tmp_path: Path, loop: str) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            peer.send(
                [
                    {"jsonrpc": "2.0", "id": "list", "method": "hermes/session/list"},
                    {"jsonrpc": "2.0", "method": "initialized", "params": {}},
                    5,
                    {"jsonrpc": "2.0", "id": "i", "method": "initialize", "params": {"hermes": {}}},
                    [PING],
                    {**PING, "id": "last"},
                ]
            )
            answers: Any = await peer.answer("batch")
            assert [answer["id"] for answer in answers] == ["list", None, "i", None, "last"]
            codes = [answer.get("error", {}).get("code") for answer in answers]
            assert codes == [None, INVALID, INVALID, INVALID, None]

    run(story(), loop)


@on_every_loop
def test_64_entries_are_a_batch_and_65_are_not(tmp_path: Path, loop: str) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            peer.send(entries(64))
            answers: Any = await peer.answer("batch")
            assert [answer["result"]["echo"] for answer in answers] == list(range(64))
            peer.send(entries(65))
            assert (await peer.answer(None))["error"]["code"] == INVALID

    run(story(), loop)


def test_a_batch_of_notifications_is_not_answered(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            peer.send([{"jsonrpc": "2.0", "method": "initialized"}, {"jsonrpc": "2.0", "id": 1, "result": 0}])
            peer.send(PING)
            await peer.answer("still-here")
            assert len(peer.order) == 2

    run(story())


@on_every_loop
def test_the_requests_of_a_batch_are_admitted_in_order(tmp_path: Path, loop: str) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path), model="scripted/hang")
            await peer.submit(session, "one")
            submit = {"jsonrpc": "2.0", "method": "hermes/turn/submit"}
            texts = [f"text {number}" for number in range(20)]
            peer.send([{**submit, "id": f"b{text}", "params": params(session, text)} for text in texts])
            answers: Any = await peer.answer("batch")
            assert {answer["result"]["disposition"] for answer in answers} == {"queued"}
            queue = await peer.request("hermes/queue/list", {"sessionId": session})
            assert [entry["input"][0]["text"] for entry in queue["queue"]] == texts

    run(story(), loop)


@on_every_loop
def test_a_subscription_in_a_batch_misses_nothing_and_says_nothing_before_the_answer(tmp_path: Path, loop: str) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            created = await peer.request("hermes/session/create", {"cwd": str(tmp_path)})
            session, epoch = created["session"]["sessionId"], created["epoch"]
            before = len(peer.order)
            since = {"sessionId": session, "since": {"epoch": epoch, "seq": 0}}
            wait = {"sessionId": session, "until": "turn"}
            peer.send(
                [
                    {"jsonrpc": "2.0", "id": "s", "method": "hermes/session/subscribe", "params": since},
                    {"jsonrpc": "2.0", "id": "t", "method": "hermes/turn/submit", "params": params(session, "hi all")},
                    {"jsonrpc": "2.0", "id": "w", "method": "hermes/session/wait", "params": wait},
                ]
            )
            answers: Any = await peer.answer("batch")
            assert peer.order[before] == answers
            last = answers[0]["result"]["seq"]
            assert (last, answers[0]["result"]["mode"]) == (0, "replay")
            ended = await peer.event("turn.ended")
            chain = [frame["params"] for frame in peer.order if isinstance(frame, dict) and "method" in frame]
            for event in chain:
                assert event["prev"] == last
                last = event["seq"]
            assert [event["kind"] for event in chain][:2] == ["session.created", "turn.started"]
            assert ended["seq"] == last

    run(story(), loop)


def params(session: str, text: str) -> dict[str, Any]:
    return {"sessionId": session, "input": [{"type": "text", "text": text}], "key": f"key {text}"}


# --- framing on a real socket ---


async def raw(daemon: Live, *pieces: bytes) -> list[bytes]:
    """Send bytes on a fresh connection; the lines it gets until the daemon closes."""
    peer = await daemon.peer(initialize=False)
    for piece in pieces:
        peer.writer.write(piece)
    said = await peer.closed()
    peer.close()
    return said


@on_every_loop
@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00",
        b"hello\n",
        b"\xef\xbb\xbf{}\n",
        b"Content-Length: x\r\n\r\n{}",
        b"Content-Type: a\r\n\r\n{}",
        b"C" + b"x" * 10_000,
        b"content-length: 99999999999999999999\r\n\r\n",
    ],
)
def test_what_cannot_be_followed_is_told_once_and_closed(tmp_path: Path, loop: str, data: bytes) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            said = b"".join(await raw(daemon, data))
            assert said.count(b"-32700") == 1
            assert said.startswith(b"Content-Length:" if data[:1] in b"Cc" else b'{"jsonrpc"')
            while daemon.daemon.connections:
                await asyncio.sleep(0)

    run(story(), loop)


def test_http_gets_a_404_it_understands(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            said = await raw(daemon, b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n")
            assert said[0] == b"HTTP/1.1 404 Not Found\r\n"

    run(story())


@on_every_loop
def test_one_byte_at_a_time_is_a_conversation(tmp_path: Path, loop: str) -> None:
    hello = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"hermes":{}}}'
    ping = b'{"jsonrpc":"2.0","id":2,"method":"hermes/daemon/ping","params":{"echo":"\xc3\xa9"}}'

    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            for wire in (hello + b"\r\n" + ping + b"\n", framed(hello) + framed(ping)):
                peer = await daemon.peer(initialize=False)
                for byte in wire:
                    peer.writer.write(bytes([byte]))
                    await peer.writer.drain()
                said = await peer.reader.readuntil(b'"echo":"\xc3\xa9"')
                assert said.count(b'"result"') == 2

    run(story(), loop)


def framed(body: bytes) -> bytes:
    return b"Content-Type: x\r\ncontent-length:%d\r\n\r\n%b" % (len(body), body)


@on_every_loop
def test_an_oversized_message_is_refused_by_its_id_and_the_next_is_served(tmp_path: Path, loop: str) -> None:
    async def story() -> None:
        config = "daemon:\n  max_frame_bytes: 2000\n"
        async with live(str(tmp_path), config=config) as daemon:
            peer = await daemon.peer()
            long = "x" * 3000
            peer.send({"jsonrpc": "2.0", "id": 41, "method": "hermes/daemon/ping", "params": {"echo": long}})
            error = (await peer.answer(41))["error"]
            assert (error["code"], error["data"]["kind"], error["data"]["limit"]) == (-32055, "too_large", 2000)
            peer.send(b'{"params":{"id":5,"text":"' + b"x" * 3000 + b'"},"jsonrpc":"2.0","id":42}')
            assert (await peer.answer(None))["error"]["code"] == -32055
            peer.send(PING)
            assert "result" in await peer.answer("still-here")

    run(story(), loop)


def test_ten_thousand_garbage_connections_leave_nothing_behind(tmp_path: Path) -> None:
    async def one(daemon: Live, number: int) -> None:
        peer = await daemon.peer(initialize=False)
        peer.writer.write((b"\x00garbage", b"{bad\n", b"Content-Length: 5", b"[]\n" * 9, b"")[number % 5])
        if number % 2:
            peer.writer.transport.abort()
        else:
            peer.writer.write_eof()
            await peer.closed()
            peer.close()

    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            for start in range(0, 10_000, 100):
                await asyncio.gather(*(one(daemon, number) for number in range(start, start + 100)))
            peer = await daemon.peer()
            status = await peer.request("hermes/daemon/status")
            while len(status["connections"]) > 1:  # the last aborts may not have been noticed yet
                status = await peer.request("hermes/daemon/status")
            assert [row["name"] for row in status["connections"]] == ["test"]

    run(story(), "uvloop")
