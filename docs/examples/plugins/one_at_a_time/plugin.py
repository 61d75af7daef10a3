"""Style around: (payload, next, context). What stands before `next` happens before the tool runs, the rest after."""

import asyncio
from collections.abc import Awaitable, Callable

from hermes_daemon.api import Operation, PluginContext, PointContext, ToolOutcome


def register(ctx: PluginContext) -> None:
    turn = asyncio.Lock()

    async def alone(call: Operation, next: Callable[[], Awaitable[ToolOutcome]], context: PointContext) -> ToolOutcome:
        if call.name != "terminal":
            return await next()
        async with turn:
            return await next()

    ctx.on("tool_execution", alone)
