"""Network listeners: where, with whose permission, and what TCP clients get (protocol sections 1 and 12)."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import stat
from pathlib import Path
from typing import Any

import pytest

from hermes_daemon.core.settings import ListenSettings
from hermes_daemon.server.listening import CannotListenThere, Listening, host_and_port, with_flags
from tests.support.live import Live, live
from tests.support.loops import SkippingLoop, on_every_loop, run
from tests.support.network import Network, network, upgrade
from tests.support.shared_data import case

HELLO: dict[str, Any] = {"protocolVersions": ["1.0"], "client": {"id": "x", "name": "x"}}


@on_every_loop
def test_the_three_framings_are_told_apart_by_the_first_byte(tmp_path: Path, loop: str) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon, network(daemon) as net:
            body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize",
                               "params": {"hermes": {**HELLO, "auth": {"token": net.token}}}}).encode()  # fmt: skip
            reader, writer = await net.open()
            writer.write(b"\r\n " + body + b"\n")
            assert b'"result"' in await reader.readline()
            reader, writer = await net.open()
            writer.write(b"content-length: %d\r\n\r\n" % len(body) + body)
            head = await reader.readuntil(b"\r\n\r\n")
            assert b'"result"' in await reader.readexactly(int(head.split(b":")[1]))
            ws = await net.websocket()
            ws.send(body)
            assert "result" in await ws.message()
            assert json.loads(await net.say(b"SSH-2.0-x\r\n"))["error"]["code"] == -32700

    run(story(), loop)


@on_every_loop
def test_a_turn_runs_over_tcp(tmp_path: Path, loop: str) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon, network(daemon) as net:
            peer = await net.peer()
            ended = await peer.say(await peer.session(), "hello")
            assert ended["data"]["status"] == "completed"

    run(story(), loop)


def test_over_tcp_nothing_but_initialize_is_served_without_the_token(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon, network(daemon) as net:
            peer = await net.peer(initialize=False)
            for method in ("hermes/daemon/status", "hermes/daemon/shutdown", "hermes/session/list", "shutdown"):
                assert (await peer.refused(method, {"mode": "now"}))["code"] == -32002
            assert (await peer.refused("initialize", {"hermes": HELLO}))["data"]["kind"] == "auth_required"
            assert (await peer.refused("initialize", {"protocolVersion": 1}))["data"]["kind"] == "auth_required"
            wrong = {"hermes": {**HELLO, "auth": {"token": "wrong"}}}
            for _ in range(4):
                error = await peer.refused("initialize", wrong)
                assert (error["code"], error["data"]) == (-32052, {"kind": "auth_failed", "retryable": False})
            error = await peer.refused("initialize", wrong)
            assert (error["data"]["kind"], error["data"]["retryable"]) == ("auth_failed", True)
            assert error["data"]["retryAfterMs"] > 0
            right = {"hermes": {**HELLO, "auth": {"token": net.token}}}
            assert (await peer.refused("initialize", right))["data"]["kind"] == "auth_failed"  # it has to wait

    run(story())


def test_the_unix_socket_needs_no_token(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon, network(daemon):
            peer = await daemon.peer("x", auth={"token": "whatever"})
            assert await peer.request("hermes/session/list")

    run(story())


def test_loopback_is_open_only_when_that_is_said(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon, network(daemon, loopback_without_token=True) as net:
            peer = await net.peer("x", auth=None)
            assert await peer.request("hermes/session/list")
            assert (await net.get("/metrics"))[0] == 200
            ws = await net.websocket()
            assert "result" in await ws.request("initialize", {"hermes": HELLO})
            assert not os.path.exists(net.token_path)

    run(story())


def test_open_loopback_does_not_open_other_addresses(tmp_path: Path) -> None:
    async def story() -> None:
        settings = {"tcp": ("0.0.0.0:0",), "allow_remote": True, "loopback_without_token": True}
        async with live(str(tmp_path)) as daemon, network(daemon, **settings) as net:
            peer = await net.peer(initialize=False)
            assert (await peer.refused("initialize", {"hermes": HELLO}))["data"]["kind"] == "auth_required"

    run(story())


@pytest.mark.parametrize("said", [b"", b"\n\n", b'{"jsonrpc":', b"Content-Length: 50\r\n", b"GET / HT", upgrade()])
def test_who_says_nothing_for_ten_seconds_is_let_go(tmp_path: Path, said: bytes) -> None:
    loop = SkippingLoop()

    async def story() -> None:
        async with live(str(tmp_path)) as daemon, network(daemon) as net:
            reader, writer = await net.open()
            writer.write(said)
            settled = await net.peer("settled")
            on_unix = await daemon.peer("quiet", initialize=False)
            loop.skip(9)
            await settled.request("hermes/daemon/ping")
            assert not reader.at_eof()
            loop.skip(2)
            async with asyncio.timeout(1000):
                await reader.read()
            await settled.request("hermes/daemon/ping")
            await on_unix.initialize("quiet")

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(story())


def test_who_does_not_show_the_token_in_time_is_let_go(tmp_path: Path) -> None:
    loop = SkippingLoop()

    async def story() -> None:
        async with live(str(tmp_path)) as daemon, network(daemon) as net:
            peer = await net.peer(initialize=False)
            await peer.refused("hermes/daemon/ping")
            loop.skip(11)
            assert await peer.closed() == []

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(story())


def test_who_comes_while_the_daemon_leaves_is_sent_on(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon, network(daemon) as net:
            daemon.daemon.state, daemon.daemon.restart = "draining", True
            peer = await net.peer(initialize=False)
            error = await peer.refused("initialize", {"hermes": {**HELLO, "auth": {"token": net.token}}})
            assert (error["code"], error["data"]["restart"], error["data"]["retryAfterMs"]) == (-32051, True, 1000)
            daemon.daemon.state, daemon.daemon.restart = "ready", False

    run(story())


@on_every_loop
def test_a_half_open_socket_is_found_and_the_turn_is_not_harmed(tmp_path: Path, loop: str) -> None:
    """The handed case: a proxy stops forwarding and closes nothing. The WebSocket ping finds out within its period."""
    case("rpc", "half-open-socket")

    async def story() -> None:
        async with live(str(tmp_path)) as daemon, network(daemon, ping_s=0.05) as net, BlackHole(net) as hole:
            owner = await daemon.peer("owner")
            session = await owner.session()
            through = Network(net.listening, daemon.home, None)
            through.port = hole.port
            ws = await through.websocket(net.bearer())
            assert "result" in await ws.request("initialize", {"hermes": {**HELLO, "client": {"name": "half"}}})
            await ws.request("hermes/session/subscribe", {"sessionId": session})
            hole.swallow = True
            submitted = await owner.submit(session, "one two three", options={"model": "scripted/echo"})
            while any(row.name == "half" for row in daemon.daemon.status().connections):
                await asyncio.sleep(0)
            ended = await owner.event("turn.ended")
            assert (ended["turnId"], ended["data"]["status"]) == (submitted["turnId"], "completed")
            through._writers[0].close()

    run(story(), loop)


class BlackHole:
    """A proxy in front of a listener. While `swallow` is set, what comes is read and goes nowhere."""

    def __init__(self, net: Network) -> None:
        self.swallow = False
        self._net = net
        self.tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> BlackHole:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        theirs, ours = await asyncio.open_connection(self._net.host, self._net.port)
        for source, sink in ((reader, ours), (theirs, writer)):
            self.tasks.add(asyncio.create_task(self._copy(source, sink)))

    async def _copy(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65_536):
                if not self.swallow:
                    sink.write(data)
            if not self.swallow:
                sink.close()
            await asyncio.Event().wait()
        except OSError:
            return
        finally:
            sink.close()


def test_tcp_itself_asks_whether_the_other_machine_is_there(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon, network(daemon) as net:
            await net.peer()
            sock = next(iter(daemon.daemon.connections.values())).wire.detail("socket")
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)

    run(story())


# --- where ---


async def opened(daemon: Live, **settings: Any) -> Listening:
    return await Listening.open(daemon.daemon, ListenSettings(**settings), daemon.home)


@on_every_loop
def test_a_free_port_is_told_with_every_url_by_which_it_is_spoken_to(tmp_path: Path, loop: str) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            listening = await opened(daemon, tcp=("127.0.0.1:0", "[::1]:0"))
            schemes = [url.partition("://")[0] for url in listening.endpoints]
            assert schemes == ["tcp", "ws", "tcp", "ws"]
            assert listening.endpoints[2].startswith("tcp://[::1]:")
            for url in listening.endpoints[::2]:
                host, _, port = url.partition("://")[2].rpartition(":")
                reader, writer = await asyncio.open_connection(host.strip("[]"), int(port))
                writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert b"200 OK" in await reader.read()
                writer.close()
            listening.close()
            listening.close()
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", int(listening.endpoints[0].rpartition(":")[2]))

    run(story(), loop)


def test_a_name_with_two_addresses_has_one_port_on_both(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            listening = await opened(daemon, tcp=("localhost:0",))
            assert not listening.problems
            assert len({url.rpartition(":")[2] for url in listening.endpoints}) == 1
            listening.close()

    run(story())


def test_a_port_in_use_is_named_and_the_rest_serves(tmp_path: Path) -> None:
    async def story() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            async with live(str(tmp_path)) as daemon:
                place = f"127.0.0.1:{taken.getsockname()[1]}"
                listening = await opened(daemon, tcp=(place, "127.0.0.1:0"))
                assert listening.problems == (f"not listening on tcp://{place}: address already in use",)
                assert len(listening.endpoints) == 2
                assert not listening.refused
                await (await daemon.peer()).request("hermes/daemon/ping")
                listening.close()

    run(story())


@pytest.mark.parametrize("place", ["0.0.0.0:0", "[::]:0", "*:0", ":0"])
def test_what_others_can_reach_is_refused_until_it_is_allowed(tmp_path: Path, place: str) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            listening = await opened(daemon, tcp=(place,))
            assert not listening.endpoints
            assert "`listen.allow_remote: true` or --allow-remote allows that" in listening.refused
            listening = await opened(daemon, tcp=(place,), allow_remote=True)
            assert listening.endpoints
            assert stat.S_IMODE(os.stat(os.path.join(daemon.home, "token")).st_mode) == 0o600
            listening.close()

    run(story())


def test_without_a_usable_token_file_nothing_is_listened_on(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            path = Path(daemon.home, "my-token")
            path.write_text("a-token-that-all-can-read")
            path.chmod(0o644)
            listening = await opened(daemon, tcp=("127.0.0.1:0",), token_file="my-token")
            assert not listening.endpoints
            assert "my-token has mode 0644, expected 0600" in listening.problems[0]
            path.chmod(0o600)
            listening = await opened(daemon, tcp=("127.0.0.1:0",), token_file=str(path))
            assert listening.endpoints
            listening.close()

    run(story())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("7777", "expected HOST:PORT"),
        ("localhost:", "expected HOST:PORT"),
        ("localhost:70000", "expected HOST:PORT"),
        ("::1:7777", "expected HOST:PORT"),
        ("[localhost]:7777", "expected HOST:PORT"),
        ("no-such-name.invalid:7777", "has no address here"),
    ],
)
def test_what_is_no_address_is_told(tmp_path: Path, text: str, told: str) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            listening = await opened(daemon, tcp=(text,))
            assert told in listening.problems[0]

    run(story())


def test_addresses_are_host_and_port() -> None:
    assert host_and_port("[::1]:5") == ("::1", 5)
    assert host_and_port("*:0") == ("", 0)
    assert host_and_port("name.example:65535") == ("name.example", 65535)


def test_the_command_line_adds_to_the_settings() -> None:
    settings = ListenSettings(tcp=("127.0.0.1:1",), tls_cert="a.pem", origins=("https://x",))
    both = with_flags(
        settings, "tcp://127.0.0.1:2, wss://127.0.0.1:3/,ws://[::1]:4", tls_key="k.pem", allow_remote=True
    )
    assert both == ListenSettings(
        tcp=("127.0.0.1:1", "127.0.0.1:2", "[::1]:4"), tls=("127.0.0.1:3",), tls_cert="a.pem", tls_key="k.pem",
        allow_remote=True, origins=("https://x",),
    )  # fmt: skip
    assert with_flags(settings, "") == settings
    for wrong in ("127.0.0.1:2", "http://127.0.0.1:2", "tcp://nonsense", "unix:/x"):
        with pytest.raises(CannotListenThere, match=f"--listen {wrong}"):
            with_flags(settings, wrong)
