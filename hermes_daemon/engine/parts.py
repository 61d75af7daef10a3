"""What `assemble` joined, as the engine sees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from hermes_daemon.core.ports import Clock, Models, Store, Tools
from hermes_daemon.core.settings import Settings
from hermes_daemon.engine.resolved import Resolved
from hermes_daemon.middleware.registry import Registry


class Parts(msgspec.Struct, frozen=True):
    """`settings` gives the settings of now; `redact` takes secrets out of text; `environment` is what a session's
    programs start from (the daemon's own, allow-listed); `problems` are faults of the configuration and the
    database, told in the turns that run in spite of them; `fault` is one that lets no turn start, "" when there is
    none; `resolved` remembers the questions that ended."""

    store: Store
    models: Models
    tools: Tools
    clock: Clock
    settings: Callable[[], Settings]
    redact: Callable[[str], str]
    middleware: Registry
    environment: Mapping[str, str]
    fault: Callable[[], str] = str
    problems: Callable[[], tuple[str, ...]] = tuple
    resolved: Resolved = msgspec.field(default_factory=Resolved)
