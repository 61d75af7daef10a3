"""`hermes tools` and `hermes models`: what the agent can use and who can answer."""

from __future__ import annotations

import json
from typing import Any

from hermes_local.address import Address
from hermes_local.spawn import EXIT_REFUSED, connect_or_start
from hermes_shell.config import run_daemon_command, set_value
from hermes_shell.failures import Failed
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


def models(given: Given, address: Address) -> int:
    """The models; `*` marks the default."""
    with connect_or_start(address, "hermes models") as connection:
        found = connection.request("hermes/models/list", {"probe": bool(given["probe"])}, REQUEST_S)
    if given["json"]:
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return 0
    rows = []
    for row in found["models"]:
        default = "*" if row.get("default") or row["id"] == found["default"] else ""
        tool_calls = "yes" if row.get("tools", True) else "no"
        window = row.get("contextLength") or "?"
        rows.append((default, row["id"], window, tool_calls, row.get("state", "ready"), row.get("note", "")))
    print_table(("", "MODEL", "WINDOW", "TOOLS", "STATE", "NOTE"), rows)
    return 0


def model(given: Given, address: Address) -> int:
    """The default model's id; with MODEL, write that one to config.yaml if the daemon knows its provider."""
    with connect_or_start(address, "hermes model") as connection:
        found = connection.request("hermes/models/list", {}, REQUEST_S)
    wanted = given["model"]
    if wanted is None:
        print(found["default"])
        return 0
    providers = sorted({row["provider"] for row in found["models"]})
    if wanted.partition("/")[0] not in providers or "/" not in wanted:
        raise Failed(
            f"no model {wanted!r}: expected PROVIDER/NAME with a provider of {', '.join(providers)}; "
            "`hermes models list` shows the models",
            EXIT_REFUSED,
        )
    return set_value({"key": "model.default", "value": wanted}, address)


def pull(given: Given, address: Address) -> int:
    """Fetch a model."""
    return run_daemon_command(address, "models", "pull", given["model"])


def remove(given: Given, address: Address) -> int:
    """Remove a fetched model."""
    return run_daemon_command(address, "models", "rm", given["model"])
