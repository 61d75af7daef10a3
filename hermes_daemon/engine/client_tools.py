"""Tools that clients run for a session: registered by a connection, called by a request that only it may answer.

They are gone with the connection, or when it stops following the session.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import msgspec

from hermes_daemon.core.ports import Rejected, ToolCard, ToolContext, ToolOutcome, Tools
from hermes_daemon.engine.answers import Resolution
from hermes_daemon.engine.call_context import CallContext
from hermes_daemon.engine.shown import clip
from hermes_protocol.methods import ClientTool

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
MOST_TOOLS: Final = 128
LONGEST_CALL_MS: Final = 3_600_000


class RemoteTool:
    """ports.Tool over a connection. `client` is the name people know it by."""

    def __init__(self, offer: ClientTool, connection_id: str, client: str) -> None:
        self.connection_id, self.client = connection_id, client
        self._timeout_s = offer.timeout_ms / 1000
        schema = {"type": "object", "properties": {}} | offer.parameters
        self._card = ToolCard(offer.name, "client", offer.description, schema, read_only=offer.read_only)

    @property
    def card(self) -> ToolCard:
        """What a model and a client are told."""
        return self._card

    def title(self, args: Mapping[str, Any]) -> str:
        """One line for people."""
        return f"{self._card.name} in {self.client}"

    async def run(self, args: dict[str, Any], ctx: ToolContext) -> ToolOutcome:
        """Ask the connection to run it. Time-out, decline and a client that is gone are failed outcomes."""
        call = cast(CallContext, ctx)  # tools of clients are the engine's own, and run in its contexts only
        resolution = await call.call_client(self._card.name, args, self.connection_id, self._timeout_s)
        if resolution.outcome != "answered":
            return ToolOutcome(self._failure(resolution), is_error=True)
        if resolution.error is not None:
            return _capped(f"Error: {resolution.error}", call, is_error=True)
        result = resolution.result
        return _capped(result if isinstance(result, str) else msgspec.json.encode(result).decode(), call)

    def _failure(self, resolution: Resolution) -> str:
        name = self._card.name
        match resolution.outcome:
            case "lost":
                return f"Error: {name}: the client that ran it is gone; whether it had any effect is unknown."
            case "timeout":
                return f"Error: {name}: {self.client} gave no result within {self._timeout_s:g} s; it may still run."
        return f"Error: {name}: {self.client} will not run it."


class ClientTools:
    """What the connections of one session offer."""

    def __init__(self, tools: Tools) -> None:
        self._installed = tools
        self._offers: dict[str, tuple[RemoteTool, ...]] = {}

    def all(self) -> Sequence[RemoteTool]:
        """Every tool, those of the first to register first."""
        return tuple(tool for offer in self._offers.values() for tool in offer)

    def register(self, connection_id: str, client: str, offers: Sequence[ClientTool]) -> tuple[str, ...]:
        """Take this in place of what the connection offered before. Gives the names. Rejected names what does not
        fit; then everything stays as it was."""
        if len(offers) > MOST_TOOLS:
            raise Rejected(f"a connection may offer at most {MOST_TOOLS} tools, got {len(offers)}", "$.tools")
        others = {tool.card.name: tool.client for tool in self.all() if tool.connection_id != connection_id}
        names: set[str] = set()
        for index, offer in enumerate(offers):
            path = f"$.tools[{index}]"
            if not NAME.fullmatch(offer.name):
                raise Rejected(f"expected letters, digits, _ and -, at most 64; got {offer.name!r}", f"{path}.name")
            if self._installed.get(offer.name) is not None:
                raise Rejected(f"{offer.name!r} is a tool of the daemon: choose another name", f"{path}.name")
            if offer.name in others:
                raise Rejected(f"{others[offer.name]} offers a tool {offer.name!r} already", f"{path}.name")
            if offer.name in names:
                raise Rejected(f"two tools are called {offer.name!r}", f"{path}.name")
            if offer.parameters.get("type", "object") != "object":
                raise Rejected("expected a JSON Schema of type object", f"{path}.parameters.type")
            if not isinstance(offer.parameters.get("properties", {}), dict):
                raise Rejected("expected an object of schemas by name", f"{path}.parameters.properties")
            if not 1 <= offer.timeout_ms <= LONGEST_CALL_MS:
                raise Rejected(f"expected 1 to {LONGEST_CALL_MS}, got {offer.timeout_ms}", f"{path}.timeoutMs")
            names.add(offer.name)
        self._offers.pop(connection_id, None)
        if offers:
            self._offers[connection_id] = tuple(RemoteTool(offer, connection_id, client) for offer in offers)
        return tuple(offer.name for offer in offers)

    def leave(self, connection_id: str) -> None:
        """The connection does not follow the session any more."""
        self._offers.pop(connection_id, None)


def _capped(text: str, call: CallContext, *, is_error: bool = False) -> ToolOutcome:
    """Redacted before it is cut: half a secret is not recognised as one."""
    whole = call.redact(text)
    limit = call.settings.tool_output.max_bytes
    if len(whole) <= limit:
        return ToolOutcome(whole or "(no result)", is_error=is_error)
    head, tail = clip(whole, limit)
    return ToolOutcome(f"{head}\n[… {len(whole) - limit} characters left out …]\n{tail}", is_error, shown=whole)
