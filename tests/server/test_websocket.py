"""WebSocket, sentence by sentence of protocol section 1."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_daemon.server.websocket import WebSocket
from hermes_daemon.server.wire import STUCK_SECONDS
from hermes_protocol.framing import Framing, Oversized, encode
from tests.support.live import live
from tests.support.loops import SkippingLoop, on_every_loop, run
from tests.support.network import (
    BINARY,
    CLOSE,
    PING,
    PONG,
    TEXT,
    Network,
    RawWebSocket,
    frame,
    network,
    parsed,
    upgrade,
)

CONT = 0
HELLO: dict[str, Any] = {"protocolVersions": ["1.0"], "client": {"id": "ws", "name": "ws"}}


async def ready(net: Network, **hello: Any) -> RawWebSocket:
    """An initialized WebSocket."""
    ws = await net.websocket(net.bearer())
    answer = await ws.request("initialize", {"hermes": {**HELLO, **hello}})
    assert "result" in answer, answer
    return ws


@on_every_loop
def test_a_turn_runs_over_it_with_one_message_in_each_frame(tmp_path: Path, loop: str) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon, network(daemon) as net:
            ws = await ready(net, capabilities={"maxLatencyMs": 0})
            made = (await ws.request("hermes/session/create", {"cwd": "/"}))["result"]
            session = made["session"]["sessionId"]
            await ws.request("hermes/session/subscribe", {"sessionId": session})
            text = {"type": "text", "text": "ü" * 50_000}
            ws.send({"jsonrpc": "2.0", "id": "s", "method": "hermes/turn/submit",
                     "params": {"sessionId": session, "key": "k", "input": [text]}})  # fmt: skip
            kinds: list[str] = []
            while "turn.ended" not in kinds:
                message = await ws.message()
                if message.get("method") == "hermes/event":
                    kinds.append(message["params"]["kind"])
            assert {"turn.started", "item.delta", "item.completed"} <= set(kinds)

    run(story(), loop)


@on_every_loop
def test_what_others_see_is_what_it_sees(tmp_path: Path, loop: str) -> None:
    """Events of one session over four framings at once: unix newline, TCP newline, Content-Length, WebSocket."""

    async def story() -> None:
        async with live(str(tmp_path)) as daemon, network(daemon) as net:
            owner = await daemon.peer("owner")
            session = await owner.session()
            over_tcp = await net.peer("tcp")
            await over_tcp.request("hermes/session/subscribe", {"sessionId": session})
            ws = await ready(net, capabilities={"maxLatencyMs": 0})
            await ws.request("hermes/session/subscribe", {"sessionId": session})
            submitted = await owner.submit(session, "hello there")
            await owner.event("turn.ended")
            await over_tcp.event("turn.ended")
            seen = []
            while not seen or seen[-1]["kind"] != "turn.ended":
                seen.append((await ws.message())["params"])
            theirs = [frame["params"] for frame in over_tcp.order if frame.get("method") == "hermes/event"]
            assert seen == theirs
            assert {event["turnId"] for event in seen if "turnId" in event} == {submitted["turnId"]}

    run(story(), loop)


def test_fragments_are_joined_also_around_a_ping(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon, network(daemon) as net:
            ws = await ready(net)
            body = b'{"jsonrpc":"2.0","id":7,"method":"hermes/daemon/ping","params":{"echo":"\xc3\xbc"}}'
            cut = body.index(b"\xc3") + 1  # inside a letter
            ws.writer.write(frame(TEXT, body[:10], fin=False) + frame(PING, b"are you there"))
            ws.writer.write(
                frame(CONT, body[10:cut], fin=False) + frame(CONT, b"", fin=False) + frame(CONT, body[cut:])
            )
            assert await ws.frame() == (PONG, b"are you there")
            assert (await ws.message())["result"]["echo"] == "ü"

    run(story())


def test_a_batch_and_blank_frames_are_as_on_lines(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon, network(daemon) as net:
            ws = await ready(net)
            ws.send(b"")
            ws.send(b"  \n")
            ws.send([{"jsonrpc": "2.0", "id": n, "method": "hermes/daemon/ping"} for n in (1, 2)])
            assert [answer["id"] for answer in await ws.message()] == [1, 2]
            ws.send(b"{broken")
            assert (await ws.message())["error"]["code"] == -32700
            ws.send(b'{"jsonrpc":"2.0","id":1,"method":"hermes/daemon/ping"}\n{"jsonrpc":"2.0"}')
            assert (await ws.message())["error"]["code"] == -32700
            assert "result" in await ws.request("hermes/daemon/ping")

    run(story())


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (frame(BINARY, b"{}"), 1003),
        (frame(TEXT, b"{}", masked=False), 1002),
        (frame(CONT, b"{}"), 1002),
        (frame(3, b""), 1002),
        (frame(PING, b"x" * 126), 1002),
        (b"\xc1" + frame(TEXT, b"{}")[1:], 1002),  # a compressed frame, and no compression was agreed on
        (frame(TEXT, b"a", fin=False) + frame(TEXT, b"b"), 1002),
        (frame(TEXT, b'"\xff"'), 1007),
        (frame(TEXT, b'"\xed\xa0\x80"'), 1007),
    ],
)
def test_what_breaks_the_rules_ends_it_with_the_code_that_says_so(tmp_path: Path, bad: bytes, code: int) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon, network(daemon) as net:
            ws = await ready(net)
            ws.writer.write(bad)
            assert (await ws.closed())[0] == code
            while daemon.daemon.connections:
                await asyncio.sleep(0)

    run(story())


def test_what_came_before_the_end_is_served(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon, network(daemon) as net:
            ws = await ready(net)
            ping = b'{"jsonrpc":"2.0","id":9,"method":"hermes/daemon/ping"}'
            ws.writer.write(frame(TEXT, ping) + frame(CLOSE, (1000).to_bytes(2, "big") + b"bye"))
            assert (await ws.message())["id"] == 9
            assert await ws.closed() == (1000, b"bye")

    run(story())


@on_every_loop
def test_too_long_a_message_is_skipped_and_told(tmp_path: Path, loop: str) -> None:
    async def story() -> None:
        async with live(str(tmp_path), config="daemon:\n  max_frame_bytes: 70000\n") as daemon, network(daemon) as net:
            ws = await ready(net)
            long = b'{"jsonrpc":"2.0","id":5,"method":"hermes/daemon/ping","params":{"echo":"%b"}}' % (b"x" * 80_000)
            ws.send(long)
            error = await ws.message()
            assert (error["id"], error["error"]["code"], error["error"]["data"]["limit"]) == (5, -32055, 70_000)
            ws.writer.write(frame(TEXT, long, fin=False))
            for _ in range(20):
                ws.writer.write(frame(CONT, b"y" * 60_000, fin=False))
            ws.writer.write(frame(CONT, b"y"))
            assert (await ws.message())["error"]["code"] == -32055
            assert "result" in await ws.request("hermes/daemon/ping")
            ws.writer.write(frame(TEXT, b"z" * 140_001))  # a frame that would have to be held to be skipped
            assert (await ws.closed())[0] == 1009

    run(story(), loop)


@pytest.mark.parametrize(
    ("rows", "status"),
    [
        (["Origin: https://evil.example.com"], 403),
        (["Origin: null"], 403),
        (["Origin: http://localhost"], 403),
        (["Origin: https://tools.example.org"], 101),
        (["Origin: https://tools.example.org", "Origin: https://evil.example.com"], 403),
        ([], 101),
    ],
)
def test_pages_may_connect_only_from_origins_that_are_known(tmp_path: Path, rows: list[str], status: int) -> None:
    async def story() -> None:
        origins = ("https://tools.example.org/",)
        async with live(str(tmp_path)) as daemon, network(daemon, origins=origins) as net:
            reader, writer = await net.open()
            writer.write(upgrade(net.bearer(), *rows))
            assert (await reader.readuntil(b"\r\n")).split(b" ")[1] == str(status).encode()

    run(story())


@pytest.mark.parametrize(
    ("request_head", "status"),
    [
        (upgrade().replace(b"Version: 13", b"Version: 8"), 400),
        (upgrade().replace(b"Sec-WebSocket-Key", b"X-Key"), 400),
        (upgrade().replace(b"Connection: Upgrade\r\n", b""), 426),
        (upgrade(method="HEAD"), 405),
        (upgrade().replace(b"HTTP/1.1", b"HTTP/1.0"), 505),
    ],
)
def test_a_bad_handshake_is_refused_in_http(tmp_path: Path, request_head: bytes, status: int) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon, network(daemon) as net:
            assert parsed(await net.say(request_head))[0] == status

    run(story())


def test_no_compression_is_agreed_on(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon, network(daemon) as net:
            ws = await net.websocket("Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits")
            assert "extensions" not in ws.head.lower()

    run(story())


def test_the_token_may_stand_in_header_subprotocol_or_initialize(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon, network(daemon) as net:
            ws = await net.websocket(net.bearer())
            assert "result" in await ws.request("initialize", {"hermes": HELLO})
            ws = await net.websocket(f"Sec-WebSocket-Protocol: hermes, token.{net.token}")
            assert "\r\nSec-WebSocket-Protocol: hermes\r\n" in ws.head
            assert net.token not in ws.head
            assert "result" in await ws.request("initialize", {"hermes": HELLO})
            ws = await net.websocket("Sec-WebSocket-Protocol: hermes")
            assert "result" in await ws.request("initialize", {"hermes": {**HELLO, "auth": {"token": net.token}}})

    run(story())


def test_without_the_token_nothing_but_initialize_is_served(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon, network(daemon) as net:
            ws = await net.websocket()
            assert (await ws.request("hermes/daemon/ping"))["error"]["code"] == -32002
            error = (await ws.request("initialize", {"hermes": HELLO}))["error"]
            assert (error["code"], error["data"]["kind"]) == (-32052, "auth_required")
            error = (await ws.request("initialize", {"hermes": {**HELLO, "auth": {"token": "wrong"}}}))["error"]
            assert (error["code"], error["data"]["kind"]) == (-32052, "auth_failed")
            assert (await ws.request("hermes/daemon/shutdown", {"mode": "now"}))["error"]["code"] == -32002
            long = b'{"jsonrpc":"2.0","id":5,"method":"initialize","params":{"x":"%b"}}' % (b"x" * 70_000)
            ws.send(long)
            assert (await ws.message())["error"]["data"] == {"kind": "too_large", "retryable": False, "limit": 65_536}
            assert "result" in await ws.request("initialize", {"hermes": {**HELLO, "auth": {"token": net.token}}})
            assert (await ws.request("hermes/daemon/ping", {"echo": "x" * 70_000}))["result"]["echo"]

    run(story())


def test_a_wrong_token_is_refused_before_the_upgrade_and_later_with_a_pause(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon, network(daemon) as net:
            for _ in range(4):
                assert parsed(await net.say(upgrade("Sec-WebSocket-Protocol: hermes, token.wrong")))[0] == 401
            status, headers, _ = parsed(await net.say(upgrade("Authorization: Bearer wrong")))
            assert (status, headers["retry-after"]) == (429, "2")
            assert parsed(await net.say(upgrade(net.bearer())))[0] == 429
            assert (await net.get("/healthz"))[0] == 200

    run(story())


def test_no_log_line_holds_a_token(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def story() -> None:
        async with live(str(tmp_path)) as daemon, network(daemon) as net:
            await ready(net)
            await net.say(upgrade("Authorization: Bearer a-wrong-token-that-is-secret"))
            await net.peer(initialize=False)
            peer = await net.peer("x", initialize=False)
            await peer.refused("initialize", {"hermes": {**HELLO, "auth": {"token": "a-wrong-token-that-is-secret"}}})
            assert net.token not in caplog.text
            assert "a-wrong-token" not in caplog.text

    run(story())


@on_every_loop
def test_goodbyes_have_their_codes(tmp_path: Path, loop: str) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon, network(daemon) as net:
            ws = await ready(net)
            assert (await ws.request("shutdown"))["result"] is None
            ws.send({"jsonrpc": "2.0", "method": "exit"})
            assert (await ws.closed())[0] == 1000
            ws = await ready(net)
            daemon.daemon.stop("now", "test", restart=False)
            states = []
            while True:
                opcode, body = await ws.frame()
                if opcode == CLOSE:
                    break
                states.append(body)
            assert int.from_bytes(body[:2], "big") == 1001
            assert any(b'"stopping"' in state for state in states)

    run(story(), loop)


@on_every_loop
def test_a_client_that_answers_no_ping_is_let_go_and_its_turn_goes_on(tmp_path: Path, loop: str) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon, network(daemon, ping_s=0.02) as net:
            answering = await ready(net, client={"id": "good", "name": "good"})
            silent = await ready(net, client={"id": "bad", "name": "bad"})
            opcode, body = await silent.frame()
            assert (opcode, body) == (PING, b"")
            for _ in range(5):
                opcode, body = await answering.frame()
                assert opcode == PING
                answering.writer.write(frame(PONG, body))
            while any(row.name == "bad" for row in daemon.daemon.status().connections):
                answering.writer.write(frame(PONG))
                await asyncio.sleep(0)
            assert [row.name for row in daemon.daemon.status().connections] == ["good"]

    run(story(), loop)


def test_a_client_that_reads_nothing_is_cut_off_with_1011(tmp_path: Path) -> None:
    """Should it wake up, it reads what was on its way and then why it was cut."""
    loop = SkippingLoop()

    async def story() -> None:
        async with live(str(tmp_path)) as daemon, network(daemon, ping_s=0.0) as net:
            reader, writer = await net.open(limit=65_536)
            writer.write(upgrade(net.bearer()))
            await reader.readuntil(b"\r\n\r\n")
            ws = RawWebSocket(reader, writer)
            await ws.request("initialize", {"hermes": HELLO})
            wire = next(iter(daemon.daemon.connections.values())).wire
            for number in range(60):  # more than the socket's buffers take
                ping = {"jsonrpc": "2.0", "id": number, "method": "hermes/daemon/ping"}
                ws.send({**ping, "params": {"echo": "x" * 500_000}})
            while not wire.outbox.full:
                await asyncio.sleep(0)
            while daemon.daemon.connections and not wire._closing:
                loop.skip(STUCK_SECONDS)
                await asyncio.sleep(0)
            assert (await ws.closed())[0] == 1011

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(story())


BODIES = st.lists(
    st.text(max_size=300).map(lambda text: ('"' + text.replace('"', "") + '"').encode("utf-8", "replace"))
)


@given(BODIES, st.lists(st.integers(min_value=1, max_value=50)), st.data())
def test_frames_cut_anywhere_give_the_same_messages(bodies: list[bytes], cuts: list[int], data: st.DataObject) -> None:
    stream = b""
    for body in bodies:
        at = data.draw(st.integers(min_value=0, max_value=len(body)))
        pieces = [body[:at], body[at:]] if at else [body]
        for index, piece in enumerate(pieces):
            stream += frame(TEXT if index == 0 else CONT, piece, fin=index == len(pieces) - 1)
    ws = WebSocket(upgrade(), None, 100_000)
    assert ws.open() == []
    assert ws.replies()[0].startswith(b"HTTP/1.1 101 ")
    got: list[object] = []
    while stream:
        size = cuts.pop() if cuts else len(stream)
        got += ws.feed(stream[:size])
        stream = stream[size:]
    assert got == [body for body in bodies if not body.isspace()]


def test_every_single_cut_of_one_conversation_gives_the_same() -> None:
    stream = frame(TEXT, b'{"a":', fin=False) + frame(PING, b"p") + frame(CONT, b"1}") + frame(TEXT, b"[2]")
    stream += frame(TEXT, b"x" * 130)
    for at in range(len(stream) + 1):
        ws = WebSocket(upgrade("Sec-WebSocket-Protocol: hermes") + stream[:at], "hermes", 128)
        messages = [*ws.open(), *ws.feed(stream[at:])]
        assert messages == [b'{"a":1}', b"[2]", Oversized(b"x" * 130, 128)]
        sent, ended = ws.replies()
        assert sent.startswith(b"HTTP/1.1 101 ")
        assert sent.endswith(b"\x8a\x01p")
        assert not ended


@given(st.binary(max_size=400), st.lists(st.integers(min_value=1, max_value=40)))
def test_noise_never_raises_and_ends_with_a_close_frame_or_waits(noise: bytes, cuts: list[int]) -> None:
    ws = WebSocket(upgrade(), None, 1000)
    ws.open()
    ws.replies()
    while noise:
        size = cuts.pop() if cuts else len(noise)
        ws.feed(noise[:size])
        noise = noise[size:]
    sent, ended = ws.replies()
    assert ended == ws.over
    assert not ended or b"\x88" in sent


@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 65_535, 65_536, 70_000])
def test_the_head_of_a_frame_says_how_long_it_is(size: int) -> None:
    body = b"x" * size

    async def story() -> None:
        reader = asyncio.StreamReader()
        reader.feed_data(encode(Framing.WEBSOCKET, body))
        reader.feed_eof()
        assert await RawWebSocket(reader, None).frame() == (TEXT, body)  # type: ignore[arg-type]
        assert await reader.read() == b""

    asyncio.run(story())
