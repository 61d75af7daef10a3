"""`hermes hooks`: commands that take part in turns, and which of them the user lets run."""

from __future__ import annotations

import json
import sys
from typing import Any

from hermes_local.address import Address
from hermes_local.spawn import EXIT_REFUSED, connect_or_start
from hermes_shell.failures import Failed
from hermes_shell.table import print_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

Given = dict[str, Any]
NAME = "hermes hooks"
REQUEST_S = 60.0


def show_list(given: Given, address: Address) -> int:
    """The hooks that are configured, numbered, and whether they may run."""
    with connect_or_start(address, NAME) as connection:
        found = connection.request("hermes/hook/list", {}, REQUEST_S)
    if given["json"]:
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return 0
    for problem in found.get("problems", ()):
        print(f"problem: {problem}", file=sys.stderr)
    rows = found["hooks"]
    if not rows:
        print("no hooks; see `hooks:` in config.yaml and hooks.json (docs/howto/hooks.md)")
        return 0
    table = [
        (number, row["event"], row.get("matcher", ""), f"{row.get('timeoutS', 60):g} s",
         "allowed" if row.get("allowed") else "waits", row["command"])
        for number, row in enumerate(rows, 1)
    ]  # fmt: skip
    print_table(("", "EVENT", "MATCHER", "LIMIT", "STATE", "COMMAND"), table)
    return 0


def allow(given: Given, address: Address) -> int:
    """Consent to hooks by number or command; without one to the only one that waits."""
    return _decide(given, address, allowed=True)


def revoke(given: Given, address: Address) -> int:
    """Take consent back."""
    return _decide(given, address, allowed=False)


def _decide(given: Given, address: Address, *, allowed: bool) -> int:
    with connect_or_start(address, NAME) as connection:
        rows = connection.request("hermes/hook/list", {}, REQUEST_S)["hooks"]
        open_rows = [row for row in rows if bool(row.get("allowed")) is not allowed]
        chosen = open_rows if given["all"] else _chosen(given["hook"], rows, open_rows, allowed=allowed)
        for row in chosen:
            params = {"event": row["event"], "command": row["command"], "allowed": allowed}
            rows = connection.request("hermes/hook/allow", params, REQUEST_S)["hooks"]
    for row in chosen:
        print(f"{'allowed' if allowed else 'revoked'}: {row['event']}: {row['command']}")
    taken = {(row["event"], row["command"]) for row in chosen}
    if not allowed and any(row.get("allowed") and (row["event"], row["command"]) in taken for row in rows):
        raise Failed("they run all the same: hooks_auto_accept or HERMES_ACCEPT_HOOKS allows every hook")
    if not chosen:
        print("nothing to do: " + ("no hook waits" if allowed else "no hook is allowed"))
    return 0


def _chosen(word: str | None, rows: Sequence[Given], open_rows: Sequence[Given], *, allowed: bool) -> list[Given]:
    """The hooks a word means: a number of the list, or the whole command."""
    if word is None:
        if len(open_rows) > 1:
            verb = "allow" if allowed else "revoke"
            lines = "\n".join(f"  {row['event']}: {row['command']}" for row in open_rows)
            raise Failed(f"which one? `hermes hooks list` numbers them; `hermes hooks {verb} NUMBER`\n{lines}", 2)
        return list(open_rows)
    if word.isdecimal() and 1 <= int(word) <= len(rows):
        return [rows[int(word) - 1]]
    found = [row for row in rows if row["command"] == word]
    if not found:
        raise Failed(f"no hook {word!r}: expected a number from `hermes hooks list`, or a whole command", EXIT_REFUSED)
    return found
