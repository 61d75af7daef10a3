"""Style transform: (value, context) gives a new value, or None for no change. The next link sees what this one gave."""

from hermes_daemon.api import PluginContext, PointContext


def register(ctx: PluginContext) -> None:
    def quiet(text: str, context: PointContext) -> str | None:
        return text.replace("!", ".") if "!" in text else None

    ctx.on("output", quiet)
