"""`hermes attach`: join a session that somebody, or only the daemon, works in."""

from __future__ import annotations

import os
import sys
from typing import Any

from hermes_local.address import Address
from hermes_local.spawn import EXIT_REFUSED, connect, connect_or_start
from hermes_shell.failures import Failed
from hermes_shell.options import ChatOptions
from hermes_shell.session_ids import all_rows, find
from hermes_shell.table import plain
from hermes_shell.times import ago

Row = dict[str, Any]
NAME = "hermes attach"


def run(given: dict[str, Any], address: Address) -> int:
    """Open the interactive client on a session: the one named, the one that runs here, or one picked from a list."""
    if not sys.stdin.isatty() or not sys.stdout.isatty():
        raise Failed("attach needs a terminal; for scripts: `hermes sessions events SESSION --follow`", 2)
    if given["session"]:
        with connect_or_start(address, NAME) as connection:
            session_id = find(connection, given["session"])
    else:
        session_id = _live_one(address)
    from hermes_shell.interactive import main as interactive

    return interactive.run(ChatOptions(session=session_id, profile=address.profile or "default"))


def _live_one(address: Address) -> str:
    with connect(address, NAME) as connection:
        rows = live(all_rows(connection))
    if not rows:
        raise Failed("no session is live: `hermes attach SESSION` opens one, `hermes chat` begins one", EXIT_REFUSED)
    here = running_in(rows, os.path.realpath("."))
    return here or _picked(rows)


def live(rows: list[Any]) -> list[Row]:
    """Those that run, ask something, or have somebody attached; questions first, then what runs."""
    found = [row for row in rows if row.get("state", "idle") != "idle" or row.get("clients") or row.get("openRequests")]
    return sorted(found, key=lambda row: (not row.get("openRequests"), row.get("state", "idle") == "idle"))


def running_in(rows: list[Row], cwd: str) -> str:
    """The id of the only one that runs in this folder, "" where it is none or several."""
    running = [row for row in rows if row.get("state", "idle") != "idle" and row.get("cwd") == cwd]
    return str(running[0]["sessionId"]) if len(running) == 1 else ""


def _picked(rows: list[Row]) -> str:
    for number, row in enumerate(rows, 1):
        asks = ", asks" * bool(row.get("openRequests"))
        there = f", {row['clients']} attached" if row.get("clients") else ""
        told = f"{row.get('state', 'idle')}{asks}{there}, {ago(row.get('updatedAt', ''))}"
        print(f"{number:>3}  {plain(row.get('title') or '(no title)')[:50]}  {told}  {row.get('cwd', '')}")
    while True:
        print(f"which one, 1 to {len(rows)}? ", end="", flush=True)
        line = sys.stdin.readline()
        if not line.strip():
            raise Failed("no session was picked", EXIT_REFUSED)
        if line.strip().isdecimal() and 0 < int(line) <= len(rows):
            return str(rows[int(line) - 1]["sessionId"])
