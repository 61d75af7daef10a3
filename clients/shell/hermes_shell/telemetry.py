"""`hermes daemon telemetry`: the counters, or the stream of what is measured, as lines or as JSON."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from hermes_local.address import Address
from hermes_local.connection import Connection, ConnectionLost
from hermes_local.spawn import connect
from hermes_shell.failures import Failed
from hermes_shell.session_ids import find

Given = dict[str, Any]
NAME = "hermes daemon telemetry"
METHOD = "telemetry/event"
REQUEST_S = 30.0
USAGE = 2


def run(given: Given, address: Address) -> int:
    """Print the counters once; with --follow every fact until the daemon goes or Ctrl-C."""
    session = given["session"]
    if not given["follow"]:
        if session:
            raise Failed("counters are of all sessions; `--follow` shows what is measured of one", USAGE)
        with connect(address, NAME) as connection:
            found = connection.request("hermes/daemon/metrics", {}, REQUEST_S)
        sys.stdout.write(json.dumps(found, ensure_ascii=False) + "\n" if given["json"] else found["text"])
        return 0
    level = "all" if session else "metrics"
    with connect(address, NAME, telemetry=level, detail="status", role="observer") as connection:
        if session:
            found = find(connection, session)
            connection.request("hermes/session/subscribe", {"sessionId": found, "tail": 0}, REQUEST_S)
        try:
            _follow(connection, as_json=bool(given["json"]))
        except ConnectionLost as lost:
            print(lost, file=sys.stderr)
    return 0


def _follow(connection: Connection, *, as_json: bool) -> None:
    while True:
        note = connection.notification()
        if note["method"] == METHOD:
            print(json.dumps(note["params"], ensure_ascii=False) if as_json else line(note["params"]), flush=True)


def line(told: Given, clock: str | None = None) -> str:
    """A fact on one line: when it came, its name, the turn or session it is about, and what it says."""
    at = clock if clock is not None else time.strftime("%H:%M:%S")
    about = told.get("turnId") or told.get("sessionId") or ""
    attrs = " ".join(f"{name}={_shown(value)}" for name, value in told.get("attrs", {}).items())
    return " ".join(part for part in (at, told.get("name", "?"), about, attrs) if part)


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    text = str(value)
    return json.dumps(text, ensure_ascii=False) if not text or any(letter in text for letter in ' "=\n') else text
