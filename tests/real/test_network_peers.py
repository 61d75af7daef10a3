"""Programs written by others on our listeners: curl, socat, node's WebSocket, the package ws, the websockets client."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from hermes_local import state_file
from hermes_local.connection import Connection
from tests.support.certificates import Certificates
from tests.support.daemon_process import Daemon, running_daemon

pytestmark = pytest.mark.real
PEER = Path(__file__).resolve().parents[1] / "support" / "node" / "websocket_peer.js"
MODEL = "scripted/tool?name=terminal&args=" + quote('{"command":"echo from the tool"}')


class Place:
    """A daemon on the network, in the clear and through TLS."""

    def __init__(self, daemon: Daemon, certificates: Certificates, folder: Path) -> None:
        self.daemon, self.certificates, self.folder = daemon, certificates, folder
        self.urls = {url.partition(":")[0]: url for url in state_file.read(daemon.address.state_path)["endpoints"]}

    @property
    def token(self) -> str:
        return Path(self.daemon.address.home, "token").read_text().strip()

    def web(self, scheme: str, path: str) -> str:
        """The URL of a page."""
        return ("https" if scheme == "tls" else "http") + self.urls[scheme].removeprefix(scheme) + path


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("network")
    certificates = Certificates(folder / "certificates")
    config = (
        "model:\n  default: scripted/echo\nlisten:\n  tcp: ['127.0.0.1:0']\n  tls: ['127.0.0.1:0']\n"
        f"  tls_cert: {certificates.certificate}\n  tls_key: {certificates.key}\n"
    )
    with running_daemon(folder, config) as daemon:
        yield Place(daemon, certificates, folder)


def needs(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed")
    return found


def curl(place: Place, url: str, *words: str) -> tuple[int, str]:
    """Status and body."""
    trust = ["--cacert", str(place.certificates.authority), "--noproxy", "*", "--max-time", "20"]
    done = subprocess.run(
        [needs("curl"), "-sS", *trust, "-w", "\n%{http_code}", *words, url], capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 0, done.stderr
    body, _, status = done.stdout.rpartition("\n")
    return int(status), body


@pytest.mark.parametrize("scheme", ["tcp", "tls"])
def test_curl_asks_whether_it_is_well_and_for_its_figures(place: Place, scheme: str) -> None:
    # The database opens behind the first answers; the probe says so.
    with Connection.open(place.daemon.socket_path) as connection:
        connection.initialize("test")
        connection.request("hermes/session/list", {}, 20)
    status, body = curl(place, place.web(scheme, "/healthz"))
    assert (status, json.loads(body)["status"]) == (200, "ok")
    assert curl(place, place.web(scheme, "/metrics"))[0] == 401
    status, body = curl(place, place.web(scheme, "/metrics"), "-H", f"Authorization: Bearer {place.token}")
    assert status == 200
    assert "# TYPE hermes_uptime_seconds gauge" in body
    assert curl(place, place.web(scheme, "/metrics"), "--head")[0] == 401
    assert curl(place, place.web(scheme, "/nothing"))[0] == 404
    assert curl(place, place.web(scheme, "/healthz"), "-H", "Host: evil.example.com")[0] == 403
    assert curl(place, place.web(scheme, "/healthz"), "-X", "GRAB")[0] == 405


def test_curl_reads_the_same_on_the_unix_socket(place: Place) -> None:
    status, body = curl(place, "http://localhost/metrics", "--unix-socket", place.daemon.socket_path)
    assert status == 200
    assert "hermes_build_info" in body


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_socat_holds_a_conversation_in_lines(place: Place, transport: str) -> None:
    where = f"UNIX-CONNECT:{place.daemon.socket_path}"
    if transport == "tcp":
        where = "TCP:" + place.urls["tcp"].removeprefix("tcp://")
    with subprocess.Popen(
        [needs("socat"), "-t10", "-", where], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        seen: list[dict[str, Any]] = []
        out, lines = child.stdin, child.stdout

        def ask(id: int, method: str, **params: object) -> Any:
            out.write(json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}) + "\n")
            out.flush()
            return until(lambda message: message.get("id") == id)["result"]

        def until(wanted: Any) -> Any:
            while True:
                message = json.loads(lines.readline())
                seen.append(message)
                if wanted(message):
                    return message

        def event(kind: str) -> Any:
            return until(lambda m: m.get("method") == "hermes/event" and m["params"]["kind"] == kind)["params"]

        hello = {
            "client": {"name": "socat"},
            "capabilities": {"requests": ["permission"]},
            "auth": {"token": place.token},
        }
        ask(1, "initialize", hermes=hello)
        session = ask(2, "hermes/session/create", cwd=str(place.folder), model=MODEL)["session"]["sessionId"]
        assert ask(3, "hermes/session/subscribe", sessionId=session)["mode"] == "snapshot"
        ask(4, "hermes/turn/submit", sessionId=session, key="k", input=[{"type": "text", "text": "go"}])
        opened = event("request.opened")["data"]
        ask(5, "hermes/request/answer", requestId=opened["requestId"], answer={"optionId": "allow_once"})
        assert event("turn.ended")["data"]["status"] == "completed"
        say_from_elsewhere(place, session, "hello from another client")
        while True:
            item = event("item.completed")["data"]["item"]
            if item["type"] == "userMessage":
                break
        assert item["text"] == "hello from another client"
        out.close()
        assert child.wait(20) == 0


def say_from_elsewhere(place: Place, session: str, text: str) -> None:
    """Another client's message in that session."""
    with Connection.open(place.daemon.socket_path) as connection:
        connection.initialize("other")
        connection.request(
            "hermes/session/setOption", {"sessionId": session, "id": "model", "value": "scripted/echo"}, 10
        )
        block = [{"type": "text", "text": text}]
        connection.request("hermes/turn/submit", {"sessionId": session, "key": text, "input": block}, 10)


