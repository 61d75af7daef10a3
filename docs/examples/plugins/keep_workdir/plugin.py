"""A tool middleware sees the arguments before policy and approval: people are asked about what will really run."""

import os
from typing import Any

from hermes_daemon.api import PluginContext


def register(ctx: PluginContext) -> None:
    root = os.path.realpath(os.path.expanduser(ctx.get_config("root")))

    def keep_inside(tool_name: str, args: dict[str, Any]) -> dict[str, Any] | None:
        if tool_name != "terminal":
            return None
        wanted = os.path.realpath(os.path.join(root, args.get("workdir") or root))
        inside = wanted if os.path.commonpath([wanted, root]) == root else root
        return {"args": {**args, "workdir": inside}, "source": ctx.plugin_id, "reason": f"kept inside {root}"}

    ctx.register_middleware("tool_request", keep_inside)
