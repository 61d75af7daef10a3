"""The HTTP side of a listener: routes, who may ask, what is malformed."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from hermes_daemon.server.http import MAX_HEAD, MAX_HEADERS, Request, Response, parse
from tests.support.live import live
from tests.support.loops import on_every_loop, run
from tests.support.network import network, parsed, upgrade


@on_every_loop
def test_healthz_is_open_and_says_that_all_is_well(tmp_path: Path, loop: str) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon, network(daemon) as net:
            status, headers, body = await net.get("/healthz")
            assert status == 200
            assert headers["content-type"] == "application/json"
            assert int(headers["content-length"]) == len(body)
            health = json.loads(body)
            assert health.pop("uptimeS") >= 0
            assert health == {"status": "ok", "version": "0.0", "state": "ready"}

    run(story(), loop)


def test_a_probe_neither_counts_as_a_client_nor_keeps_the_daemon(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon, network(daemon) as net:
            before = daemon.daemon._idle_since
            for _ in range(3):
                await net.get("/healthz")
            assert before is not None
            assert daemon.daemon._idle_since == before

    run(story())


@pytest.mark.parametrize("state", ["draining", "stopping"])
def test_a_daemon_that_leaves_is_not_healthy(tmp_path: Path, state: str) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon, network(daemon) as net:
            daemon.daemon.state = state  # type: ignore[assignment]
            status, _, body = await net.get("/healthz?verbose=1")
            assert (status, json.loads(body)["status"], json.loads(body)["state"]) == (503, state, state)
            daemon.daemon.state = "ready"

    run(story())


def test_a_daemon_without_its_data_is_not_healthy(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon, network(daemon) as net:
            room, daemon.daemon.room = daemon.daemon.room, None
            assert json.loads((await net.get("/healthz"))[2])["status"] == "starting"
            daemon.daemon.closed_to = "state.db is damaged: /secret/place"
            status, _, body = await net.get("/healthz")
            assert (status, json.loads(body)["status"]) == (503, "storage")
            assert b"secret" not in body
            daemon.daemon.room = room

    run(story())


@on_every_loop
def test_metrics_need_the_token_and_are_prometheus_text(tmp_path: Path, loop: str) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon, network(daemon) as net:
            status, headers, _ = await net.get("/metrics")
            assert (status, headers["www-authenticate"]) == (401, 'Bearer realm="hermes-daemon"')
            assert (await net.get("/metrics", "Authorization: Bearer wrong"))[0] == 401
            assert (await net.get("/metrics", f"Authorization: Basic {net.token}"))[0] == 401
            status, headers, body = await net.get("/metrics", net.bearer())
            assert (status, headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
            named = {family.name for family in text_string_to_metric_families(body.decode())}
            assert all(name.startswith("hermes_") for name in named)
            assert {"hermes_uptime_seconds", "hermes_connections", "hermes_turns_running"} <= named

    run(story(), loop)


def test_the_index_needs_the_token_too(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon, network(daemon) as net:
            assert (await net.get("/"))[0] == 401
            status, _, body = await net.get("/", net.bearer())
            assert status == 200
            assert body.startswith(b"hermes-daemon 0.0\n")

    run(story())


def test_a_head_request_gets_the_head_alone(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon, network(daemon) as net:
            status, headers, body = await net.get("/", net.bearer(), method="HEAD")
            assert (status, body) == (200, b"")
            assert int(headers["content-length"]) > 0

    run(story())


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [("/nothing", "GET", 404), ("/metrics/", "GET", 404), ("/healthz", "GUESS", 405), ("/", "HELLO", 405)],
)
def test_other_places_and_methods_are_refused(tmp_path: Path, path: str, method: str, status: int) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon, network(daemon) as net:
            got, headers, _ = await net.get(path, method=method)
            assert got == status
            assert headers.get("allow") == ("GET, HEAD" if status == 405 else None)

    run(story())


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:80", 200),
        ("127.0.0.1:1", 200),
        ("[::1]:99", 200),
        ("tools.example.org:443", 200),
        ("evil.example.com", 403),
        ("localhost.evil.example.com", 403),
        ("10.1.2.3", 403),
        ("", 403),
    ],
)
def test_only_known_names_are_answered_to(tmp_path: Path, host: str, status: int) -> None:
    """DNS rebinding: a page may point its own name here, and is told by that name."""

    async def story() -> None:
        async with live(str(tmp_path)) as daemon, network(daemon, hosts=("tools.example.org",)) as net:
            assert (await net.get("/healthz", f"Host: {host}"))[0] == status
            if status == 403:
                assert parsed(await net.say(upgrade(f"Host: {host}")))[0] == 403

    run(story())


def test_a_request_names_its_host_once(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon, network(daemon) as net:
            for rows in (b"", b"Host: localhost\r\nHost: localhost\r\n"):
                assert parsed(await net.say(b"GET /healthz HTTP/1.1\r\n" + rows + b"\r\n"))[0] == 400

    run(story())


def test_the_unix_socket_has_the_same_routes_and_asks_for_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            for path in (b"/healthz", b"/metrics", b"/"):
                peer = await daemon.peer(initialize=False)
                peer.writer.write(b"GET " + path + b" HTTP/1.1\r\nHost: whatever\r\n\r\n")
                assert parsed(await peer.reader.read())[0] == 200

    run(story())


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_request_may_come_in_pieces(tmp_path: Path, size: int) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon, network(daemon) as net:
            reader, writer = await net.open()
            request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
            for at in range(0, len(request), size):
                writer.write(request[at : at + size])
                await writer.drain()
            assert parsed(await reader.read())[0] == 200

    run(story())


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /\r\n\r\n", 400),
        (b"GET / HTTP/1.1 x\r\n\r\n", 400),
        (b"GET / HTTP/2\r\n\r\n", 505),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nA b: c\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n: c\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nA: b\nHost: x\r\n\r\n", 400),
        (b"GET /\x01 HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * (MAX_HEADERS + 1) + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\nA: " + b"b" * MAX_HEAD + b"\r\n\r\n", 431),
        (b"G" * (MAX_HEAD + 1), 431),
    ],
)
def test_what_is_no_request_is_told_so(head: bytes, status: int) -> None:
    answer = parse(head)
    assert isinstance(answer, Response)
    assert answer.status == status


def test_a_request_is_read_without_its_query() -> None:
    request = parse(b"GET /metrics?a=b HTTP/1.0\r\nX-A:  one, two \r\nx-a: three\r\n\r\nrest")
    assert request == Request("GET", "/metrics", (("x-a", "one, two"), ("x-a", "three")))
    assert isinstance(request, Request)
    assert request.words("x-a") == ["one", "two", "three"]
    assert parse(b"GET / HTTP/1.1\r\n") is None


def test_the_token_file_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon, network(daemon) as net:
            assert stat.S_IMODE(os.stat(net.token_path).st_mode) == 0o600
            assert len(net.token) == 43

    run(story())
