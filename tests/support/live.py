"""A real daemon inside the test's event loop: real SQLite file, real socket, scripted models, tools of the test.

`Peer` is a raw newline-JSON client: it sees every frame, and waits for frames instead of for time.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from hermes_daemon.config import Configuration
from hermes_daemon.core.ports import ModelInfo, Provider, Refused, Tool, ToolCard, ToolContext, ToolOutcome
from hermes_daemon.engine.identity import SystemClock, new_id
from hermes_daemon.engine.parts import Parts
from hermes_daemon.engine.sessions import Sessions
from hermes_daemon.middleware.registry import Registry
from hermes_daemon.providers.scripted import Scripted
from hermes_daemon.providers.web import Web
from hermes_daemon.server.connection import Connection
from hermes_daemon.server.daemon import Daemon, Identity
from hermes_daemon.server.engine_room import EngineRoom
from hermes_daemon.server.entrance import UNIX
from hermes_daemon.server.guests import Guests
from hermes_daemon.server.native import table
from hermes_daemon.store.plugin_database import open_database
from hermes_daemon.store.sqlite import SqliteStore
from hermes_daemon.telemetry.hub import Hub
from hermes_protocol.methods import METHODS, AuthRow, AuthTested, Method, ModelRow

PATIENCE = 20.0


class ScriptedModels:
    """ports.Models with the scripted provider only, or with a provider of the test."""

    def __init__(self, provider: Provider | None = None, info: ModelInfo | None = None) -> None:
        self.scripted = Scripted()
        self.provider = provider
        self.given = info

    def default(self) -> str:
        return "scripted/echo"

    def resolve(self, model: str | None) -> tuple[Provider, ModelInfo]:
        name = (model or self.default()).removeprefix("scripted/")
        if self.provider is not None:
            return self.provider, self.given or ModelInfo("test/model", "model", "test")
        info = self.scripted.info(name)
        if info is None:
            raise Refused(f"no model {model!r}", kind="invalid_params")
        return self.scripted, info

    async def rows(self, probe: bool) -> tuple[ModelRow, ...]:
        return (ModelRow("scripted/echo", "scripted", default=True),)

    def auth_rows(self) -> tuple[AuthRow, ...]:
        return ()

    async def test_keys(self, provider: str) -> tuple[AuthTested, ...]:
        raise Refused(f"There is no provider {provider!r}.", kind="invalid_params")

    def key_source(self, provider: str, store: str) -> str:
        raise Refused(f"There is no provider {provider!r}.", kind="invalid_params")

    async def keep_key(self, source: str, value: str | None) -> None:
        raise Refused("There is no key store.", kind="invalid_params")

    async def close(self) -> None:
        return None


class TestTool:
    """A tool made of a card and a function."""

    __test__ = False

    def __init__(self, name: str, run: Callable[[dict[str, Any], ToolContext], Awaitable[ToolOutcome]], *,
                 read_only: bool = False) -> None:  # fmt: skip
        schema = {"type": "object", "properties": {"text": {"type": "string"}}, "additionalProperties": False}
        self.card = ToolCard(name, "test", f"The {name} tool.", schema, read_only=read_only)
        self._run = run

    def title(self, args: Mapping[str, Any]) -> str:
        return f"{self.card.name} {args.get('text', '')}".strip()

    async def run(self, args: dict[str, Any], ctx: ToolContext) -> ToolOutcome:
        return await self._run(args, ctx)


class TestTools:
    """ports.Tools over a list."""

    __test__ = False

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = list(tools)

    def all(self) -> Sequence[Tool]:
        return self._tools

    def get(self, name: str) -> Tool | None:
        return next((tool for tool in self._tools if tool.card.name == name), None)


class Live:
    """The running daemon of one test."""

    def __init__(self, daemon: Daemon, socket_path: str, home: str) -> None:
        self.daemon = daemon
        self.socket_path = socket_path
        self.home = home
        self._peers: list[Peer] = []

    @property
    def room(self) -> EngineRoom:
        return self.daemon.engine

    async def peer(
        self, name: str = "test", *, initialize: bool = True, small_buffer: bool = False, **hello: Any
    ) -> Peer:
        """A new connection, initialized with `hello` fields over the defaults.

        `small_buffer`: it takes little from the socket unless somebody reads, as a client does that is stuck.
        """
        limit = 65_536 if small_buffer else 64 * 1024 * 1024
        reader, writer = await asyncio.open_unix_connection(self.socket_path, limit=limit)
        peer = Peer(reader, writer)
        self._peers.append(peer)
        if initialize:
            await peer.initialize(name, **hello)
        return peer

    async def close(self) -> None:
        for peer in self._peers:
            peer.close()


class Peer:
    """One connection. Frames that are not the awaited answer are kept in `events` and `notes`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.events: list[dict[str, Any]] = []
        self.notes: list[dict[str, Any]] = []
        self.answers: dict[Any, dict[str, Any]] = {}
        self.order: list[dict[str, Any]] = []
        self._next = 0

    async def initialize(self, name: str, **hello: Any) -> dict[str, Any]:
        params = {
            "protocolVersions": ["1.0"],
            "client": {"id": f"id-{name}", "name": name},
            "capabilities": {"requests": ["permission"], "maxLatencyMs": 0},
        } | hello
        answer: dict[str, Any] = await self.request("initialize", {"hermes": params})
        return answer

    def send(self, frame: object) -> None:
        self.writer.write((frame if isinstance(frame, bytes) else msgspec.json.encode(frame)) + b"\n")

    def call(self, method: str, params: object = None) -> int:
        """Send a request and do not wait."""
        self._next += 1
        self.send({"jsonrpc": "2.0", "id": self._next, "method": method, "params": params or {}})
        return self._next

    async def request(self, method: str, params: object = None) -> Any:
        """The result; AssertionError with the error otherwise."""
        frame = await self.answer(self.call(method, params))
        assert "result" in frame, frame
        return frame["result"]

    async def refused(self, method: str, params: object = None) -> dict[str, Any]:
        """The error."""
        frame = await self.answer(self.call(method, params))
        assert "error" in frame, frame
        error: dict[str, Any] = frame["error"]
        return error

    async def answer(self, id: object) -> dict[str, Any]:
        while id not in self.answers:
            await self._read()
        return self.answers.pop(id)

    async def event(self, kind: str, **fields: Any) -> dict[str, Any]:
        """The next event of that kind (and data fields) that was not taken yet; earlier ones are kept."""
        at = 0
        while True:
            for index in range(at, len(self.events)):
                event = self.events[index]
                if event["kind"] == kind and all(event["data"].get(name) == value for name, value in fields.items()):
                    del self.events[index]
                    return event
            at = len(self.events)
            await self._read()

    async def note(self, method: str) -> dict[str, Any]:
        while True:
            for index, note in enumerate(self.notes):
                if note["method"] == method:
                    del self.notes[index]
                    params: dict[str, Any] = note["params"]
                    return params
            await self._read()

    async def _read(self) -> None:
        async with asyncio.timeout(PATIENCE):
            line = await self._line()
        assert line, f"the daemon closed the connection; unread: {self.order[-3:]}"
        frame = msgspec.json.decode(line)
        self.order.append(frame)
        if isinstance(frame, list) or "method" not in frame:
            self.answers[frame.get("id") if isinstance(frame, dict) else "batch"] = frame
        elif frame["method"] == "hermes/event":
            self.events.append(frame["params"])
        else:
            self.notes.append(frame)

    async def _line(self) -> bytes:
        """One line of any length: `readline` ends a small buffer's conversation at its limit."""
        line = bytearray()
        while not line.endswith(b"\n"):
            try:
                return bytes(line) + await self.reader.readuntil(b"\n")
            except asyncio.LimitOverrunError as error:
                line += await self.reader.readexactly(error.consumed)
            except asyncio.IncompleteReadError as error:
                return bytes(line) + error.partial
        return bytes(line)

    async def closed(self) -> list[bytes]:
        """Everything until the daemon closes the connection."""
        lines = []
        async with asyncio.timeout(PATIENCE):
            while line := await self.reader.readline():
                lines.append(line)
        return lines

    def close(self) -> None:
        self.writer.close()

    # --- what most tests do ---

    async def session(self, cwd: str = "/", **params: Any) -> str:
        """A new session this peer is subscribed to."""
        created = await self.request("hermes/session/create", {"cwd": cwd, **params})
        session_id: str = created["session"]["sessionId"]
        await self.request("hermes/session/subscribe", {"sessionId": session_id})
        return session_id

    async def submit(self, session_id: str, text: str, key: str = "", **params: Any) -> dict[str, Any]:
        block = [{"type": "text", "text": text}]
        self._next += 1
        given = {"sessionId": session_id, "input": block, "key": key or f"k{id(self)}-{self._next}", **params}
        result: dict[str, Any] = await self.request("hermes/turn/submit", given)
        return result

    async def say(self, session_id: str, text: str, **params: Any) -> dict[str, Any]:
        """Submit and wait for the end of that turn; its turn.ended."""
        submitted = await self.submit(session_id, text, **params)
        while True:
            ended = await self.event("turn.ended")
            if ended["turnId"] == submitted["turnId"]:
                return ended


