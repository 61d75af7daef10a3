"""Open questions as commands see them: list, describe, find. `hermes requests`."""

from __future__ import annotations

import json
import sys
from typing import Any

from hermes_local.address import Address
from hermes_local.connection import Connection
from hermes_local.spawn import EXIT_REFUSED, connect
from hermes_shell.failures import Failed
from hermes_shell.flat_schema import fields
from hermes_shell.session_ids import REQUEST_S, find
from hermes_shell.table import plain, print_table
from hermes_shell.times import ago

Given = dict[str, Any]
Row = dict[str, Any]
KINDS = ("permission", "clarify", "secret", "form")


def show(given: Given, address: Address) -> int:
    """List what waits for an answer, or one question with everything it says."""
    with connect(address, "hermes requests") as connection:
        rows = open_rows(connection, given["session"])
        if given["request"] is not None:
            rows = [one(rows, given["request"])]
    if given["json"]:
        print(json.dumps(rows, indent=2, ensure_ascii=False))
    elif given["request"] is not None:
        print("\n".join(described(rows[0])))
    else:
        table(rows)
    return 0


def open_rows(connection: Connection, session: str | None) -> list[Row]:
    """Every open question, or those of one session."""
    params = {"sessionId": find(connection, session)} if session else {}
    return list(connection.request("hermes/request/list", params, REQUEST_S)["requests"])


def one(rows: list[Row], text: str) -> Row:
    """The question whose id is, or alone begins like, `text`; Failed else."""
    found = [row for row in rows if row["requestId"].startswith(text)]
    exact = [row for row in found if row["requestId"] == text]
    if len(exact or found) != 1:
        what = "is open" if not found else "is meant: give more of its id"
        raise Failed(f"no single request {text!r} {what}; `hermes requests` lists them", EXIT_REFUSED)
    return (exact or found)[0]


def table(rows: list[Row]) -> None:
    """The open questions, one a line."""
    if not rows:
        print("nothing is waiting for an answer", file=sys.stderr)
        return
    lines = [
        (
            row["requestId"],
            row["sessionId"],
            row["kind"],
            ago(row.get("openedAt", "")),
            left(row),
            options(row),
            what(row),
        )
        for row in rows
    ]
    print_table(("REQUEST", "SESSION", "KIND", "ASKED", "LEFT", "OPTIONS", "WHAT"), lines)


def what(row: Row) -> str:
    """A question in a few words."""
    call = row.get("toolCall") or {}
    if call:
        return f"{call['name']}: {call.get('title') or call.get('args', '')}"
    asked = " / ".join(str(question["text"]) for question in row.get("questions", ()))
    return str(asked or row.get("prompt") or row.get("name") or "")


def options(row: Row) -> str:
    """What may be answered: the options of a permission, the choices of a single question."""
    if row.get("options"):
        return " ".join(str(option["id"]) for option in row["options"])
    asked = row.get("questions", ())
    return " | ".join(map(str, asked[0].get("choices", ()))) if len(asked) == 1 else ""


def left(row: Row) -> str:
    """Seconds until the question is over, "" while no clock runs."""
    remaining = row.get("remainingMs")
    return f"{int(remaining) // 1000} s" if row.get("running") and isinstance(remaining, int | float) else ""


def unanswered(row: Row) -> list[Row]:
    """The questions of a clarify request that nobody has answered."""
    done = {status["id"] for status in row.get("answered", ()) if status.get("status", "open") != "open"}
    return [question for question in row.get("questions", ()) if question["id"] not in done]


def described(row: Row) -> list[str]:
    """One question with everything it says, and how it is answered."""
    request_id = row["requestId"]
    lines = [f"{row['kind']} {request_id} in session {row['sessionId']}"]
    call = row.get("toolCall")
    if call:
        lines += [f"  {plain(what(row))}", *(f"  {plain(line)}" for line in str(call.get("args", "")).splitlines())]
        lines += [f"  {option['id']}: {plain(option['label'])}" for option in row.get("options", ())]
        return [*lines, f"answer: hermes approve {request_id}, or hermes deny {request_id}"]
    if row.get("prompt"):
        lines.append(f"  {plain(row['prompt'])}")
    for question in row.get("questions", ()):
        lines += [f"  {question['id']}: {plain(question['text'])}", *numbered(question.get("choices", ()))]
    for field in fields(row.get("schema")):
        lines.append(f"  {plain(field.name)}: {plain(field.label)} ({plain(field.hint)})")
        lines += numbered(field.labels)
    form = {"clarify": "[QUESTION=]ANSWER …", "form": "NAME=VALUE …", "secret": ""}.get(row["kind"], "")
    return [*lines, f"answer: hermes answer {request_id} {form}".rstrip()]


def numbered(choices: Any) -> list[str]:
    """Choices with their numbers."""
    return [f"    {number} {plain(str(choice))}" for number, choice in enumerate(choices, 1)]
