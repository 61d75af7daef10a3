"""`hermes say` puts a text into a session; `hermes approve` answers what a session asks."""

from __future__ import annotations

import json
import sys
from typing import Any

from hermes_local.address import Address
from hermes_local.connection import new_id
from hermes_local.spawn import EXIT_REFUSED, connect, connect_or_start
from hermes_shell.failures import Failed
from hermes_shell.session_ids import REQUEST_S, find
from hermes_shell.table import print_table
from hermes_shell.times import ago

Given = dict[str, Any]
KINDS = ("permission",)


def say(given: Given, address: Address) -> int:
    """Submit a text; what became of it on standard output."""
    with connect_or_start(address, "hermes say") as connection:
        session_id = find(connection, given["session"])
        params: Given = {
            "sessionId": session_id,
            "input": [{"type": "text", "text": " ".join(given["text"])}],
            "key": new_id(),
            "whenBusy": given["when_busy"] or "queue",
        }
        receipt = connection.request("hermes/turn/submit", params, REQUEST_S)
    print(f"{receipt['disposition']}: turn {receipt['turnId']}")
    return 0


def approve(given: Given, address: Address) -> int:
    """Answer a permission request with one of its options; without REQUEST, list the open ones."""
    with connect(address, "hermes approve", requests=KINDS) as connection:
        rows = connection.request("hermes/request/list", {}, REQUEST_S)["requests"]
        if given["request"] is None:
            return _show(rows, as_json=bool(given["json"]))
        asked = _request(rows, given["request"])
        option = _option(asked, given["option"])
        # Only who is subscribed to the session may answer (protocol section 8).
        connection.request("hermes/session/subscribe", {"sessionId": asked["sessionId"]}, REQUEST_S)
        answer: Given = {"optionId": option["id"]}
        if given["feedback"]:
            answer["feedback"] = given["feedback"]
        params = {"requestId": asked["requestId"], "answer": answer, "key": new_id()}
        result = connection.request("hermes/request/answer", params, REQUEST_S)
    print(result.get("outcome") or option["kind"])
    return 0


def _show(rows: list[Given], *, as_json: bool) -> int:
    if as_json:
        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return 0
    if not rows:
        print("nothing is waiting for an answer", file=sys.stderr)
        return 0
    table = []
    for row in rows:
        call = row.get("toolCall") or {}
        what = f"{call['name']}: {call.get('title') or call.get('args', '')}" if call else row.get("prompt") or ""
        options = " ".join(option["id"] for option in row.get("options", ()))
        table.append((row["requestId"], row["sessionId"], row["kind"], ago(row.get("openedAt", "")), options, what))
    print_table(("REQUEST", "SESSION", "KIND", "ASKED", "OPTIONS", "WHAT"), table)
    return 0


def _request(rows: list[Given], text: str) -> Given:
    found = [row for row in rows if row["requestId"].startswith(text)]
    exact = [row for row in found if row["requestId"] == text]
    if len(exact or found) != 1:
        what = "is open" if not found else "is meant: give more of its id"
        raise Failed(f"no single request {text!r} {what}; `hermes approve` lists them", EXIT_REFUSED)
    return (exact or found)[0]


def _option(asked: Given, text: str | None) -> Given:
    """The option meant by its id, its kind (`allow_once`) or the end of its kind (`once`)."""
    options: list[Given] = list(asked.get("options", ()))
    if not options:
        raise Failed(f"a {asked['kind']} request is not answered with an option; use `hermes chat`", EXIT_REFUSED)
    for option in options:
        if text is not None and text in (option["id"], option["kind"], option["kind"].removeprefix("allow_")):
            return option
    known = ", ".join(f"{option['id']} ({option['label']})" for option in options)
    raise Failed(f"{'no option given' if text is None else f'no option {text!r}'}: expected one of {known}", 2)
