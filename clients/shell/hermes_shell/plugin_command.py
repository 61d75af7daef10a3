"""`hermes WORD …` for a word that no command of ours has: the command of a plugin."""

from __future__ import annotations

import shlex
import sys
from typing import Any

from hermes_local.address import Address
from hermes_local.connection import RpcError
from hermes_local.spawn import EXIT_NOT_RUNNING, DaemonUnavailable, connect, connect_or_start

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

Given = dict[str, Any]
NAME = "hermes"
REQUEST_S = 30.0
RUN_S = 3600.0


def run(address: Address, name: str, words: Sequence[str]) -> int | None:
    """Run the plugin's command and give its exit code; None when no plugin has one of that name.

    A daemon is started for it only where config.yaml speaks of plugins: a mistyped word starts nothing.
    """
    try:
        opened = connect_or_start(address, NAME) if _has_plugins(address) else connect(address, NAME)
    except DaemonUnavailable as error:
        if error.exit_code == EXIT_NOT_RUNNING:
            return None
        raise
    with opened as connection:
        try:
            rows = connection.request("hermes/command/list", {}, REQUEST_S)["commands"]
        except RpcError as error:
            if error.kind == "method_not_found":
                return None
            raise
        row = next((row for row in rows if row["kind"] == "cli" and row["name"] == name), None)
        if row is None:
            return None
        if words and words[0] in ("--help", "-h"):
            print(f"usage: hermes {name} {row.get('argsHint', '')}".rstrip())
            print(f"\n  {row.get('description', '') or 'a command'} (plugin {row.get('plugin', '')})")
            return 0
        params = {"name": name, "kind": "cli", "arguments": shlex.join(words)}
        done = connection.request("hermes/command/run", params, RUN_S)
    code = int(done.get("exitCode", 0))
    if done.get("text"):
        print(done["text"].rstrip("\n"), file=sys.stderr if code else sys.stdout)
    return code


def _has_plugins(address: Address) -> bool:
    import os

    path = os.environ.get("HERMES_CONFIG_PATH") or f"{address.home}/config.yaml"
    try:
        with open(path, "rb") as file:
            return b"plugins" in file.read()
    except OSError:
        return False
