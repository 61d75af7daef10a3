"""classifier-core: the service `classifier_core`, the tool classifier_status, the command classifier-status."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping
from typing import Any

import msgspec

from hermes_daemon.api import PluginContext, ToolOutcome

from .client import ClassifierClient, Settings
from .status import shown, status

SCHEMA = {
    "type": "object",
    "properties": {"probe": {"type": "boolean", "description": "Also ask the service for its health now."}},
    "additionalProperties": False,
}
USAGE = "usage: hermes classifier-status [--probe] [--json]"


def register(ctx: PluginContext) -> None:
    """Offer the client. Nothing is sent."""
    settings = msgspec.convert({name: ctx.get_config(name) for name in Settings.__struct_fields__}, Settings)
    client = ClassifierClient(settings, ctx.http, ctx.secret, time.monotonic, ctx.log)
    ctx.offer_service("classifier_core", client)

    async def tool(args: Mapping[str, Any]) -> ToolOutcome:
        found = await status(client, probe=bool(args.get("probe")))
        return ToolOutcome(msgspec.json.encode(found).decode())

    async def command(arguments: str) -> tuple[str, int]:
        words = shlex.split(arguments)
        if set(words) - {"--probe", "--json"}:
            return USAGE, 2
        found = await status(client, probe="--probe" in words)
        data = msgspec.json.format(msgspec.json.encode(found)).decode()
        return data if "--json" in words else shown(found), 0 if client.healthy else 1

    ctx.register_tool(
        "classifier_status",
        tool,
        schema=SCHEMA,
        description="State of the shared classifier: breaker, failures in a row, and for each caller how many calls "
        "were accepted and why others were declined.",
        read_only=True,
        kind="read",
    )
    ctx.register_cli_command("classifier-status", command, "State of the shared classifier", "[--probe] [--json]")
