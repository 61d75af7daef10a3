"""What a plugin is given: `register(ctx)` gets one of these and does everything through it.

Every registration gives a handle with `remove()`, and goes when the plugin is unloaded. After that, and after a load
that took too long, calls are ignored.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Literal

from hermes_daemon.core.ports import Host, Refused, ToolCard, ToolOutcome
from hermes_daemon.middleware.points import OnError, find
from hermes_daemon.middleware.registry import Handle
from hermes_daemon.plugins.estate import CommandRow, Estate
from hermes_daemon.plugins.manifest import Manifest
from hermes_daemon.plugins.state import PluginState
from hermes_daemon.plugins.tool import PluginTool

SECTION_CHARS = 4000
SECTIONS_CHARS = 8000
MOST_SECTIONS = 32


class PluginContext:
    """`config` are the plugin's settings with their defaults, checked against its manifest."""

    def __init__(
        self,
        estate: Estate,
        manifest: Manifest,
        config: Mapping[str, Any],
        capabilities: frozenset[str],
        state: PluginState,
    ) -> None:
        self._estate = estate
        self._config = dict(config)
        self._capabilities = capabilities
        self._undo: list[Callable[[], object]] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False
        self._closing = threading.Lock()
        self.manifest = manifest
        self.state = state
        self.log = logging.getLogger(f"hermes_daemon.plugin.{manifest.id}")

    # --- who and where ---

    @property
    def plugin_id(self) -> str:
        """The plugin's id."""
        return self.manifest.id

    @property
    def profile_name(self) -> str:
        """The profile this daemon serves, "" for the default one."""
        return self._estate.profile

    @property
    def host(self) -> Host:
        """What the engine does for plugins."""
        return self._estate.host()

    def has_plugin(self, id: str) -> bool:
        """True when that plugin is loaded."""
        return id in self._estate.loaded

    def has_capability(self, name: str) -> bool:
        """True when the user granted it (`plugins.entries.<id>.granted_capabilities`)."""
        return name in self._capabilities

    # --- settings, secrets, redaction ---

    def get_config(self, key: str, default: Any = None) -> Any:
        """A setting of this plugin."""
        return self._config.get(key, default)

    def set_config(self, key: str, value: Any) -> None:
        """Write a setting of this plugin into config.yaml. Refused where it does not fit."""
        if self._closed:
            return
        self._estate.set_config(f"plugins.entries.{self.plugin_id}.settings.{key}", value)
        self._config[key] = value

    def secret(self, name: str) -> str | None:
        """The value of an environment name, from the environment or home/.env, read now; never log it."""
        return self._estate.secret(name)

    def redact(self, text: str) -> str:
        """`text` without secrets."""
        return self._estate.redact(text)

    # --- what acts ---

    def register_tool(
        self,
        name: str,
        handler: Callable[..., Any],
        *,
        schema: Mapping[str, Any],
        description: str = "",
        toolset: str = "",
        read_only: bool = False,
        kind: Literal["read", "edit", "search", "execute", "fetch", "think", "other"] = "other",
        check_fn: Callable[[], object] | None = None,
        title: Callable[[Mapping[str, Any]], str] | None = None,
        override: bool = False,
    ) -> Handle:
        """A tool for models. `schema` is a JSON Schema of type object; `handler(args, **context)` gives the result.

        Refused for a name that is taken, unless `override` is set and `tools.override` was granted.
        """
        parameters = dict(schema.get("parameters", schema)) if "type" not in schema else dict(schema)
        parameters.setdefault("type", "object")
        words = description or str(schema.get("description") or "")
        card = ToolCard(name, toolset or self.plugin_id, words, parameters, read_only, kind)
        tool = PluginTool(card, handler, self.plugin_id, self._estate.workers, check_fn, title)
        if self._closed:
            return _nothing()
        if override and not self.has_capability("tools.override"):
            raise Refused(
                f"{self.plugin_id} may not replace the tool {name!r}",
                f"Grant it with plugins.entries.{self.plugin_id}.granted_capabilities: [tools.override].",
            )
        return self._keep(self._estate.add_tool(tool, override=override))

    def register_middleware(self, kind: str, callback: Callable[..., Any], *, on_error: OnError | None = None,
                            fail_closed: bool = False, timeout: float | None = None) -> Handle:  # fmt: skip
        """Middleware by keywords (hermes.middleware.v1): llm_request, llm_execution, tool_request, tool_execution."""
        return self._use(kind, callback, "hermes", "closed" if fail_closed else on_error, timeout)

    def register_hook(self, name: str, callback: Callable[..., Any], *, timeout: float | None = None) -> Handle:
        """A hook by keywords (hermes.observer.v1); what it may give back depends on the point."""
        return self._use(name, callback, "hook", None, timeout)

    def use(self, point: str, callback: Callable[..., Any], *, on_error: OnError | None = None) -> Handle:
        """Prism's middleware: `fn(value, next)` at a point that transforms."""
        return self._use(point, callback, "prism", on_error, None)

    def on(self, point: str, callback: Callable[..., Any], *, on_error: OnError | None = None,
           wants: Callable[[Any], bool] | None = None, timeout: float | None = None) -> Handle:  # fmt: skip
        """Middleware with the daemon's own types: (value, context), around points (payload, next, context)."""
        return self._use(point, callback, "plain", on_error, timeout, wants)

    def _use(self, point: str, callback: Callable[..., Any], shape: Any, on_error: OnError | None,
             timeout: float | None, wants: Callable[[Any], bool] | None = None) -> Handle:  # fmt: skip
        if self._closed:
            return _nothing()
        if shape == "prism" and point == "tool_result" and wants is None:
            wants = _succeeded
        try:
            spec = find(point)
        except KeyError:
            spec = None
        if shape == "hook" and timeout is None and spec is not None and spec.timeout_s is not None:
            timeout = self._estate.hook_seconds()
        return self._keep(
            self._estate.middleware.use(
                point, callback, owner=self.plugin_id, on_error=on_error, timeout_s=timeout, wants=wants, shape=shape
            )
        )

    def register_command(self, name: str, handler: Callable[..., Any], description: str = "",
                         args_hint: str = "") -> Handle:  # fmt: skip
        """A slash command in every client: `handler(arguments, **context)` gives text or a JSON value."""
        return self._command(CommandRow(name.lstrip("/"), description, args_hint, self.plugin_id, "slash", handler))

    def register_cli_command(self, name: str, handler: Callable[..., Any], description: str = "",
                             args_hint: str = "") -> Handle:  # fmt: skip
        """A command of `hermes`: `handler(arguments, **context)` gives text, or (text, exit code)."""
        return self._command(CommandRow(name, description, args_hint, self.plugin_id, "cli", handler))

    def _command(self, row: CommandRow) -> Handle:
        return _nothing() if self._closed else self._keep(self._estate.add_command(row))

    def register_system_prompt_section(self, id: str, content: str | Callable[[], str], *,
                                       max_chars: int = SECTION_CHARS) -> Handle:  # fmt: skip
        """A section of the system prompt of sessions that begin from now on, cut to `max_chars` (at most 4,000)."""
        if self._closed:
            return _nothing()
        if len(self._estate.sections) >= MOST_SECTIONS:
            raise Refused(f"there are {MOST_SECTIONS} sections of the system prompt already")
        return self._keep(self._estate.add_section(f"{self.plugin_id}:{id}", content, min(max_chars, SECTION_CHARS)))

    def register_role_resolver(self, resolver: Callable[..., Any]) -> Handle:
        """Who says which model a role means: fn(role, surface, session, parent). One for the whole daemon."""
        return _nothing() if self._closed else self._keep(self._estate.slot("role_resolver", resolver, self.plugin_id))

    def register_context_engine(self, engine: Any) -> Handle:
        """The compaction engine. One for the whole daemon: the second is refused."""
        return _nothing() if self._closed else self._keep(self._estate.slot("context_engine", engine, self.plugin_id))

    # --- with others ---

    def get_service(self, name: str) -> Any:
        """A service that another plugin offers, None when nobody does."""
        return self._estate.services.get(name)

    def offer_service(self, name: str, service: Any) -> Handle:
        """Offer an object to other plugins under a name."""
        if self._closed:
            return _nothing()
        self._estate.services.offer(name, service, self.plugin_id)
        return self._keep(lambda: self._estate.services.withdraw(self.plugin_id, name))

    def emit(self, event: str, **payload: Any) -> None:
        """Tell the plugins that subscribed; never waits for them."""
        if not self._closed:
            self._estate.bus.emit(event, payload, owner=self.plugin_id)

    def subscribe(self, event: str, callback: Callable[..., Any]) -> Handle:
        """Be told of an event, with a copy of its payload as keywords."""
        return _nothing() if self._closed else self._keep(self._estate.bus.subscribe(event, callback, self.plugin_id))

    async def dispatch_tool(self, session_id: str, name: str, args: dict[str, Any]) -> ToolOutcome:
        """Run a tool as the session would, with its policy and approvals."""
        self._must_live()
        return await self.host.dispatch_tool(session_id, name, args)

    async def inject_message(self, session_id: str, text: str) -> str:
        """Put text into a session as input; the turn it begins or joins. Counted as from an agent, not a person."""
        self._must_live()
        return await self.host.inject_message(session_id, text, self.plugin_id)

    def spawn_task(self, work: Coroutine[Any, Any, Any]) -> Handle:
        """Run something beside the turns until it is done or the plugin goes; from the loop or from any thread."""
        loop = self._estate.bus.loop
        if self._closed or loop is None:
            work.close()
            return _nothing()
        tasks: list[asyncio.Task[Any]] = []

        def begin() -> None:
            if self._closed:
                work.close()
                return
            task = loop.create_task(work)
            tasks.append(task)
            self._tasks.add(task)
            task.add_done_callback(self._finished)

        def cancel() -> None:
            for task in tasks:
                task.cancel()

        def remove() -> None:
            loop.call_soon_threadsafe(cancel)

        loop.call_soon_threadsafe(begin)
        return Handle(0, remove)

    def on_unload(self, callback: Callable[[], object]) -> None:
        """Do this when the plugin goes."""
        with self._closing:
            if not self._closed:
                self._undo.append(callback)

    # --- the end ---

    def close(self) -> list[BaseException]:
        """Undo everything, the last first; what went wrong on the way."""
        with self._closing:
            self._closed = True
            undone, self._undo = self._undo, []
        faults: list[BaseException] = []
        for undo in reversed(undone):
            try:
                undo()
            except Exception as error:  # a plugin's callback: the rest must be undone as well
                faults.append(error)
        for task in tuple(self._tasks):
            task.get_loop().call_soon_threadsafe(task.cancel)
        self._estate.forget(self.plugin_id)
        return faults

    def _finished(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.log.warning("a task of %s failed: %s: %s", self.plugin_id, type(error).__name__, error)

    def _keep(self, registered: Handle | Callable[[], object]) -> Handle:
        undo = registered.remove if isinstance(registered, Handle) else registered
        with self._closing:
            late = self._closed  # between the look at `_closed` and the registration: a load that was given up
            if not late:
                self._undo.append(undo)
        if late:
            undo()
            return _nothing()

        def remove() -> None:
            undo()
            with self._closing:
                self._undo = [each for each in self._undo if each is not undo]

        return Handle(registered.id if isinstance(registered, Handle) else 0, remove)

    def _must_live(self) -> None:
        if self._closed:
            raise Refused(f"{self.plugin_id} was unloaded")


def _succeeded(value: Any) -> bool:
    return bool(getattr(value, "status", "ok") == "ok")


def _nothing() -> Handle:
    return Handle(0, lambda: None)
