"""`hermes tools`: what the agent can use."""

from __future__ import annotations

import json
from typing import Any

from hermes_local.address import Address
from hermes_local.spawn import connect_or_start
from hermes_shell.table import print_table

Given = dict[str, Any]
REQUEST_S = 30.0


def tools(given: Given, address: Address) -> int:
    """The tools, by toolset."""
    with connect_or_start(address, "hermes tools") as connection:
        rows = connection.request("hermes/tool/list", {}, REQUEST_S)["tools"]
    if given["json"]:
        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return 0
    table = []
    for row in sorted(rows, key=lambda row: (row["toolset"], row["name"])):
        state = row["state"] + (f": {row['lastError']}" if row.get("lastError") else "")
        asks = "no" if row.get("readOnly") else "yes"
        table.append((row["name"], row["toolset"], asks, state, row["description"].split("\n")[0]))
    print_table(("TOOL", "TOOLSET", "ASKS", "STATE", "WHAT IT DOES"), table)
    return 0
