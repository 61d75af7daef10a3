"""shadow-gate: the service `shadow_gate`, the tool shadow_status, the command shadow-status."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from hermes_daemon.api import PluginContext, ToolOutcome

from .gate import ShadowGate
from .ledger import InvalidRow, Ledgers, LedgerUnavailable
from .policy import policies

SCHEMA = {
    "type": "object",
    "properties": {"decision": {"type": "string", "description": "One decision, such as area.decision; all without."}},
    "additionalProperties": False,
}
USAGE = "usage: hermes shadow-status [--decision NAME] [--json]"


def register(ctx: PluginContext) -> None:
    """Offer the gate. Refused for a policy that does not fit, naming decision and field."""
    demanded = policies(ctx.get_config("decisions") or {})
    folder = os.path.join(ctx.state.folder, "ledgers")
    ledgers = Ledgers(folder, ctx.get_config("max_rows_per_decision"), _now, ctx.redact)
    gate = ShadowGate(ledgers, demanded, ctx.log)
    ctx.offer_service("shadow_gate", gate)

    def tool(args: Mapping[str, Any]) -> ToolOutcome:
        found, faults = _found(gate, args.get("decision"))
        return ToolOutcome(msgspec.json.encode(_json(gate, found, faults)).decode(), is_error=bool(faults))

    def command(arguments: str) -> tuple[str, int]:
        try:
            decision, as_json = _parsed(shlex.split(arguments))
        except ValueError as error:
            return f"{error}\n{USAGE}", 2
        found, faults = _found(gate, decision)
        code = 2 if faults else 0
        if as_json:
            return msgspec.json.format(msgspec.json.encode(_json(gate, found, faults))).decode(), code
        lines = [_shown(each) for each in found] or ([] if faults else ["No decision has rows or a policy."])
        return "\n".join((*lines, *faults)), code

    ctx.register_tool(
        "shadow_status",
        tool,
        schema=SCHEMA,
        description="Evidence of shadow decisions: pairs of verdict and outcome, agreement, false positives, and "
        "whether the operator's policy is satisfied. It changes nothing.",
        read_only=True,
        kind="read",
    )
    ctx.register_cli_command("shadow-status", command, "Evidence of shadow decisions", "[--decision NAME] [--json]")


def _found(gate: ShadowGate, decision: str | None) -> tuple[list[dict[str, Any]], list[str]]:
    if decision is None:
        return gate.reports()
    try:
        return [gate.report(decision)], []
    except (InvalidRow, LedgerUnavailable) as error:
        return [], [str(error)]


def _json(gate: ShadowGate, found: list[dict[str, Any]], faults: list[str]) -> dict[str, Any]:
    return {"decisions": found, "ledger_unavailable": gate.ledger_unavailable, "problems": faults}


def _parsed(words: Sequence[str]) -> tuple[str | None, bool]:
    """(decision, as JSON). ValueError for words that are no arguments."""
    decision, as_json, rest = None, False, list(words)
    while rest:
        word = rest.pop(0)
        if word == "--json":
            as_json = True
        elif word.startswith("--decision="):
            decision = word.partition("=")[2]
        elif word == "--decision" and rest:
            decision = rest.pop(0)
        else:
            raise ValueError(f"{word}: expected --decision NAME or --json")
    return decision, as_json


def _shown(report: dict[str, Any]) -> str:
    def share(value: float | None) -> str:
        return "unknown" if value is None else f"{value:.1%}"

    unpaired = report["unpaired"]
    why = f" ({', '.join(report['reasons'])})" if report["reasons"] else ""
    notes = [f"{report[name]} {words}" for name, words in
             (("corrupt", "corrupt lines"), ("ledger_unavailable", "rows not kept")) if report[name]]  # fmt: skip
    return "\n".join(
        (
            f"{report['decision']}: {report['status']}{why}",
            f"  {report['pairs']} pairs, agreement {share(report['agreement'])}, "
            f"false positives {share(report['false_positive'])}",
            f"  unpaired: {unpaired['verdicts']} verdicts, {unpaired['outcomes']} outcomes"
            + (f"; {', '.join(notes)}" if notes else ""),
        )
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
