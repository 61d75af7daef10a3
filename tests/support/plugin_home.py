"""A home with plugins, and the plugin host over it, without a daemon."""

from __future__ import annotations

import asyncio
import textwrap
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from hermes_daemon.api import Host
from hermes_daemon.api.testing import RecordedHost
from hermes_daemon.core.settings import PluginEntry, PluginsSettings
from hermes_daemon.middleware.registry import Registry
from hermes_daemon.plugins.estate import Estate
from hermes_daemon.plugins.host import Plugins
from hermes_daemon.store.plugin_database import open_database
from hermes_daemon.tools.registry import Registry as Tools

BUNDLED = Path(__file__).parents[2] / "hermes_daemon" / "bundled"
NOTHING = "def register(ctx): pass\n"


class PluginHome:
    """`add` makes a plugin, `enable` switches some on; `run` does something with the host and unloads all after it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.settings = PluginsSettings()
        self.registry = Registry()

        host: Host = RecordedHost(lambda: self.estate)
        self.estate = Estate(
            self.registry, Tools(), host=lambda: host, secret=lambda _: None, redact=str, set_config=lambda *_: None,
            database=open_database,
        )  # fmt: skip
        self.plugins = Plugins(self.estate, lambda: (str(BUNDLED), str(path), ""), lambda: self.settings)

    def add(self, id: str, manifest: str = "", code: str = NOTHING) -> Path:
        """A plugin in home/plugins."""
        folder = self.path / "plugins" / id
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "plugin.yaml").write_text(textwrap.dedent(manifest) or f"name: {id}\n")
        (folder / "plugin.py").write_text(textwrap.dedent(code))
        return folder

    def enable(self, *ids: str, **settings: dict[str, Any]) -> None:
        """Exactly these; `settings` by id, with `_` for `-`."""
        entries = {id.replace("_", "-"): PluginEntry(given) for id, given in settings.items()}
        self.settings = PluginsSettings(tuple(ids), entries=entries)

    def run(self, work: Callable[[], Awaitable[Any]]) -> Any:
        """What `work` gives, in a loop of its own."""

        async def story() -> Any:
            try:
                return await work()
            finally:
                await self.plugins.close()

        return asyncio.run(story())

    def doctor(self, arguments: str = "") -> tuple[str, int]:
        """Load what is enabled and run the command plugins-doctor."""

        async def work() -> tuple[str, int]:
            await self.plugins.load()
            return await self.command(arguments)

        answer: tuple[str, int] = self.run(work)
        return answer

    async def command(self, arguments: str = "") -> tuple[str, int]:
        """The command plugins-doctor, of a host that is loaded."""
        row = self.estate.command("cli", "plugins-doctor")
        assert row is not None
        answer: tuple[str, int] = await row.handler(arguments)
        return answer
