"""Around a tool's run: the result of `next_call` is its text, and what is given back is what the model reads."""

import time
from collections.abc import Callable
from typing import Any

from hermes_daemon.api import PluginContext


def register(ctx: PluginContext) -> None:
    def annotated(next_call: Callable[..., Any], tool_name: str) -> Any:
        if tool_name not in ctx.get_config("tools"):
            return next_call()
        began = time.perf_counter()
        result = next_call()
        return f"{result}\n[{tool_name} took {time.perf_counter() - began:.1f} s]"

    ctx.register_middleware("tool_execution", annotated)
