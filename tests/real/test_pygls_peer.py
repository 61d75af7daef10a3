"""pygls' own JSON-RPC client, a peer that knows nothing of us, attaches natively: over stdio and over the socket."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.counterparty import SAID, speak
from tests.support.daemon_process import Daemon, running_daemon

pygls_client = pytest.importorskip("pygls.client", reason="pygls is not installed")
pytestmark = pytest.mark.real
PATIENCE_S = 30.0
MODEL = "scripted/tool?name=terminal&args=" + quote('{"command":"echo from the tool"}')


class Attached:
    """A pygls client with everything it was told, in order."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.notes: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
        for method in ("hermes/event", "hermes/session/changed", "hermes/daemon/state"):
            self._listen(method)

    def _listen(self, method: str) -> None:
        @self.client.feature(method)  # type: ignore[untyped-decorator]
        def _(params: Any) -> None:
            self.notes.put_nowait((method, params))

    async def request(self, method: str, **params: Any) -> Any:
        async with asyncio.timeout(PATIENCE_S):
            return await self.client.protocol.send_request_async(method, params)

    async def event(self, kind: str) -> Any:
        """The next event of that kind."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                method, params = await self.notes.get()
                if method == "hermes/event" and params.kind == kind:
                    return params


@asynccontextmanager
async def over_stdio(daemon: Daemon) -> AsyncIterator[Attached]:
    """Through `hermes-daemon stdio`, the pump that an editor starts."""
    client = pygls_client.JsonRPCClient()
    attached = Attached(client)
    await client.start_io(sys.executable, "-m", "hermes_daemon", "stdio", env=daemon.environ)
    try:
        yield attached
    finally:
        client.protocol.notify("exit")
        await client.stop()


@asynccontextmanager
async def over_the_socket(daemon: Daemon) -> AsyncIterator[Attached]:
    """pygls has no unix socket of its own; its protocol object takes any stream."""
    from pygls.io_ import run_async

    client = pygls_client.JsonRPCClient()
    attached = Attached(client)
    reader, writer = await asyncio.open_unix_connection(daemon.socket_path)
    client.protocol.set_writer(writer)
    reading = asyncio.create_task(run_async(stop_event=client._stop_event, reader=reader, protocol=client.protocol))
    try:
        yield attached
    finally:
        client._stop_event.set()
        writer.close()
        await asyncio.wait([reading], timeout=PATIENCE_S)
        reading.cancel()


WAYS: dict[str, Callable[[Daemon], Any]] = {"stdio": over_stdio, "socket": over_the_socket}
Story = Callable[[Attached], Awaitable[None]]


def attach(folder: Path, way: str, story: Story) -> None:
    with running_daemon(folder, config="model:\n  default: scripted/echo\n") as daemon:

        async def attached() -> None:
            async with WAYS[way](daemon) as client:
                await story(client)

        asyncio.run(attached())


@pytest.mark.parametrize("way", sorted(WAYS))
def test_it_attaches_asks_answers_a_permission_and_hears_everything(tmp_path: Path, way: str) -> None:
    async def story(client: Attached) -> None:
        hello = {"client": {"id": "pygls", "name": "pygls"}, "capabilities": {"requests": ["permission"]}}
        welcome = await client.request("initialize", processId=None, capabilities={}, hermes=hello)
        assert welcome.capabilities.experimental.hermes.protocolVersion == "1.0"
        client.client.protocol.notify("initialized", {})
        created = await client.request("hermes/session/create", cwd=str(tmp_path), model=MODEL)
        session = created.session.sessionId
        snapshot = await client.request("hermes/session/subscribe", sessionId=session)
        assert snapshot.mode == "snapshot"
        block = [{"type": "text", "text": "run it, ünïcödé 🎈"}]
        submitted = await client.request("hermes/turn/submit", sessionId=session, key="k", input=block)
        assert submitted.disposition == "started"
        assert (await client.event("turn.started")).data.input[0].text == block[0]["text"]
        opened = await client.event("request.opened")
        answer = {"optionId": "allow_once"}
        taken = await client.request("hermes/request/answer", requestId=opened.data.requestId, answer=answer)
        assert taken.outcome == "allow_once"
        assert (await client.event("request.resolved")).data.by.name == "pygls"
        assert (await client.event("turn.ended")).data.status == "completed"
        page = await client.request("hermes/session/items", sessionId=session)
        call = next(item for item in page.items if item.type == "toolCall")
        assert "from the tool" in call.output.text

    attach(tmp_path, way, story)


@pytest.mark.parametrize("way", sorted(WAYS))
def test_it_reads_our_errors_and_goes_on(tmp_path: Path, way: str) -> None:
    from pygls.exceptions import JsonRpcException

    async def story(client: Attached) -> None:
        with pytest.raises(JsonRpcException) as early:
            await client.request("hermes/session/list")
        assert early.value.code == -32002
        await client.request("initialize", hermes={})
        with pytest.raises(JsonRpcException) as unknown:
            await client.request("hermes/no/such")
        assert unknown.value.code == -32601
        with pytest.raises(JsonRpcException) as missing:
            await client.request("hermes/session/get", sessionId="s_none")
        assert missing.value.code == -32040
        assert await client.request("shutdown") is None
        with pytest.raises(JsonRpcException) as late:
            await client.request("hermes/daemon/ping")
        assert late.value.code == -32600

    attach(tmp_path, way, story)


@pytest.mark.parametrize("way", sorted(WAYS))
def test_it_answers_the_permission_of_a_turn_that_another_client_began(tmp_path: Path, way: str) -> None:
    with running_daemon(tmp_path) as daemon:

        async def story() -> None:
            async with WAYS[way](daemon) as client:
                hello = {"client": {"id": "pygls", "name": "pygls"}, "capabilities": {"requests": ["permission"]}}
                await client.request("initialize", hermes=hello)
                created = await client.request("hermes/session/create", cwd=str(tmp_path), model=MODEL)
                session = created.session.sessionId
                await client.request("hermes/session/subscribe", sessionId=session)
                await asyncio.to_thread(speak, daemon, session)
                started = await client.event("turn.started")
                assert (started.data.input[0].text, started.data.by.name) == (SAID, "another")
                opened = await client.event("request.opened")
                answer = {"optionId": "allow_once"}
                await client.request("hermes/request/answer", requestId=opened.data.requestId, answer=answer)
                assert (await client.event("request.resolved")).data.by.name == "pygls"
                assert (await client.event("turn.ended")).data.status == "completed"

        asyncio.run(story())
