"""Tests of plugins without a daemon: `install` loads a plugin's folder, and what it registered can be called.

    with install(Path(__file__).parent, {"tag": "blue"}) as plugin:
        sent = plugin.fold("llm_request", a_request("hello"))
        assert plugin.tool("greet", who="Ada").text == "hello Ada"

Nothing is patched: the plugin is imported, checked and registered as a daemon does it, and its callables run with the
same copies, limits and failure rules. A callable that fails raises PluginFailed here instead of going into a log.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import os
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, TypeVar

import msgspec

from hermes_daemon.core.ports import Answered, Ask, Refused, Request, Tool, ToolOutcome, ToolSpec
from hermes_daemon.core.settings import Settings
from hermes_daemon.middleware.directives import Decision
from hermes_daemon.middleware.payloads import Operation, PointContext, Question, ToolDone
from hermes_daemon.middleware.points import find
from hermes_daemon.middleware.registry import Link, Registry
from hermes_daemon.middleware.styles import around, decide, observe, transform
from hermes_daemon.plugins import loading
from hermes_daemon.plugins.commanding import called
from hermes_daemon.plugins.config_schema import checked
from hermes_daemon.plugins.context import PluginContext
from hermes_daemon.plugins.discovery import read_folder
from hermes_daemon.plugins.estate import Estate
from hermes_daemon.plugins.requirements import unmet
from hermes_daemon.plugins.state import PluginState
from hermes_protocol.content import Message, TextPart

__all__ = [
    "Installed",
    "PluginFailed",
    "RecordedHost",
    "a_call",
    "a_question",
    "a_request",
    "a_result",
    "install",
]

T = TypeVar("T")
NOTHING: Mapping[str, Any] = MappingProxyType({})


class PluginFailed(Exception):
    """A callable of the plugin failed, or the plugin cannot be loaded; the cause is chained."""


class RecordedHost:
    """ports.Host for tests: it notes what it is asked. `tools` answers dispatched tools that are not the plugin's."""

    def __init__(self, estate: Callable[[], Estate]) -> None:
        self._estate = estate
        self.tools: dict[str, Callable[[dict[str, Any]], str]] = {}
        self.injected: list[tuple[str, str]] = []
        self.cancelled: list[str] = []
        self.efforts: list[str] = []

    async def dispatch_tool(self, session_id: str, name: str, args: dict[str, Any]) -> ToolOutcome:
        """Run one of `tools`, else the plugin's own."""
        if name in self.tools:
            return ToolOutcome(self.tools[name](args))
        tool = self._estate().get(name)
        if tool is None:
            raise Refused(f"the test has no tool {name!r}")
        return await tool.run(args, _ToolContext(session_id, os.getcwd()))

    async def inject_message(self, session_id: str, text: str, who: str) -> str:
        """Note it; the turn is always `turn-test`."""
        self.injected.append((session_id, text))
        return "turn-test"

    def cancel_model_call(self, session_id: str, reason: str) -> bool:
        """Note it."""
        self.cancelled.append(reason)
        return True

    def set_turn_reasoning(self, session_id: str, effort: str, reason: str) -> str:
        """Note it."""
        self.efforts.append(effort)
        return ""


