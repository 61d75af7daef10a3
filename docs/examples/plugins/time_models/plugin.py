"""An execution middleware stands around the call. It calls `next_call` once, and gives its result back."""

import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from hermes_daemon.api import PluginContext


def register(ctx: PluginContext) -> None:
    took: dict[str, list[float]] = defaultdict(list)

    def timed(next_call: Callable[..., Any], model: str, **_: Any) -> Any:
        began = time.perf_counter()
        try:
            return next_call()
        finally:
            took[model].append(time.perf_counter() - began)

    def times(arguments: str) -> str:
        rows = [f"{model}: {len(each)} calls, {max(each):.2f} s at most" for model, each in sorted(took.items())]
        return "\n".join(rows) or "no model was called yet"

    ctx.register_middleware("llm_execution", timed)
    ctx.register_command("times", times, "how long model calls took")
