"""The host: which plugins there are, which of them run, and how they come and go while the daemon lives."""

from __future__ import annotations

import asyncio
import difflib
import logging
import os
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from hermes_daemon.core.ports import Refused
from hermes_daemon.core.settings import PluginEntry, PluginsSettings
from hermes_daemon.plugins import loading
from hermes_daemon.plugins.config_schema import Problem, checked, schema_faults
from hermes_daemon.plugins.context import PluginContext
from hermes_daemon.plugins.discovery import Found, discover
from hermes_daemon.plugins.estate import Estate
from hermes_daemon.plugins.manifest import Manifest
from hermes_daemon.plugins.order import load_order
from hermes_daemon.plugins.requirements import unmet
from hermes_daemon.plugins.state import PluginState

log = logging.getLogger(__name__)
State: TypeAlias = Literal["loaded", "disabled", "enabled", "failed", "retired"]
MOST_ABANDONED = 8


class SettingRow(msgspec.Struct, frozen=True):
    """A setting of a plugin. `given` is true where config.yaml has it; else `value` is the default or None."""

    key: str
    type: str
    description: str = ""
    value: Any = None
    given: bool = False
    choices: tuple[Any, ...] = ()


class PluginRow(msgspec.Struct, frozen=True):
    """One plugin as lists show it. `state`: loaded; enabled, but not loaded (safe mode); disabled; failed and retired
    with `detail`."""

    id: str
    name: str
    version: str
    source: str
    state: State
    description: str = ""
    detail: str = ""
    tools: tuple[str, ...] = ()
    points: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    settings: tuple[SettingRow, ...] = ()


