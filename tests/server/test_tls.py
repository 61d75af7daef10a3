"""TLS: its own listener, every framing inside, certificates that cannot be used."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest

from hermes_daemon.core.settings import ListenSettings
from hermes_daemon.server.listening import Listening
from tests.support.certificates import Certificates
from tests.support.live import live
from tests.support.loops import on_every_loop, run
from tests.support.network import network


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@on_every_loop
def test_all_framings_are_spoken_inside(tmp_path: Path, certificates: Certificates, loop: str) -> None:
    async def story() -> None:
        async with (
            live(str(tmp_path)) as daemon,
            network(daemon, certificates.trusted(), **certificates.listen()) as net,
        ):
            assert [url.partition("://")[0] for url in net.listening.endpoints] == ["tls", "wss"]
            peer = await net.peer()
            assert (await peer.say(await peer.session(), "hello"))["data"]["status"] == "completed"
            assert (await net.get("/healthz"))[0] == 200
            ws = await net.websocket(net.bearer())
            assert "result" in await ws.request("initialize", {"hermes": {}})
            big = await peer.request("hermes/daemon/ping", {"echo": "x" * 900_000})
            assert len(big["echo"]) == 900_000

    run(story(), loop)


@on_every_loop
def test_plain_bytes_are_not_answered_there(tmp_path: Path, certificates: Certificates, loop: str) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon, network(daemon, **certificates.listen()) as net:
            assert not (await net.say(b'{"jsonrpc":"2.0","id":1,"method":"initialize"}\n')).startswith(b"{")
            assert b"HTTP/1.1" not in await net.say(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert not daemon.daemon.connections

    run(story(), loop)


@on_every_loop
def test_a_client_that_leaves_is_gone_with_its_stream(tmp_path: Path, certificates: Certificates, loop: str) -> None:
    async def story() -> None:
        async with (
            live(str(tmp_path)) as daemon,
            network(daemon, certificates.trusted(), **certificates.listen()) as net,
        ):
            peer = await net.peer()
            peer.close()
            while daemon.daemon.connections:
                await asyncio.sleep(0)

    run(story(), loop)


def test_a_stranger_s_certificate_is_not_trusted_by_clients(tmp_path: Path, certificates: Certificates) -> None:
    async def story() -> None:
        context = ssl.create_default_context()
        async with live(str(tmp_path)) as daemon, network(daemon, context, **certificates.listen()) as net:
            with pytest.raises(ssl.SSLCertVerificationError):
                await net.open()

    run(story())


def test_files_that_cannot_be_used_are_named(tmp_path: Path, certificates: Certificates) -> None:
    other = Certificates(tmp_path / "other")
    nonsense = tmp_path / "nonsense.pem"
    nonsense.write_text("no certificate")
    locked = other.locked_key(tmp_path / "locked.pem")
    faults = {
        ("", ""): "`listen.tls_cert` names no certificate",
        (str(tmp_path / "none.pem"), ""): "none.pem cannot be read: No such file or directory",
        (str(certificates.certificate), str(tmp_path / "none.pem")): "none.pem cannot be read",
        (str(nonsense), ""): "nonsense.pem: no PEM certificate",
        (str(certificates.certificate), str(other.key)): "no PEM certificate with its unencrypted key",
        (str(other.certificate), str(locked)): "no PEM certificate with its unencrypted key",
        (str(certificates.certificate), ""): "no PEM certificate with its unencrypted key",
    }

    async def story() -> None:
        async with live(str(tmp_path / "home")) as daemon:
            for (certificate, key), told in faults.items():
                settings = ListenSettings(tls=("127.0.0.1:0",), tls_cert=certificate, tls_key=key)
                listening = await Listening.open(daemon.daemon, settings, daemon.home)
                assert not listening.endpoints
                assert told in listening.problems[0]

    run(story())