def node_with(kind: str) -> str:
    """The node to run, once it has this WebSocket; skips the test, with the reason, where it has not."""
    node = needs("node")
    modules = os.environ.get("HERMES_TEST_NODE_MODULES", "")
    if kind == "ws" and not Path(modules, "ws").is_dir():
        pytest.skip("HERMES_TEST_NODE_MODULES names no folder with ws (npm install ws)")
    if kind == "builtin":
        asked = [node, "-p", "typeof globalThis.WebSocket"]
        if subprocess.run(asked, capture_output=True, text=True).stdout.strip() != "function":
            pytest.skip("this node has no WebSocket of its own (node 22 and later have)")
    return node


@pytest.mark.parametrize("scheme", ["ws", "wss"])
@pytest.mark.parametrize("kind", ["builtin", "ws"])
def test_a_web_client_takes_part(place: Place, kind: str, scheme: str) -> None:
    environ = {
        "PATH": os.environ["PATH"],
        "NODE_PATH": os.environ.get("HERMES_TEST_NODE_MODULES", ""),
        "NODE_EXTRA_CA_CERTS": str(place.certificates.authority),
    }
    url = place.urls[scheme].replace("127.0.0.1", "localhost") if scheme == "wss" else place.urls[scheme]
    with subprocess.Popen(
        [node_with(kind), str(PEER), kind, url, place.token, str(place.folder), MODEL],
        env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as child:  # fmt: skip
        assert child.stdout is not None
        first = child.stdout.readline()
        if first:
            say_from_elsewhere(place, json.loads(first)["sessionId"], "hello from another client")
        rest, errors = child.communicate(timeout=60)
    assert child.returncode == 0, errors
    seen = json.loads(rest)
    assert (seen["protocol"], seen["extensions"], seen["binary"]) == ("hermes", "", False)
    assert (seen["mode"], seen["status"], seen["chain"], seen["echo"]) == ("snapshot", "completed", True, True)
    assert {"turn.started", "item.delta", "request.opened", "request.resolved", "turn.ended"} <= set(seen["kinds"])
    assert seen["heard"] == "hello from another client"
    assert seen["code"] == 1000


@pytest.mark.parametrize("scheme", ["ws", "wss"])
def test_the_websockets_client_takes_part(place: Place, scheme: str) -> None:
    websockets = pytest.importorskip("websockets.asyncio.client", reason="websockets is not installed")

    async def story() -> None:
        context = place.certificates.trusted() if scheme == "wss" else None
        headers = {"Authorization": f"Bearer {place.token}"}
        options = {"additional_headers": headers, "ssl": context, "proxy": None, "max_size": None}
        async with websockets.connect(place.urls[scheme], **options) as ws:

            async def ask(id: int, method: str, **params: object) -> Any:
                await ws.send(json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
                while True:
                    message = json.loads(await ws.recv())
                    if message.get("id") == id:
                        return message["result"]

            await ask(1, "initialize", hermes={"client": {"name": "websockets"}})
            session = (await ask(2, "hermes/session/create", cwd="/"))["session"]["sessionId"]
            await ask(3, "hermes/session/subscribe", sessionId=session)
            await ws.send(["{", '"jsonrpc":"2.0","id":4,"method":"hermes/daemon/ping"', "}"])  # in fragments
            assert json.loads(await ws.recv())["id"] == 4
            await (await ws.ping())
            await asyncio.to_thread(say_from_elsewhere, place, session, "hello from another client")
            kinds: list[str] = []
            while "turn.ended" not in kinds:
                kinds.append(json.loads(await ws.recv())["params"]["kind"])
            big = "x" * 900_000
            assert (await ask(5, "hermes/daemon/ping", echo=big))["echo"] == big
        assert ws.close_code == 1000

    asyncio.run(story())
