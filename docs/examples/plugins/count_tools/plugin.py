"""Style observe: told after the fact, what it gives back is ignored. `ctx.state` survives the daemon."""

from hermes_daemon.api import PluginContext, PointContext, ToolDone


def register(ctx: PluginContext) -> None:
    def count(done: ToolDone, context: PointContext) -> None:
        key = f"{done.tool_name}/{done.status}"
        ctx.state.set(key, ctx.state.get(key, 0) + 1)

    def counts(arguments: str) -> tuple[str, int]:
        rows = [f"{key} {ctx.state.get(key)}" for key in sorted(ctx.state.keys())]
        return "\n".join(rows) or "no tool was called yet", 0 if rows else 1

    ctx.on("post_tool_call", count)
    ctx.register_cli_command("tool-counts", counts, "how often each tool was called")
