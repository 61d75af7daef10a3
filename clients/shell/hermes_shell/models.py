"""`hermes models` and `hermes model`: who can answer, and who does when nobody says otherwise."""

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
HEADER = ("", "MODEL", "WINDOW", "OUTPUT", "CAN", "EFFORTS", "$/M IN/OUT", "STATE", "NOTE")


def models(given: Given, address: Address) -> int:
    """The models; `*` marks the default."""
    with connect_or_start(address, "hermes models") as connection:
        found = connection.request("hermes/models/list", {"probe": bool(given["probe"])}, REQUEST_S)
    if given["json"]:
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return 0
    print_table(HEADER, [_cells(row, found["default"]) for row in found["models"]])
    noted = sorted({row.get("priceFrom", "") for row in found["models"]} - {"", "settings", "endpoint"})
    if noted:
        print(f"\nPrices marked ~ are {' and '.join(noted)} and may have changed; those in config.yaml win.")
    return 0


def _cells(row: dict[str, Any], default: str) -> tuple[str, ...]:
    can = [word for word in ("tools", "vision", "reasoning", "cache") if row.get(word, word == "tools")]
    return (
        "*" if row.get("default") or row["id"] == default else "",
        row["id"],
        size(row.get("contextLength")),
        size(row.get("maxOutput")),
        ",".join(can) or "text",
        ",".join(row["efforts"]) if row.get("efforts") else "?",
        _price(row),
        row.get("state", "ready"),
        row.get("note", ""),
    )


def size(tokens: int | None) -> str:
    """Tokens as people write them: 4096, 128k, 1.05M; ? where nobody knows."""
    if not tokens:
        return "?"
    if tokens < 10_000:
        return str(tokens)
    return f"{round(tokens / 1000)}k" if tokens < 1_000_000 else f"{tokens / 1e6:.3g}M"


def _price(row: dict[str, Any]) -> str:
    if row.get("inputPrice") is None or row.get("outputPrice") is None:
        return "?"
    mark = "~" if row.get("priceFrom", "").startswith("bundled") else ""
    return f"{mark}{row['inputPrice']:g}/{row['outputPrice']:g}"


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
