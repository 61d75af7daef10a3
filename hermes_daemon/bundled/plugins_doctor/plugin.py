"""A look at the plugins of this home: what is wrong with them, and what is out of date. It repairs nothing."""

from __future__ import annotations

import asyncio
import os
import shlex
from typing import Any

from hermes_daemon.api import PluginContext

from .examination import Examination, as_json, as_table, failed
from .records import Records


def register(ctx: PluginContext) -> None:
    """The command, the service, and the record of what this process runs."""
    records = Records(os.path.join(ctx.data_folder, "loads"), ctx.get_config("stale_records_keep"))
    examination = Examination(ctx, records)

    async def recorded(**_: Any) -> None:
        await asyncio.to_thread(records.write, ctx.loaded_plugins())

    async def command(arguments: str) -> tuple[str, int]:
        words = shlex.split(arguments)
        if [word for word in words if word != "--json"]:
            return "usage: plugins-doctor [--json]", 2
        rows = await examination.rows()
        return as_json(rows) if words else as_table(rows), 1 if failed(rows) else 0

    ctx.subscribe("hermes:plugin_registered", recorded)
    ctx.subscribe("hermes:plugin_unregistered", recorded)
    ctx.register_cli_command("plugins-doctor", command, "What is wrong with the plugins; changes nothing.", "[--json]")
    ctx.offer_service("plugins_doctor", examination)
    ctx.on_unload(records.forget)
