"""hermes/plugin/*, hermes/hook/* and hermes/command/*."""

from __future__ import annotations

from typing import Any

import msgspec

from hermes_daemon.middleware.payloads import Command, PointContext
from hermes_daemon.middleware.styles import decide
from hermes_daemon.plugins.commanding import called
from hermes_daemon.server.connection import Connection
from hermes_daemon.server.guests import Guests
from hermes_daemon.server.native.sessions import writable
from hermes_protocol.errors import ProtocolError
from hermes_protocol.methods import (
    CommandListResult,
    CommandRow,
    CommandRunParams,
    CommandRunResult,
    Empty,
    HookAllowParams,
    HookListResult,
    HookRow,
    PluginListResult,
    PluginRow,
)


async def plugins(connection: Connection, params: Empty) -> PluginListResult:
    """Every plugin that was found."""
    rows = _guests(connection).plugins.rows()
    return PluginListResult(tuple(msgspec.convert(row, PluginRow, from_attributes=True) for row in rows))


async def hooks(connection: Connection, params: Empty) -> HookListResult:
    """Every shell hook that is configured."""
    return _hook_rows(_guests(connection))


async def allow_hook(connection: Connection, params: HookAllowParams) -> HookListResult:
    """Consent to a hook, or take the consent back; it holds at once."""
    writable(connection)
    guests = _guests(connection)
    found, _ = guests.hooks()
    if not any((hook.event, hook.command) == (params.event, params.command) for hook in found):
        text = f"$.command: no hook for {params.event} is {params.command!r}"
        raise ProtocolError("invalid_params", text, path="$.command")
    change = guests.consent.give if params.allowed else guests.consent.withdraw
    change(params.event, params.command)
    await guests.load()
    return _hook_rows(guests)


def _hook_rows(guests: Guests) -> HookListResult:
    found, problems = guests.hooks()
    consent = guests.consent
    rows = tuple(
        HookRow(hook.event, hook.command, hook.matcher, hook.timeout, consent.given(hook.event, hook.command))
        for hook in found
    )
    return HookListResult(rows, tuple(problems))


async def commands(connection: Connection, params: Empty) -> CommandListResult:
    """Every command of the plugins."""
    rows = _guests(connection).estate.commands
    return CommandListResult(
        tuple(CommandRow(row.name, row.kind, row.description, row.args_hint, row.owner) for row in rows)
    )


async def run_command(connection: Connection, params: CommandRunParams) -> CommandRunResult:
    """Run one. What it raises is its failure, not the daemon's."""
    writable(connection)
    guests = _guests(connection)
    if params.session_id is not None:
        connection.daemon.engine.sessions.get(params.session_id)
    row = guests.estate.command(params.kind, params.name.lstrip("/"))
    if row is None:
        known = ", ".join(each.name for each in guests.estate.commands if each.kind == params.kind) or "none"
        text = f"$.name: no plugin has a command {params.name!r}; there are: {known}"
        raise ProtocolError("invalid_params", text, path="$.name")
    await _expect_leave(connection, params)
    given = {"session_id": params.session_id or "", "client": connection.by().name}
    try:
        value = await called(guests.estate.workers, row.handler, params.arguments, given)
    except Exception as error:  # a plugin's code: its failure is the command's
        text = guests.estate.redact(f"{row.owner}: {type(error).__name__}: {error}")
        return CommandRunResult(text, 1)
    return _result(value)


async def _expect_leave(connection: Connection, params: CommandRunParams) -> None:
    """permission_denied when a policy stops the command."""
    engine = connection.daemon.engine
    links = engine.parts.middleware.snapshot("pre_command")
    if not links:
        return
    context = PointContext(session_id=params.session_id or "", platform=connection.by().name)
    payload = Command(params.name.lstrip("/"), params.arguments)
    decision = await decide(links, payload, context, engine.parts.faults.report)
    if decision is not None and decision.action == "block":
        raise ProtocolError("permission_denied", f"{decision.owner}: {decision.message}")


def _result(value: Any) -> CommandRunResult:
    """Text, (text, exit code), or a JSON value."""
    if value is None:
        return CommandRunResult("")
    if isinstance(value, str):
        return CommandRunResult(value)
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], int):
        return CommandRunResult(str(value[0]), value[1])
    data = msgspec.to_builtins(value, enc_hook=repr)
    return CommandRunResult(msgspec.json.format(msgspec.json.encode(data)).decode(), 0, data)


def _guests(connection: Connection) -> Guests:
    return connection.daemon.engine.guests
