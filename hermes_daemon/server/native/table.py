"""Method names to handlers. The start fails if either half of a method is missing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from hermes_daemon.server.native import daemon, models, plugins, sessions, turns
from hermes_protocol.methods import METHODS

Handler: TypeAlias = Callable[[Any, Any], Awaitable[Any]]

HANDLERS: dict[str, Handler] = {
    "hermes/daemon/logs": daemon.logs,
    "hermes/daemon/metrics": daemon.get_metrics,
    "hermes/daemon/reload": daemon.reload,
    "hermes/schema/get": daemon.get_schema,
    "hermes/session/create": sessions.create,
    "hermes/session/list": sessions.list_,
    "hermes/session/get": sessions.get,
    "hermes/session/subscribe": sessions.subscribe,
    "hermes/session/unsubscribe": sessions.unsubscribe,
    "hermes/session/items": sessions.items,
    "hermes/session/wait": sessions.wait,
    "hermes/session/setOption": sessions.set_option,
    "hermes/session/rename": sessions.rename,
    "hermes/session/archive": sessions.archive,
    "hermes/session/events": sessions.events,
    "hermes/session/fork": sessions.fork,
    "hermes/session/rewind": sessions.rewind,
    "hermes/session/delete": sessions.delete,
    "hermes/session/search": sessions.search,
    "hermes/session/register": turns.register,
    "hermes/usage/get": sessions.usage,
    "hermes/turn/submit": turns.submit,
    "hermes/turn/steer": turns.steer,
    "hermes/turn/interrupt": turns.interrupt,
    "hermes/queue/list": turns.queue,
    "hermes/queue/update": turns.update_queued,
    "hermes/queue/reorder": turns.reorder_queue,
    "hermes/queue/remove": turns.remove_queued,
    "hermes/queue/resume": turns.resume_queue,
    "hermes/request/list": turns.requests,
    "hermes/request/answer": turns.answer,
    "hermes/tool/list": daemon.tools,
    "hermes/plugin/list": plugins.plugins,
    "hermes/plugin/doctor": plugins.doctor,
    "hermes/hook/list": plugins.hooks,
    "hermes/hook/allow": plugins.allow_hook,
    "hermes/command/list": plugins.commands,
    "hermes/command/run": plugins.run_command,
    "hermes/middleware/list": daemon.middleware,
    "hermes/models/list": models.models,
    "hermes/auth/list": models.keys,
    "hermes/auth/test": models.test_keys,
    "hermes/auth/set": models.set_key,
    "hermes/config/get": daemon.config_get,
    "hermes/config/set": daemon.config_set,
    "hermes/blob/create": daemon.blob_create,
    "hermes/blob/read": daemon.blob_read,
}


def check(served_at_once: set[str]) -> None:
    """RuntimeError naming the methods that have a row and no handler, or a handler and no row."""
    served = set(HANDLERS) | served_at_once
    missing, extra = set(METHODS) - served, served - set(METHODS)
    if missing or extra:
        raise RuntimeError(f"methods without handler: {sorted(missing)}; handlers without row: {sorted(extra)}")
