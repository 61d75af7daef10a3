"""`hermes sessions`: list, show, rename, delete, export, search."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import Any

from hermes_local.address import Address
from hermes_local.connection import Connection
from hermes_local.spawn import connect_or_start
from hermes_shell import transcript
from hermes_shell.failures import Failed
from hermes_shell.session_ids import REQUEST_S, all_rows, find
from hermes_shell.table import print_table
from hermes_shell.times import ago

Given = dict[str, Any]
NAME = "hermes sessions"
PAGE = 200


def show_list(given: Given, address: Address) -> int:
    """The sessions, newest use first."""
    limit = int(given["limit"] or 50)
    wanted: Given = {"limit": limit}
    if given["cwd"]:
        wanted["cwd"] = os.path.realpath(given["cwd"])
    if given["query"]:
        wanted["query"] = given["query"]
    if given["archived"]:
        wanted["archived"] = True
    with connect_or_start(address, NAME) as connection:
        if limit > PAGE:
            filters = {key: value for key, value in wanted.items() if key != "limit"}
            rows: list[Any] = all_rows(connection, **filters)[:limit]
        else:
            rows = connection.request("hermes/session/list", wanted, REQUEST_S)["sessions"]
    if given["json"]:
        return _print_json(rows)
    table = [
        (
            row["sessionId"],
            ago(row.get("updatedAt", "")),
            row.get("state", "idle"),
            row.get("model", ""),
            _short_path(row.get("cwd", "")),
            row.get("title") or row.get("snippet") or "",
        )
        for row in rows
    ]
    if not table:
        print("no sessions yet" if not given["query"] and not given["cwd"] else "no session matches", file=sys.stderr)
        return 0
    print_table(("SESSION", "USED", "STATE", "MODEL", "FOLDER", "TITLE"), table)
    return 0


def show(given: Given, address: Address) -> int:
    """One session and its last items."""
    with connect_or_start(address, NAME) as connection:
        session_id = find(connection, given["session"])
        found = connection.request("hermes/session/get", {"sessionId": session_id}, REQUEST_S)
        asked = {"sessionId": session_id, "limit": int(given["limit"] or 20), "order": "desc"}
        last = connection.request("hermes/session/items", asked, REQUEST_S)["items"]
    items = list(reversed(last))
    if given["json"]:
        return _print_json({**found, "items": items})
    summary = found["session"]
    for label, value in (
        ("session", session_id),
        ("title", summary.get("title", "")),
        ("folder", summary.get("cwd", "")),
        ("model", summary.get("model", "")),
        ("state", found.get("state", "")),
        ("created", summary.get("createdAt", "")),
        ("used", summary.get("updatedAt", "")),
        ("tokens", _spent(summary)),
        ("options", ", ".join(f"{key}={value}" for key, value in found.get("options", {}).items())),
    ):
        if value:
            print(f"{label:8} {value}")
    for item in items:
        print(f"\n{transcript.plain(item)}")
    return 0


def _spent(summary: Given) -> str:
    """`1,200 in, 40 out, $0.0028; context 1 %`, or "" while nothing was asked of a model."""
    usage = summary.get("usage") or {}
    read, written, cost = usage.get("inputTokens", 0), usage.get("outputTokens", 0), usage.get("cost")
    if not read and not written:
        return ""
    full = summary.get("occupancyPct")
    price = "" if cost is None else f", ${cost:.4f}"
    return f"{read:,} in, {written:,} out{price}{'' if full is None else f'; context {full:.0f} %'}"


def rename(given: Given, address: Address) -> int:
    """Set the title."""
    with connect_or_start(address, NAME) as connection:
        session_id = find(connection, given["session"])
        params = {"sessionId": session_id, "title": " ".join(given["title"])}
        connection.request("hermes/session/rename", params, REQUEST_S)
    return 0


def delete(given: Given, address: Address) -> int:
    """Delete for good; asks on a terminal."""
    with connect_or_start(address, NAME) as connection:
        ids = [find(connection, text) for text in given["session"]]
        if not given["yes"] and sys.stdin.isatty():
            print(f"delete {', '.join(ids)} for good? [y/N] ", end="", file=sys.stderr, flush=True)
            if sys.stdin.readline().strip().lower() not in ("y", "yes"):
                return 1
        for session_id in ids:
            connection.request("hermes/session/delete", {"sessionId": session_id}, REQUEST_S)
            print(f"deleted {session_id}")
    return 0


def export(given: Given, address: Address) -> int:
    """The whole session as JSON or Markdown."""
    with connect_or_start(address, NAME) as connection:
        session_id = find(connection, given["session"])
        found = connection.request("hermes/session/get", {"sessionId": session_id}, REQUEST_S)
        items = list(all_items(connection, session_id))
    if given["format"] == "json":
        text = json.dumps({**found, "items": items}, indent=2, ensure_ascii=False) + "\n"
    else:
        text = transcript.markdown(found["session"], items)
    if given["output"] is None:
        sys.stdout.write(text)
        return 0
    try:
        # A transcript may hold what the agent read: it is for its owner only.
        with open(given["output"], "w", encoding="utf-8", opener=_private) as file:
            file.write(text)
    except OSError as error:
        raise Failed(f"cannot write {given['output']}: {error.strerror}") from None
    return 0


def search(given: Given, address: Address) -> int:
    """Full text search over all sessions."""
    params: Given = {"query": " ".join(given["text"]), "limit": int(given["limit"] or 20)}
    if given["cwd"]:
        params["cwd"] = os.path.realpath(given["cwd"])
    with connect_or_start(address, NAME) as connection:
        hits = connection.request("hermes/session/search", params, REQUEST_S)["hits"]
    if given["json"]:
        return _print_json(hits)
    if not hits:
        print("nothing found", file=sys.stderr)
        return 1
    rows = [(hit["sessionId"], ago(hit["at"]), hit["role"], hit["title"], hit["snippet"]) for hit in hits]
    print_table(("SESSION", "WHEN", "WHO", "TITLE", "TEXT"), rows)
    return 0


def all_items(connection: Connection, session_id: str) -> Iterator[Given]:
    """Every item of a session from the first on, page by page."""
    after: str | None = None
    while True:
        asked: Given = {"sessionId": session_id, "limit": PAGE, "order": "asc"}
        if after is not None:
            asked["after"] = after
        page = connection.request("hermes/session/items", asked, REQUEST_S)
        yield from page["items"]
        if not page["items"] or page.get("nextCursor") is None:
            return
        after = page["nextCursor"]


def _print_json(value: object) -> int:
    print(json.dumps(value, indent=2, ensure_ascii=False))
    return 0


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _short_path(path: str) -> str:
    home = os.path.expanduser("~")
    return "~" + path[len(home) :] if path == home or path.startswith(home + "/") else path