class Plugins:
    """All plugins of a daemon. `places` gives (bundled folder, home, project folder or "")."""

    def __init__(
        self,
        estate: Estate,
        places: Callable[[], tuple[str, str, str]],
        settings: Callable[[], PluginsSettings],
    ) -> None:
        self.estate = estate
        self._places = places
        self._settings = settings
        self._contexts: dict[str, PluginContext] = {}
        self._running: dict[str, Found] = {}
        self._found: dict[str, Found] = {}
        self._twins: list[Found] = []
        self._faults: dict[str, str] = {}
        self._problems: dict[str, tuple[Problem, ...]] = {}
        self._abandoned = 0
        self._changing = asyncio.Lock()

    # --- coming and going ---

    async def load(self) -> tuple[str, ...]:
        """Load what is enabled; one sentence for each that cannot be. A plugin that fails keeps no other from
        loading."""
        async with self._changing:
            self.estate.bus.bind(asyncio.get_running_loop())
            self._look()
            self._faults = {}
            if self._settings().safe_mode:
                return ()
            wanted = {id: found for id, found in self._found.items() if self._wanted(found)}
            for id in self._settings().enabled:
                if id not in self._found:
                    near = difflib.get_close_matches(id, self._found, 1)
                    self._faults[id] = "there is no such plugin" + (f", did you mean {near[0]!r}?" if near else "")
            ready = {}
            for id, found in wanted.items():
                if found.fault or found.manifest.retired:
                    self._faults[id] = found.fault or f"is retired: {found.manifest.retired}"
                else:
                    ready[id] = found.manifest.requires
            order, faults = load_order(ready)
            self._faults |= faults
            for id in order:
                broken = [need for need in ready[id] if need in self._faults]
                if broken:
                    self._faults[id] = f"needs {', '.join(broken)}, which failed"
                elif id not in self._contexts:
                    await self._load_one(wanted[id])
            for id, fault in self._faults.items():
                log.warning("plugin %s: %s", id, fault)
            return tuple(f"{id}: {fault}" for id, fault in self._faults.items())

    async def reload(self, ids: Sequence[str] = ()) -> tuple[str, ...]:
        """Unload these plugins and those that need them (all, when none is named), and load what is enabled now. A
        turn that runs keeps the callables it began with."""
        async with self._changing:
            going = set(ids or self._contexts)
            while more := {
                id for id, ctx in self._contexts.items() if id not in going and going & set(ctx.manifest.requires)
            }:
                going |= more
            for id in reversed(list(self._contexts)):
                if id in going:
                    self._unload_one(id)
        return await self.load()

    async def close(self) -> None:
        """Unload all, the last first."""
        async with self._changing:
            for id in reversed(list(self._contexts)):
                self._unload_one(id)
            self.estate.workers.close()

    def _look(self) -> None:
        """See what there is now. A plugin that is loaded stays what it was loaded as, also when its folder is gone."""
        found = dict(self._running)
        twins = []
        seen: set[str] = set()
        for each in discover(*self._places()):
            if each.id in seen:
                twins.append(each)
            else:
                seen.add(each.id)
                found.setdefault(each.id, each)
        self._found, self._twins = found, twins

    def _wanted(self, found: Found) -> bool:
        settings = self._settings()
        if found.id in settings.disabled:
            return False
        return found.id in settings.enabled or (found.source == "bundled" and found.manifest.kind == "backend")

    async def _load_one(self, found: Found) -> None:
        id = found.id
        entry = self._settings().entries.get(id, PluginEntry())
        config, self._problems[id] = checked(found.manifest.config_schema, entry.settings, self.estate.secret)
        reasons = unmet(found.manifest, self.estate.secret)
        reasons += [f"settings{str(each)[1:]}" for each in self._problems[id] if each.severity == "fail"]
        if reasons:
            self._faults[id] = "; ".join(reasons)
            return
        state = PluginState(os.path.join(self._places()[1], "plugin-data", id))
        ctx = PluginContext(self.estate, found.manifest, config, frozenset(entry.granted_capabilities), state)
        try:
            await self._registered(found, ctx)
        except Exception as error:  # a plugin's code, whatever it raises
            for fault in ctx.close():
                log.warning("plugin %s: cleaning up: %s", id, fault)
            loading.forget(id)
            words = str(error) if isinstance(error, (Refused, loading.BadPlugin, TimeoutError)) else _words(error)
            self._faults[id] = self.estate.redact(words)
            return
        self._contexts[id], self._running[id] = ctx, found
        self.estate.loaded.add(id)
        log.info("plugin %s %s loaded", id, found.manifest.version)

    async def _registered(self, found: Found, ctx: PluginContext) -> None:
        """Import and register, in a thread of its own and within its time."""
        if self._abandoned >= MOST_ABANDONED:
            raise Refused(f"{self._abandoned} plugins that took too long are still loading; restart the daemon")
        seconds = self._settings().load_timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                result = await self.estate.workers.run(lambda: loading.import_register(found)(ctx), self._given_up)
                if asyncio.iscoroutine(result):
                    await result
        except TimeoutError:
            raise TimeoutError(f"took longer than {seconds:g} s to load") from None

    def _given_up(self, change: int) -> None:
        self._abandoned += change

    def _unload_one(self, id: str) -> None:
        ctx = self._contexts.pop(id)
        del self._running[id]
        for fault in ctx.close():
            log.warning("plugin %s: unloading: %s", id, fault)
        loading.forget(id)
        self._problems.pop(id, None)

    # --- what there is ---

    def rows(self) -> tuple[PluginRow, ...]:
        """Every plugin that is there now, by id, those that stand behind a twin with their fault."""
        self._look()
        rows = [self._row(found) for found in (*self._found.values(), *self._twins)]
        missing = [
            PluginRow(id, id, "", "", "failed", detail=fault)
            for id, fault in self._faults.items()
            if id not in self._found
        ]
        return tuple(sorted((*rows, *missing), key=lambda row: (row.id, row.state != "loaded")))

    def _row(self, found: Found) -> PluginRow:
        id, manifest = found.id, found.manifest
        here = self._found.get(id) is found
        state: State
        if here and id in self._contexts:
            state = "loaded"
        elif manifest.retired:
            state = "retired"
        elif found.fault or (here and id in self._faults):
            state = "failed"
        else:
            state = "enabled" if self._wanted(found) else "disabled"
        loaded = state == "loaded"
        links = [link.point for link in self.estate.middleware.rows() if link.owner == id] if loaded else []
        return PluginRow(
            id,
            manifest.label or manifest.name,
            manifest.version,
            found.source,
            state,
            manifest.description,
            manifest.retired or found.fault or (self._faults.get(id, "") if here else ""),
            tuple(tool.card.name for tool in self.estate.tools if tool.owner == id) if loaded else (),
            tuple(dict.fromkeys(links)),
            tuple(row.name for row in self.estate.commands if row.owner == id) if loaded else (),
            (*found.warnings, *map(str, schema_faults(manifest.config_schema)), *self._settings_words(id, here=here)),
            self._setting_rows(id, manifest) if here else (),
        )

    def _settings_words(self, id: str, *, here: bool) -> list[str]:
        """What is wrong with a plugin's settings, at the path they have in config.yaml."""
        return [
            f"$.plugins.entries.{id}.settings{str(each)[1:]}" for each in (self.settings_problems(id) if here else ())
        ]

    def _setting_rows(self, id: str, manifest: Manifest) -> tuple[SettingRow, ...]:
        """Every setting with its value; secrets are told by whether they are set."""
        given = self._settings().entries.get(id, PluginEntry()).settings
        values, _ = checked(manifest.config_schema, given, self.estate.secret)
        rows = []
        for key, field in manifest.config_schema.items():
            secret = field.secret or field.type == "secret"
            value = values.get(key)
            shown = ("(set)" if value else None) if secret else value
            choices = tuple(field.choices or field.enum or ())
            words = field.description or field.label
            rows.append(SettingRow(key, field.type, words, shown, key in given, choices))
        return tuple(rows)

    def warnings(self) -> tuple[str, ...]:
        """What people should know of plugins that are loaded all the same: settings they do not have."""
        return tuple(words for id in self._contexts for words in self._settings_words(id, here=True))

    def manifest_of(self, id: str) -> Found | None:
        """What was found under an id."""
        if not self._found:
            self._look()
        return self._found.get(id)

    def settings_problems(self, id: str) -> tuple[Problem, ...]:
        """What is wrong with the settings of a plugin, also of one that is not loaded."""
        found = self.manifest_of(id)
        if found is None:
            return ()
        entry = self._settings().entries.get(id, PluginEntry())
        return checked(found.manifest.config_schema, entry.settings, self.estate.secret)[1]


def _words(error: BaseException) -> str:
    """The error and where in the plugin it came from."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    where = f" ({os.path.basename(last.tb_frame.f_code.co_filename)}, line {last.tb_lineno})" if last else ""
    return f"{type(error).__name__}: {error}{where}"
