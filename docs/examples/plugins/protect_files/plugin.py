"""Style decide: a Directive or None. All are asked, the strictest wins: block before approve before modify."""

import fnmatch
import os

from hermes_daemon.api import Directive, Operation, PluginContext, PointContext


def register(ctx: PluginContext) -> None:
    def protect(call: Operation, context: PointContext) -> Directive | None:
        if call.name not in ("write_file", "patch"):
            return None
        name = os.path.basename(str(call.args.get("path", "")))
        for pattern in ctx.get_config("patterns"):
            if fnmatch.fnmatch(name, pattern):
                return Directive("block", f"{name} is protected ({pattern}); ask the user to change it")
        return None

    ctx.on("pre_tool_call", protect)