@contextlib.asynccontextmanager
async def live(home: str, *, tools: Sequence[Tool] = (), provider: Provider | None = None,
               info: ModelInfo | None = None, middleware: Registry | None = None,
               config: str = "", trials: Mapping[str, tuple[Method, table.Handler]] | None = None,
               ) -> AsyncIterator[Live]:  # fmt: skip
    """A daemon on a socket below `home`; call it twice on one home to see a restart.

    `trials` are methods of the test beside those of the table.
    """
    os.makedirs(home, exist_ok=True)
    if config:
        with open(os.path.join(home, "config.yaml"), "w") as file:
            file.write(config)
    registry = middleware or Registry()

    async def open_engine(daemon: Daemon) -> EngineRoom:
        table.check(set(daemon.reader_handlers))
        configuration = Configuration(home, {})
        daemon.limits = configuration.current.daemon
        clock = SystemClock()
        hub = Hub(counting=configuration.current.telemetry.metrics)
        hub.hear_commits(asyncio.get_running_loop().call_soon_threadsafe)
        path = os.path.join(home, "state.db")
        store = SqliteStore.open(path, configuration.current.database, clock, hub.committed)
        models = ScriptedModels(provider, info)
        web = Web(asyncio.get_running_loop())
        guests = Guests(
            registry, TestTools(tools), home=home, bundled=os.path.join(home, "bundled"),
            settings=lambda: configuration.current, secret=configuration.secret, redact=str,
            set_config=configuration.set, environment=os.environ, http=web, database=open_database,
        )  # fmt: skip
        parts = Parts(store, models, guests.estate, clock, lambda: configuration.current, str, registry,
                      {"PATH": os.environ.get("PATH", "")}, fault=lambda: configuration.fault,
                      sections=guests.estate.prompt_sections, telemetry=hub)  # fmt: skip
        sessions = Sessions(parts, daemon.session_changed)
        guests.attach(sessions)
        await sessions.recover()
        daemon.handlers.update(table.HANDLERS)
        await guests.load()

        async def close() -> None:
            await guests.close()
            await web.close()
            await store.close()

        daemon.handlers.update({name: handler for name, (_, handler) in (trials or {}).items()})
        return EngineRoom(sessions, parts, configuration, lambda lines, level: (), lambda: None, close, guests)

    identity = Identity("0.0", "test", new_id("boot"), "hash", home, (), lambda: False)
    methods = METHODS | {name: row for name, (row, _) in (trials or {}).items()}
    daemon = Daemon(identity, open_engine, lambda: None, methods)
    path = os.path.join(home, "d.sock")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    loop = asyncio.get_running_loop()
    server = await loop.create_unix_server(lambda: Connection(daemon, UNIX).wire, sock=listener)
    running = Live(daemon, path, home)
    try:
        await daemon.ready()
        yield running
    finally:
        await running.close()
        daemon.stop("now", "test", restart=False)
        await daemon.stopped.wait()
        server.close()
        async with asyncio.timeout(PATIENCE):
            while daemon.connections or daemon.strangers:  # their sockets are closed before the loop is
                await asyncio.sleep(0)
