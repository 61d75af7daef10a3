"""Daemons that are named by a URL: its forms, connecting to it, the token."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes_local import spawn
from hermes_local.address import Address, resolve
from hermes_local.elsewhere import Place, dial, token
from hermes_local.spawn import DaemonUnavailable
from tests.support.certificates import Certificates
from tests.support.live import live
from tests.support.network import Network, network


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("tcp://127.0.0.1:7777", ("tcp", "127.0.0.1", 7777, "")),
        ("TLS://lab.example:1/", ("tls", "lab.example", 1, "/")),
        ("wss://[::1]:443/behind/a/proxy", ("wss", "::1", 443, "/behind/a/proxy")),
        ("ws://localhost:80", ("ws", "localhost", 80, "")),
        ("unix:/run/d.sock", ("unix", "", 0, "/run/d.sock")),
        ("unix:///run/d.sock", ("unix", "", 0, "/run/d.sock")),
    ],
)
def test_a_url_has_these_parts(url: str, parts: tuple[str, str, int, str]) -> None:
    place = Place(url)
    assert (place.scheme, place.host, place.port, place.path) == parts


@pytest.mark.parametrize(
    "url",
    ["", "lab:7777", "http://lab:7777", "tcp:lab:7777", "tcp://lab", "tcp://lab:0", "tcp://lab:65536", "tcp://:7777",
     "tcp://lab:7777/path", "tcp://me@lab:7777", "unix:relative", "tls://lab:x"],
)  # fmt: skip
def test_another_form_is_refused_with_those_that_are_expected(url: str) -> None:
    with pytest.raises(DaemonUnavailable, match=r"names no daemon: expected tcp://HOST:PORT") as caught:
        Place(url)
    assert caught.value.exit_code == 2


def test_the_environment_names_the_daemon() -> None:
    address = resolve({"HOME": "/h", "HERMES_DAEMON": "tcp://lab:1", "HERMES_DAEMON_TOKEN_FILE": "/t"})
    assert (address.daemon_url, address.token_file) == ("tcp://lab:1", "/t")
    assert resolve({"HOME": "/h"}).daemon_url == ""


def there(tmp_path: Path, url: str, token_file: str = "") -> Address:
    address = Address(str(tmp_path), "", str(tmp_path / "run"))
    address.daemon_url, address.token_file = url, token_file
    return address


def against(tmp_path: Path, told: Callable[[Network, Address], None], **settings: Any) -> None:
    """Run a blocking client in a thread, beside a daemon that listens on the network."""

    async def story() -> None:
        async with live(str(tmp_path / "home")) as daemon, network(daemon, **settings) as net:
            address = there(tmp_path, net.listening.endpoints[0], net.token_path)
            await asyncio.to_thread(told, net, address)

    asyncio.run(story())


def test_requests_and_events_come_over_tcp(tmp_path: Path) -> None:
    def told(net: Network, address: Address) -> None:
        with spawn.connect_or_start(address, "test") as connection:
            made = connection.request("hermes/session/create", {"cwd": "/"}, 10)
            session = made["session"]["sessionId"]
            connection.request("hermes/session/subscribe", {"sessionId": session}, 10)
            text = [{"type": "text", "text": "hello"}]
            connection.request("hermes/turn/submit", {"sessionId": session, "key": "k", "input": text}, 10)
            kinds = []
            for event in connection.events(10):
                kinds.append(event["kind"])
                if event["kind"] == "turn.ended":
                    break
            assert "item.completed" in kinds

    against(tmp_path, told)


def test_tls_is_spoken_with_whom_the_certificates_trust(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificates = Certificates(tmp_path / "certificates")

    def told(net: Network, address: Address) -> None:
        monkeypatch.delenv("SSL_CERT_FILE", raising=False)
        with pytest.raises(DaemonUnavailable, match=r"cannot connect to tls://.*certificate") as caught:
            spawn.connect(address, "test")
        assert caught.value.exit_code == spawn.EXIT_UNAVAILABLE
        monkeypatch.setenv("SSL_CERT_FILE", str(certificates.authority))
        with spawn.connect(address, "test") as connection:
            assert len(connection.request("hermes/daemon/ping", {"echo": "x" * 300_000}, 10)["echo"]) == 300_000

    against(tmp_path, told, **certificates.listen())


def test_a_missing_or_wrong_token_is_told_with_what_to_do(tmp_path: Path) -> None:
    def told(net: Network, address: Address) -> None:
        address.token_file = ""
        with pytest.raises(
            DaemonUnavailable, match="name its file with --token-file or HERMES_DAEMON_TOKEN_FILE"
        ) as no:
            spawn.connect(address, "test")
        assert no.value.exit_code == spawn.EXIT_REFUSED
        (tmp_path / "wrong").write_text("a-token-of-another-daemon")
        address.token_file = str(tmp_path / "wrong")
        with pytest.raises(DaemonUnavailable, match="this is not the daemon's token"):
            spawn.connect(address, "test")
        address.token_file = str(tmp_path / "none")
        with pytest.raises(DaemonUnavailable, match=r"token file .*none cannot be read: No such file"):
            spawn.connect(address, "test")

    against(tmp_path, told)


def test_a_daemon_on_this_machine_is_shown_the_home_s_own_token(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("the-token-of-this-home\n")
    assert token(there(tmp_path, "tcp://127.0.0.1:1")) == "the-token-of-this-home"
    assert token(there(tmp_path, "tls://localhost:1")) == "the-token-of-this-home"
    assert token(there(tmp_path, "tls://lab.example:1")) == ""
    os.unlink(tmp_path / "token")
    assert token(there(tmp_path, "tcp://127.0.0.1:1")) == ""


def test_where_nobody_listens_nothing_is_started(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    for url in (f"tcp://127.0.0.1:{port}", f"unix:{tmp_path}/none.sock"):
        with pytest.raises(DaemonUnavailable, match=f"no daemon answers at {url}") as caught:
            spawn.connect_or_start(there(tmp_path, url), "test")
        assert caught.value.exit_code == spawn.EXIT_NOT_RUNNING
    with pytest.raises(DaemonUnavailable, match=r"cannot connect to tcp://no-such-name.invalid:1"):
        dial("tcp://no-such-name.invalid:1")
    assert os.listdir(tmp_path) == []


def test_a_websocket_url_is_for_another_client_which_is_said(tmp_path: Path) -> None:
    with pytest.raises(DaemonUnavailable, match=r"speaks WebSocket; .* tls:// on the same port"):
        dial("wss://lab.example:1")


def test_a_unix_socket_may_be_named_too(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path / "home")) as daemon:
            address = there(tmp_path, f"unix:{daemon.socket_path}")

            def told() -> None:
                with spawn.connect_or_start(address, "test") as connection:
                    connection.request("hermes/daemon/ping", {}, 10)

            await asyncio.to_thread(told)

    asyncio.run(story())
