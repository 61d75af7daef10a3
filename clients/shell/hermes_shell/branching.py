"""`hermes sessions fork|rewind|archive|unarchive`: other ways on from what a session holds."""

from __future__ import annotations

import sys
from typing import Any

from hermes_local.address import Address
from hermes_local.arguments import UsageError
from hermes_local.connection import Connection, new_id
from hermes_local.spawn import EXIT_REFUSED, connect_or_start
from hermes_shell.failures import Failed
from hermes_shell.session_ids import REQUEST_S, find
from hermes_shell.transcript import said

Given = dict[str, Any]
NAME = "hermes sessions"
PAGE = 200


def fork(given: Given, address: Address) -> int:
    """A new session with what this one holds, up to and with --at; its id on standard output."""
    with connect_or_start(address, NAME) as connection:
        params: Given = {"sessionId": find(connection, given["session"]), "key": new_id()}
        if given["at"]:
            params["atItemId"] = given["at"]
        if given["title"]:
            params["title"] = given["title"]
        made = connection.request("hermes/session/fork", params, REQUEST_S)
    print(made["session"]["sessionId"])
    return 0


def rewind(given: Given, address: Address) -> int:
    """Take back everything from the last message on, or from --turns messages ago, or behind --to."""
    if given["to"] and given["turns"] is not None:
        raise UsageError("--to and --turns exclude each other")
    with connect_or_start(address, NAME) as connection:
        session_id = find(connection, given["session"])
        to = given["to"] or _message(connection, session_id, int(given["turns"] if given["turns"] is not None else 1))
        rev = connection.request("hermes/session/get", {"sessionId": session_id}, REQUEST_S)["session"]["rev"]
        params = {"sessionId": session_id, "toItemId": to, "expectRev": rev, "key": new_id()}
        result = connection.request("hermes/session/rewind", params, REQUEST_S)
    print(f"{result['removed']} items taken back", file=sys.stderr)
    if result.get("input"):
        print(said({"input": result["input"]}))
    return 0


def archive(given: Given, address: Address) -> int:
    """Take sessions out of the lists."""
    return _archive(given, address, archived=True)


def unarchive(given: Given, address: Address) -> int:
    """Put archived sessions back into the lists."""
    return _archive(given, address, archived=False)


def _archive(given: Given, address: Address, *, archived: bool) -> int:
    with connect_or_start(address, NAME) as connection:
        for session_id in [find(connection, text) for text in given["session"]]:
            params = {"sessionId": session_id, "archived": archived, "key": new_id()}
            connection.request("hermes/session/archive", params, REQUEST_S)
            print(f"{'archived' if archived else 'back in the lists'}: {session_id}")
    return 0


def _message(connection: Connection, session_id: str, turns: int) -> str:
    """The id of the user message that begins the last `turns` of them."""
    if turns < 1:
        raise UsageError("--turns: expected a number from 1")
    before: str | None = None
    found = 0
    while True:
        asked: Given = {"sessionId": session_id, "limit": PAGE, "order": "desc"}
        if before is not None:
            asked["before"] = before
        page = connection.request("hermes/session/items", asked, REQUEST_S)
        for item in page["items"]:
            found += item.get("type") == "userMessage"
            if found == turns:
                return str(item["itemId"])
        before = page.get("nextCursor")
        if before is None or not page["items"]:
            have = f"{found} message{'s' * (found != 1)}"
            raise Failed(f"--turns {turns}: the session has {have} to take back", EXIT_REFUSED)
