"""The asyncio client over every transport."""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path

import pytest

from hermes_client import Connection, Disconnected, Session, connect
from hermes_local.spawn import DaemonUnavailable
from hermes_protocol.errors import ProtocolError
from hermes_protocol.methods import StatusResult
from tests.support.certificates import Certificates
from tests.support.live import live
from tests.support.loops import on_every_loop, run
from tests.support.network import network


@pytest.mark.parametrize("scheme", ["path", "unix", "tcp", "ws", "tls", "wss"])
@on_every_loop
def test_a_turn_runs_over(tmp_path: Path, scheme: str, loop: str) -> None:
    certificates = Certificates(tmp_path / "certificates")

    async def story() -> None:
        secure = scheme in ("tls", "wss")
        settings = certificates.listen() if secure else {}
        async with live(str(tmp_path / "home")) as daemon, network(daemon, **settings) as net:
            urls = {url.partition("://")[0]: url for url in net.listening.endpoints}
            urls |= {"path": daemon.socket_path, "unix": f"unix:{daemon.socket_path}"}
            connection = await connect(
                urls[scheme], token=net.token, context=certificates.trusted() if secure else None
            )
            async with connection:
                session = await Session.create(connection, "/")
                await session.run("ü" * 20_000)
                assert session.view.items[-1].text  # type: ignore[union-attr]
                rows = (await connection.request("hermes/daemon/status", None, StatusResult)).connections
                over = {"path": "unix", "ws": "tcp", "wss": "tls"}.get(scheme, scheme)
                assert [row.transport for row in rows] == [over]

    run(story(), loop)


def test_the_token_may_stand_in_a_file_that_is_read_at_every_connect(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon, network(daemon) as net:
            states: list[str] = []
            async with await connect(net.listening.endpoints[0], token_file=net.token_path) as connection:
                connection.on_state(lambda state, reason: states.append(state))
                Path(net.token_path).write_text("another-token-from-now-on\n")
                for other in list(daemon.daemon.connections.values()):
                    other.abort()
                while "ready" not in states:
                    await asyncio.sleep(0)

    run(story())


@pytest.mark.parametrize("scheme", ["tcp", "ws"])
def test_a_missing_token_is_an_error_of_the_protocol(tmp_path: Path, scheme: str) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon, network(daemon) as net:
            url = next(url for url in net.listening.endpoints if url.startswith(scheme))
            with pytest.raises(ProtocolError) as caught:
                await connect(url)
            assert caught.value.kind == "auth_required"

    run(story())


def test_a_refused_upgrade_gives_the_daemon_s_sentence(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon, network(daemon) as net:
            with pytest.raises(Disconnected, match="refused the WebSocket: this is not the daemon's token"):
                await connect(net.listening.endpoints[1], token="wrong")

    run(story())


@pytest.mark.parametrize("scheme", ["tcp", "ws"])
def test_a_lost_connection_is_dialled_again(tmp_path: Path, scheme: str) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon, network(daemon) as net:
            url = next(url for url in net.listening.endpoints if url.startswith(scheme))
            async with await connect(url, token=net.token) as connection:
                session = await Session.create(connection, "/")
                next(iter(daemon.daemon.connections.values())).close()
                while connection.state == "ready":
                    await asyncio.sleep(0)
                await connection.ready()
                await session.run("still here")

    run(story())


def test_a_daemon_that_is_leaving_is_asked_until_its_successor_answers(tmp_path: Path) -> None:
    async def story() -> None:
        async with (
            live(str(tmp_path)) as daemon,
            network(daemon) as net,
            await connect(net.listening.endpoints[0], token=net.token) as connection,
        ):
            told = asyncio.Event()
            connection.on_state(lambda state, reason: told.set() if reason == "the daemon is stopping" else None)
            daemon.daemon.state = "draining"
            next(iter(daemon.daemon.connections.values())).close()
            await told.wait()
            assert connection.state == "lost"
            daemon.daemon.state = "ready"
            await connection.ready()

    run(story())


@pytest.mark.parametrize("scheme", ["tcp", "ws"])
def test_where_nobody_listens_is_an_oserror(scheme: str) -> None:
    async def story() -> None:
        with socket.create_server(("127.0.0.1", 0)) as closed:
            port = closed.getsockname()[1]
        with pytest.raises(ConnectionRefusedError, match=f"no daemon answers at {scheme}://127.0.0.1:{port}"):
            await connect(f"{scheme}://127.0.0.1:{port}")

    run(story())


@pytest.mark.parametrize("index", [0, 1])
def test_a_certificate_of_nobody_known_is_told(tmp_path: Path, index: int) -> None:
    certificates = Certificates(tmp_path / "certificates")

    async def story() -> None:
        async with live(str(tmp_path / "home")) as daemon, network(daemon, **certificates.listen()) as net:
            with pytest.raises(Disconnected, match=r"the certificate of (tls|wss)://.* is not trusted"):
                await connect(net.listening.endpoints[index], token=net.token)

    run(story())


def test_who_does_not_speak_it_is_told(tmp_path: Path) -> None:
    async def story() -> None:
        async def other(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readline()
            writer.close()

        server = await asyncio.start_server(other, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(Disconnected, match="closed the connection during the upgrade"):
            await connect(f"ws://127.0.0.1:{port}")
        server.close()
        with pytest.raises(DaemonUnavailable, match="names no daemon"):
            await connect("http://127.0.0.1:1")

    run(story())


def test_the_websocket_library_is_imported_for_websockets_only(tmp_path: Path) -> None:
    program = "import sys, hermes_client, hermes_client.start; print('websockets' in sys.modules)"

    async def story() -> None:
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE, env={"PYTHONPATH": ":".join(sys.path)}
        )
        assert (await child.communicate())[0].strip() == b"False"

    run(story())


def test_connect_is_connection_open() -> None:
    assert connect == Connection.open