class Installed:
    """A plugin that is loaded. `ctx` is what its `register` was given, `host` what it asked of the engine, `written`
    the settings it wrote, as (dotted path, value)."""

    def __init__(self, secrets: Mapping[str, str], state_folder: str) -> None:
        self.registry = Registry()
        self.written: list[tuple[str, Any]] = []
        self.host = RecordedHost(lambda: self.estate)
        self.estate = Estate(
            self.registry,
            _NoTools(),
            host=lambda: self.host,
            secret=dict(secrets).get,
            redact=str,
            set_config=lambda path, value: self.written.append((path, value)),
        )
        self.ctx: PluginContext
        self._runner = asyncio.Runner()
        self._state_folder = state_folder
        self._faults: list[tuple[Link, BaseException]] = []

    # --- what it registered ---

    def tool(self, name: str, *, session_id: str = "session-test", cwd: str = "", **args: Any) -> ToolOutcome:
        """Call a tool of the plugin with these arguments. KeyError for one it did not register."""
        tool = next((tool for tool in self.estate.tools if tool.card.name == name), None)
        if tool is None:
            raise KeyError(f"no tool {name!r}; there are: {[tool.card.name for tool in self.estate.tools]}")
        return self.run(tool.run(args, _ToolContext(session_id, cwd or os.getcwd())))

    def command(
        self, name: str, arguments: str = "", *, kind: Literal["slash", "cli"] = "slash", session_id: str = ""
    ) -> Any:
        """What the handler of a command gives back. KeyError for one that is not registered."""
        row = self.estate.command(kind, name)
        if row is None:
            raise KeyError(f"no {kind} command {name!r}; there are: {[row.name for row in self.estate.commands]}")
        given = {"session_id": session_id, "client": "test"}
        return self.run(called(self.estate.workers, row.handler, arguments, given))

    def fold(self, point: str, value: T, **context: Any) -> T:
        """What a transform point makes of `value`. `context` are fields of PointContext."""
        links = self.registry.snapshot(_name(point))
        return self._told(transform(links, value, _context(context), self._note))

    def around(self, point: str, payload: T, call: Callable[[T], Any], **context: Any) -> Any:
        """The result of `call(payload)` inside what the plugin put around it."""

        async def inner(changed: T) -> Any:
            value = call(changed)
            return await value if inspect.isawaitable(value) else value

        links = self.registry.snapshot(_name(point))
        given = _context({"original": payload, **context})
        return self._told(around(links, payload, given, inner, self._note))

    def decide(self, point: str, payload: Any, **context: Any) -> Decision | None:
        """What the plugin decides at a point, None for nothing."""
        return self._told(decide(self.registry.snapshot(_name(point)), payload, _context(context), self._note))

    def observe(self, point: str, payload: Any, **context: Any) -> None:
        """Tell the plugin's observers."""
        self._told(observe(self.registry.snapshot(_name(point)), payload, _context(context), self._note))

    def emit(self, event: str, **payload: Any) -> None:
        """Emit an event of another plugin, and return when the subscribers were told."""

        async def work() -> None:
            self.estate.bus.emit(event, payload, owner="test")
            await self.estate.bus.drained()

        self.run(work())

    def run(self, work: Awaitable[T]) -> T:
        """Run something of the plugin's own in the loop that the plugin was loaded in."""

        async def awaited() -> T:
            return await work

        return self._runner.run(awaited())

    # --- coming and going ---

    def load(self, folder: str, settings: Mapping[str, Any], capabilities: Sequence[str]) -> None:
        """Load the plugin in `folder`. PluginFailed says why it cannot be."""
        found = read_folder("home", folder)
        if found.fault:
            raise PluginFailed(found.fault)
        config, problems = checked(found.manifest.config_schema, settings, self.estate.secret)
        wrong = [f"settings{str(each)[1:]}" for each in problems if each.severity == "fail"]
        wrong += unmet(found.manifest, self.estate.secret)
        if wrong:
            raise PluginFailed("; ".join(wrong))
        state = PluginState(os.path.join(self._state_folder, found.id))
        self.ctx = PluginContext(self.estate, found.manifest, config, frozenset(capabilities), state)

        async def register() -> None:
            self.estate.bus.bind(asyncio.get_running_loop())
            result = await self.estate.workers.run(lambda: loading.import_register(found)(self.ctx))
            if inspect.isawaitable(result):
                await result

        try:
            self.run(register())
        except Exception as error:
            raise PluginFailed(f"{found.id}: {type(error).__name__}: {error}") from error
        self.estate.loaded.add(found.id)

    def unload(self) -> None:
        """Take everything back, as a daemon does. PluginFailed when an `on_unload` of the plugin failed."""
        faults = self.ctx.close()
        loading.forget(self.ctx.plugin_id)
        self.run(asyncio.sleep(0))  # its tasks are cancelled in the loop
        if faults:
            raise PluginFailed(f"{self.ctx.plugin_id}: unloading: {faults[0]}") from faults[0]

    def close(self) -> None:
        """Unload it if it is loaded, and end the loop."""
        try:
            if hasattr(self, "ctx") and self.ctx.plugin_id in self.estate.loaded:
                self.unload()
        finally:
            self.estate.workers.close()
            self._runner.close()

    def _note(self, link: Link, error: BaseException) -> None:
        self._faults.append((link, error))

    def _told(self, work: Awaitable[T]) -> T:
        self._faults.clear()
        result = self.run(work)
        if self._faults:
            link, error = self._faults[0]
            raise PluginFailed(f"{link.name} at {link.point}: {type(error).__name__}: {error}") from error
        return result


