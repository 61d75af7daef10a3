"""What all plugins together have registered, and what they share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec

from hermes_daemon.core.ports import Host, Refused, Tool, Tools
from hermes_daemon.middleware.registry import Registry
from hermes_daemon.middleware.workers import Workers
from hermes_daemon.plugins.bus import Bus
from hermes_daemon.plugins.services import Services
from hermes_daemon.plugins.tool import PluginTool

SECTIONS_CHARS = 8000


class CommandRow(msgspec.Struct, frozen=True):
    """A command of a plugin."""

    name: str
    description: str
    args_hint: str
    owner: str
    kind: Literal["slash", "cli"]
    handler: Callable[..., Any]


class Estate:
    """Shared by the contexts of all plugins. `built_in` are the tools whose names are taken.

    Plugins register from threads while the loop reads: every change replaces its table, so that whoever reads one
    has it whole.
    """

    def __init__(
        self,
        middleware: Registry,
        built_in: Tools,
        *,
        host: Callable[[], Host],
        secret: Callable[[str], str | None],
        redact: Callable[[str], str],
        set_config: Callable[[str, Any], object],
        profile: str = "",
        hook_seconds: Callable[[], float] = lambda: 30.0,
    ) -> None:
        self.middleware = middleware
        self.workers: Workers = middleware.workers
        self.services = Services()
        self.bus = Bus(self.workers)
        self.host, self.secret, self.redact, self.set_config = host, secret, redact, set_config
        self.profile = profile
        self.hook_seconds = hook_seconds
        self.loaded: set[str] = set()
        self.sections: dict[str, tuple[str | Callable[[], str], int]] = {}
        self.slots: dict[str, tuple[str, Any]] = {}
        self._changing = threading.Lock()
        self._built_in = built_in
        self._tools: dict[str, PluginTool] = {}
        self._commands: dict[tuple[str, str], CommandRow] = {}

    # --- tools: ports.Tools, the built-in ones and the guests' ---

    def all(self) -> Sequence[Tool]:
        """Every tool that can be used now; a guest that overrides a built-in tool stands in its place."""
        built_in = [self._tools.get(tool.card.name, tool) for tool in self._built_in.all()]
        known = {tool.card.name for tool in built_in}
        guests = [tool for name, tool in self._tools.items() if name not in known]
        return tuple(tool for tool in (*built_in, *guests) if not getattr(tool, "unavailable", ""))

    def get(self, name: str) -> Tool | None:
        """The tool of that name."""
        return self._tools.get(name) or self._built_in.get(name)

    @property
    def tools(self) -> tuple[PluginTool, ...]:
        """The guests' tools, also those that cannot be used now."""
        return tuple(self._tools.values())

    def add_tool(self, tool: PluginTool, *, override: bool) -> Callable[[], None]:
        """Take a tool; gives what takes it back. Refused for a taken name."""
        name = tool.card.name
        with self._changing:
            other = self._tools.get(name)
            if other is not None and other.owner != tool.owner:
                raise Refused(f"the tool {name!r} is {other.owner}'s")
            if other is None and self._built_in.get(name) is not None and not override:
                raise Refused(f"the tool {name!r} is built in", "Choose another name, or ask to override it.")
            self._tools = {**self._tools, name: tool}
        return lambda: self._drop("_tools", name, tool)

    # --- commands, sections, slots ---

    @property
    def commands(self) -> tuple[CommandRow, ...]:
        """All commands, by name."""
        return tuple(row for _, row in sorted(self._commands.items()))

    def command(self, kind: str, name: str) -> CommandRow | None:
        """The command of that name."""
        return self._commands.get((kind, name))

    def add_command(self, row: CommandRow) -> Callable[[], None]:
        """Take a command; gives what takes it back. Refused for a taken name."""
        with self._changing:
            other = self._commands.get((row.kind, row.name))
            if other is not None and other.owner != row.owner:
                raise Refused(f"the command {row.name!r} is {other.owner}'s")
            self._commands = {**self._commands, (row.kind, row.name): row}
        return lambda: self._drop("_commands", (row.kind, row.name), row)

    def add_section(self, id: str, content: str | Callable[[], str], max_chars: int) -> Callable[[], None]:
        """Take a section of the system prompt; gives what takes it back."""
        row = (content, max_chars)
        with self._changing:
            self.sections = {**self.sections, id: row}
        return lambda: self._drop("sections", id, row)

    def slot(self, name: str, value: Any, owner: str) -> Callable[[], None]:
        """Fill a slot that holds one thing. Refused when another plugin has it."""
        row = (owner, value)
        with self._changing:
            before = self.slots.get(name)
            if before is not None:
                raise Refused(f"the slot {name} is {before[0]}'s already")
            self.slots = {**self.slots, name: row}
        return lambda: self._drop("slots", name, row)

    def filled(self, name: str) -> Any:
        """What a slot holds, or None."""
        return self.slots.get(name, ("", None))[1]

    def prompt_sections(self) -> tuple[str, ...]:
        """The sections as they are now, at most 8,000 characters together; one that fails is left out."""
        texts: list[str] = []
        room = SECTIONS_CHARS
        for content, limit in list(self.sections.values()):
            try:
                text = content if isinstance(content, str) else content()
            except Exception:  # a plugin's callback  # noqa: S112
                continue
            text = str(text).strip()[: min(limit, room)]
            if text:
                texts.append(text)
                room -= len(text)
        return tuple(texts)

    def forget(self, owner: str) -> None:
        """Whatever an owner still has here goes."""
        self.middleware.remove_owner(owner)
        self.services.withdraw(owner)
        self.bus.withdraw(owner)
        with self._changing:
            self._tools = {name: tool for name, tool in self._tools.items() if tool.owner != owner}
            self._commands = {key: row for key, row in self._commands.items() if row.owner != owner}
            self.slots = {name: row for name, row in self.slots.items() if row[0] != owner}
            self.sections = {id: row for id, row in self.sections.items() if not id.startswith(f"{owner}:")}
        self.loaded.discard(owner)

    def _drop(self, table: str, key: object, value: object) -> None:
        """Take `value` out of one of the tables, if it is still what stands there."""
        with self._changing:
            rows: dict[object, object] = getattr(self, table)
            if rows.get(key) is value:
                setattr(self, table, {name: row for name, row in rows.items() if name != key})
