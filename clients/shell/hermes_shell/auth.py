"""`hermes auth`: the keys of providers. A key is never on a command line, where others can read it, and never shown."""

from __future__ import annotations

import json
import sys
from typing import Any

from hermes_local.address import Address
from hermes_local.spawn import connect_or_start
from hermes_shell.failures import Failed
from hermes_shell.table import print_table

Given = dict[str, Any]
REQUEST_S = 60.0
EXIT_FAILED = 1
EXIT_USAGE = 2


def show_list(given: Given, address: Address) -> int:
    """Where keys are looked for; on a terminal those that are missing come last."""
    with connect_or_start(address, "hermes auth") as connection:
        rows = connection.request("hermes/auth/list", {}, REQUEST_S)["keys"]
    if given["json"]:
        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return 0
    rows.sort(key=lambda row: row["state"] == "missing")
    print_table(
        ("PROVIDER", "KEY IN", "STATE", "NOTE"),
        [(row["provider"], row["source"] or "-", row["state"], row.get("note", "")) for row in rows],
    )
    return 0


def set_key(given: Given, address: Address) -> int:
    """Keep a key, or take it out."""
    provider = given["provider"]
    value = None if given["remove"] else _key(provider)
    params = {"provider": provider, "value": value, "store": "keyring" if given["keyring"] else "env"}
    with connect_or_start(address, "hermes auth") as connection:
        kept = connection.request("hermes/auth/set", params, REQUEST_S)
    done = "is kept in" if value is not None else "was taken out of"
    print(f"The key of {provider} {done} {kept['where']}.")
    for warning in kept.get("warnings", ()):
        print(f"hermes: {warning}", file=sys.stderr)
    if value is not None:
        print(f"`hermes auth test {provider}` tries it.")
    return 0


def test(given: Given, address: Address) -> int:
    """Try keys; the exit code is 1 when one of them does not work."""
    params = {"provider": given["provider"]} if given["provider"] else {}
    with connect_or_start(address, "hermes auth") as connection:
        rows = connection.request("hermes/auth/test", params, REQUEST_S)["tests"]
    if given["json"]:
        print(json.dumps(rows, indent=2, ensure_ascii=False))
    elif not rows:
        print("No provider has a key; `hermes auth set PROVIDER` keeps one.")
    else:
        print_table(
            ("PROVIDER", "KEY IN", "WORKS", "WHAT IT SAID"),
            [
                (row["provider"], row["source"] or "-", "yes" if row["ok"] else row["kind"], row["message"])
                for row in rows
            ],
        )
    return 0 if rows and all(row["ok"] for row in rows) else EXIT_FAILED


def _key(provider: str) -> str:
    """From the terminal without echo, or one line of standard input."""
    if sys.stdin.isatty():
        import getpass

        value = getpass.getpass(f"Key of {provider}: ")
    else:
        value = sys.stdin.read()
    value = value.strip()
    if not value:
        raise Failed("no key was given; --remove takes one out", EXIT_USAGE)
    return value