@contextlib.contextmanager
def install(
    folder: str | os.PathLike[str],
    settings: Mapping[str, Any] = NOTHING,
    *,
    secrets: Mapping[str, str] = NOTHING,
    capabilities: Sequence[str] = (),
    services: Mapping[str, Any] = NOTHING,
) -> Iterator[Installed]:
    """The plugin in `folder`, loaded until the end of the block. PluginFailed when it cannot be loaded.

    `settings` are checked against its manifest, `secrets` are what it finds under environment names, `capabilities`
    what the user granted, `services` what other plugins would offer. Its state goes into a folder that is removed.
    """
    with tempfile.TemporaryDirectory(prefix="hermes-plugin-") as state:
        installed = Installed(secrets, state)
        for name, service in services.items():
            installed.estate.services.offer(name, service, "test")
        try:
            installed.load(os.path.abspath(os.fspath(folder)), settings, capabilities)
            yield installed
        finally:
            installed.close()


# --- values to begin with ---------------------------------------------------------------------------------------------


def a_request(text: str = "hello", *, model: str = "test/model", **fields: Any) -> Request:
    """A model request with one user message; `fields` are fields of Request."""
    tools = tuple(fields.pop("tools", (ToolSpec("terminal", "Runs a command.", {"type": "object"}),)))
    return msgspec.structs.replace(Request(model, "", (Message("user", (TextPart(text),)),), tools), **fields)


def a_call(name: str = "terminal", call_id: str = "call-test", **args: Any) -> Operation:
    """A tool call."""
    return Operation(call_id, name, args)


def a_result(text: str = "done", *, tool: str = "terminal", failed: bool = False, **args: Any) -> ToolDone:
    """A tool call that is over."""
    outcome = ToolOutcome(text, is_error=failed)
    return ToolDone(tool, args, text, "error" if failed else "ok", outcome, "call-test", duration_ms=1)


def a_question(text: str = "hello", *, round: int = 1) -> Question:
    """A round that may be answered without a model."""
    return Question("session-test", "turn-test", round, text)


# --- inside -----------------------------------------------------------------------------------------------------------


class _NoTools:
    """ports.Tools without a tool."""

    def all(self) -> Sequence[Tool]:
        return ()

    def get(self, name: str) -> Tool | None:
        return None


class _Processes:
    async def started(self, pid: int, marker: str, command: str) -> None:
        return None

    async def ended(self, pid: int) -> None:
        return None


class _ToolContext:
    """ports.ToolContext of a test: nobody answers questions."""

    def __init__(self, session_id: str, cwd: str) -> None:
        self.session_id, self.turn_id, self.call_id, self.cwd = session_id, "turn-test", "call-test", cwd
        self.env: Mapping[str, str] = {"PATH": os.defpath}
        self.settings = Settings()
        self.processes = _Processes()

    def progress(self, text: str) -> None:
        logging.getLogger("hermes_daemon.plugin").debug("%s", text)

    @property
    def transforms_output(self) -> bool:
        return False

    async def transform_output(self, command: str, output: str, code: int | None) -> str:
        return output

    async def ask(self, request: Ask) -> Answered:
        return Answered("policy")


def _context(fields: Mapping[str, Any]) -> PointContext:
    return PointContext(**{"session_id": "session-test", "turn_id": "turn-test", "round": 1, **fields})


def _name(point: str) -> str:
    return find(point).name
