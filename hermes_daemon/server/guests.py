"""Plugins and shell hooks of a daemon, joined with the configuration they come from."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hermes_daemon.core.ports import Host, Refused, Tools
from hermes_daemon.core.settings import Settings
from hermes_daemon.engine.host import EngineHost
from hermes_daemon.middleware.registry import Registry
from hermes_daemon.plugins.consent import Consent
from hermes_daemon.plugins.estate import Estate
from hermes_daemon.plugins.host import Plugins
from hermes_daemon.plugins.shell_hooks import ShellHook, from_hooks_json, from_settings, hooks_file, install

if TYPE_CHECKING:
    from hermes_daemon.engine.sessions import Sessions

log = logging.getLogger(__name__)


class Guests:
    """`tools` are the built-in ones and the guests'. Nothing of a guest runs before `load`.

    A project's plugins are those of the folder that the daemon was started in: it has left, PWD still names it.
    """

    def __init__(
        self,
        registry: Registry,
        built_in: Tools,
        *,
        home: str,
        bundled: str,
        settings: Callable[[], Settings],
        secret: Callable[[str], str | None],
        redact: Callable[[str], str],
        set_config: Callable[[str, Any], object],
        environment: Mapping[str, str],
        profile: str = "",
    ) -> None:
        self._home = home
        self._settings = settings
        self._environment = environment
        self._registry = registry
        self._sessions: Sessions | None = None
        self._host: EngineHost | None = None
        self.estate = Estate(
            registry,
            built_in,
            host=self._engine,
            secret=secret,
            redact=redact,
            set_config=set_config,
            profile=profile,
            hook_seconds=lambda: settings().plugins.hook_callback_timeout,
        )
        self.plugins = Plugins(
            self.estate, lambda: (bundled, home, environment.get("PWD", "") if settings().plugins.project else ""),
            lambda: settings().plugins,
        )  # fmt: skip
        self.problems: tuple[str, ...] = ()

    def attach(self, sessions: Sessions) -> None:
        """The engine is there."""
        self._sessions = sessions
        self._host = EngineHost(sessions.get)

    async def load(self) -> None:
        """Load what is enabled and put the shell hooks in place; what cannot be is in `problems`."""
        self._take(await self.plugins.load())

    async def reload(self, ids: Sequence[str] = ()) -> tuple[str, ...]:
        """Unload and load again, these and those that need them, or all; the ids that are loaded now."""
        self._take(await self.plugins.reload(ids))
        return tuple(sorted(self.estate.loaded))

    def _take(self, faults: Sequence[str]) -> None:
        faults = [f"plugin {fault}" for fault in faults]
        self.problems = (*faults, *self.plugins.warnings(), *self._install_hooks())

    async def close(self) -> None:
        """Unload everything."""
        await self.plugins.close()

    def hooks(self) -> tuple[list[ShellHook], list[str]]:
        """(the shell hooks that are configured, what is wrong with others)."""
        found, problems = from_settings(self._settings().hooks)
        more, faults = from_hooks_json(hooks_file(self._home))
        return [*found, *more], [*problems, *faults]

    @property
    def consent(self) -> Consent:
        """Which of them may run."""
        return Consent(self._home, all=self._settings().hooks_auto_accept)

    def _install_hooks(self) -> list[str]:
        if self._settings().plugins.safe_mode:
            return []
        found, problems = self.hooks()
        waiting = install(
            found, self._registry, self.consent, cwd_of=self._cwd_of, environ=self._environment,
            profile=self.estate.profile,
        )  # fmt: skip
        for problem in (*problems, *waiting):
            log.warning("%s", self.estate.redact(problem))
        return [*problems, *waiting]

    def _cwd_of(self, session_id: str) -> str:
        live = self._sessions.live if self._sessions is not None else []
        return next((session.row.cwd for session in live if session.session_id == session_id), self._home)

    def _engine(self) -> Host:
        if self._host is None:
            raise Refused("the engine is not there yet", "Ask it from a hook or a command, not while registering.")
        return self._host
