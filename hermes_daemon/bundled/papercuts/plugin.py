"""Papercuts: small annoyances, reported once and counted when they come again."""

from __future__ import annotations

from typing import Any

from hermes_daemon.api import PluginContext, Refused

from . import drafts
from .backlog import MIGRATIONS, Table
from .capture import Capture, Sink
from .command import USAGE, PapercutsCommand
from .command_backlog import Program
from .filing import Filing, Tally
from .tool import DESCRIPTION, SCHEMA, PapercutsTool, title

HOOK_SECONDS = 5.0


def register(ctx: PluginContext) -> None:
    """Nothing is opened here: the database is made with the first papercut."""
    auto_capture, gate_friction = ctx.get_config("auto_capture"), ctx.get_config("gate_friction")
    draft_rules = ctx.get_config("draft_rules")
    try:
        folder = drafts.folder_for(ctx.get_config("draft_rule_dir"), ctx.home)
    except ValueError as error:
        raise Refused(str(error)) from None
    binary = ctx.get_config("binary")
    filing = Filing(
        ctx.database("papercuts", MIGRATIONS),
        Program(binary) if binary else Table(),
        ctx.redact,
        ctx.get_config("daily_quota"),
    )
    tally = Tally()
    tool = PapercutsTool(
        filing,
        tally,
        draft_folder=folder if draft_rules else "",
        draft_after=ctx.get_config("draft_rule_after"),
        switches={"gate_friction": gate_friction, "auto_capture": auto_capture},
    )
    command = PapercutsCommand(tool)
    hint = USAGE.removeprefix("usage: papercuts ")
    ctx.register_tool("papercuts", tool.run, schema=SCHEMA, description=DESCRIPTION, title=title)
    ctx.register_cli_command("papercuts", command.run, "The small annoyances of this home.", hint)
    ctx.register_command("papercuts", command.run, "The small annoyances of this home.", hint)
    ctx.offer_service("papercuts.friction", Sink(filing, tally, ctx.log, on=gate_friction, auto_capture=auto_capture))
    capture = Capture(filing, tally, ctx.log, enabled=auto_capture)
    ctx.subscribe("loop_guard.block_delivered", capture.block_delivered)
    if auto_capture:
        ctx.on("post_tool_call", capture.tool_failed, wants=capture.wants, timeout=HOOK_SECONDS)
    if draft_rules:

        async def propose(**_: Any) -> None:
            await tool.write_drafts()

        ctx.register_hook("on_session_finalize", propose)
