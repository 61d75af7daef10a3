"""What `assemble` joined, as the engine sees it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

import msgspec

from hermes_daemon.core.ports import Clock, Models, Store, Telemetry, Tools
from hermes_daemon.core.settings import Settings
from hermes_daemon.core.telemetry import Silent
from hermes_daemon.engine.resolved import Resolved
from hermes_daemon.middleware.faults import Faults
from hermes_daemon.middleware.queues import Queues
from hermes_daemon.middleware.registry import Registry

log = logging.getLogger(__name__)


class Parts(msgspec.Struct, frozen=True):
    """`settings` gives the settings of now; `redact` takes secrets out of text; `environment` is what a session's
    programs start from (the daemon's own, allow-listed); `problems` are faults of the configuration and the
    database, told in the turns that run in spite of them; `fault` is one that lets no turn start, "" when there is
    none; `resolved` remembers the questions that ended; `telemetry` takes what is measured; `faults` takes the
    failures of middleware, `queues` holds what its observers are still to be told; `sections` are the parts of the
    system prompt that plugins bring."""

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
    faults: Faults = msgspec.field(default_factory=lambda: Faults(log))
    queues: Queues = msgspec.field(default_factory=Queues)
    sections: Callable[[], tuple[str, ...]] = tuple
    telemetry: Telemetry = Silent()
