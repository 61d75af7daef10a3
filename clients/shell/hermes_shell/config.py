"""`hermes config`: get asks the daemon; set, path and validate run `hermes-daemon config`, which owns the file."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from hermes_local import locks
from hermes_local.address import Address
from hermes_local.spawn import connect_or_start

Given = dict[str, Any]
REQUEST_S = 30.0


def get(given: Given, address: Address) -> int:
    """A value as JSON, a text as it is; where it comes from on standard error when that is a terminal."""
    with connect_or_start(address, "hermes config") as connection:
        found = connection.request("hermes/config/get", {"path": given["key"] or ""}, REQUEST_S)
    value = found["value"]
    print(value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False))
    if sys.stderr.isatty():
        print(f"({found['source']})", file=sys.stderr)
    return 0


def set_value(given: Given, address: Address) -> int:
    """Change config.yaml; a running daemon is asked to read it."""
    code = run_daemon_command(address, "config", "set", given["key"], given["value"])
    if code == 0 and locks.is_locked(address.lock_path):
        from hermes_shell.daemon import reload

        return reload(given, address)
    return code


def path(given: Given, address: Address) -> int:
    """Where config.yaml is."""
    return run_daemon_command(address, "config", "path")


def validate(given: Given, address: Address) -> int:
    """Check config.yaml: path, line and what was expected for everything wrong."""
    return run_daemon_command(address, "config", "validate")


def run_daemon_command(address: Address, *words: str) -> int:
    """Run `hermes-daemon WORDS` for this address on our terminal; its exit code."""
    sys.stdout.flush()
    environ = {**os.environ, **address.environ()}
    return os.spawnve(os.P_WAIT, sys.executable, [sys.executable, "-P", "-m", "hermes_daemon", *words], environ)  # noqa: S606
