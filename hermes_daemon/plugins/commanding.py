"""Calling the handler of a plugin's command."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from hermes_daemon.middleware.workers import Workers


async def called(workers: Workers, handler: Callable[..., Any], arguments: str, given: Mapping[str, Any]) -> Any:
    """What `handler(arguments, **given)` gives back; only the keywords it declares are passed. A handler that is not
    async runs in a thread."""
    parameters = inspect.signature(handler).parameters
    takes_any = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
    extra = {name: value for name, value in given.items() if takes_any or name in parameters}
    if inspect.iscoroutinefunction(handler):
        return await handler(arguments, **extra)
    value = await workers.run(lambda: handler(arguments, **extra))
    return await value if inspect.isawaitable(value) else value
