"""`hermes usage`: what was spent, by model and task. A cost that is not known is shown as such, never as 0."""

from __future__ import annotations

import json
from typing import Any

from hermes_local.address import Address
from hermes_local.spawn import connect_or_start
from hermes_shell.session_ids import find
from hermes_shell.table import print_table

Given = dict[str, Any]
REQUEST_S = 30.0
HEADER = ("", "CALLS", "READ", "CACHED", "WRITTEN", "THOUGHT", "COST")


def run(given: Given, address: Address) -> int:
    """The sums of a session, or of all."""
    with connect_or_start(address, "hermes usage") as connection:
        params = {"sessionId": find(connection, given["session"])} if given["session"] else {}
        found = connection.request("hermes/usage/get", params, REQUEST_S)
    if given["json"]:
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return 0
    rows = []
    for title, part in (("model", "byModel"), ("task", "byTask")):
        rows += [_cells(f"{title} {row['name']}", row["calls"], row["usage"]) for row in found.get(part, ())]
    calls = sum(row["calls"] for row in found.get("byTask", ()))
    turns = found["turns"]
    rows.append(_cells(f"{turns} turn{'' if turns == 1 else 's'}", calls, found["usage"]))
    print_table(HEADER, rows)
    if found["usage"].get("costPartial"):
        print("\n+ = and what calls cost whose price is not known; prices are set under providers.NAME.models.")
    return 0


def _cells(name: str, calls: int, usage: dict[str, Any]) -> tuple[str, ...]:
    fields = ("inputTokens", "cacheReadTokens", "outputTokens", "reasoningTokens")
    return (name, str(calls), *(f"{usage.get(field, 0):,}" for field in fields), cost(usage))


def cost(usage: dict[str, Any]) -> str:
    """The dollars, with + where a part is not known; ? where nothing is."""
    if usage.get("cost") is None:
        return "?"
    return f"${usage['cost']:.4f}{'+' if usage.get('costPartial') else ''}"
