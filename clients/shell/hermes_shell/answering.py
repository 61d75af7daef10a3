"""`hermes approve`, `hermes deny` and `hermes answer`: answers to open questions from any shell."""

from __future__ import annotations

import json
import sys
from typing import Any

from hermes_local.address import Address
from hermes_local.arguments import UsageError
from hermes_local.connection import Connection, new_id
from hermes_local.spawn import EXIT_REFUSED, connect
from hermes_shell import questions
from hermes_shell.choosing import chosen, expected
from hermes_shell.failures import Failed
from hermes_shell.flat_schema import Field, Wrong, fields
from hermes_shell.questions import Given, Row
from hermes_shell.session_ids import REQUEST_S
from hermes_shell.table import plain


def approve(given: Given, address: Address) -> int:
    """Allow what a permission request asks for: once, or with --session-long or --always more."""
    if given["session_long"] and given["always"]:
        raise UsageError("--session-long and --always exclude each other")
    kind = "allow_session" if given["session_long"] else "allow_always" if given["always"] else "allow_once"
    return _decide("hermes approve", given, address, kind, given["option"])


def deny(given: Given, address: Address) -> int:
    """Refuse it, with a reason for the model."""
    return _decide("hermes deny", given, address, "deny_always" if given["always"] else "deny", None)


def answer(given: Given, address: Address) -> int:
    """Answer any question by its id."""
    with connect(address, "hermes answer", requests=questions.KINDS) as connection:
        row = questions.one(questions.open_rows(connection, None), given["request"])
        words: list[str] = list(given["answer"])
        if given["decline"]:
            content: Given = {"decline": True}
        elif row["kind"] == "clarify":
            content = {"answers": _clarified(row, words, skip=bool(given["skip"]))}
        elif row["kind"] == "secret":
            content = {"value": _secret(row, words)}
        elif row["kind"] == "form":
            content = {"values": _filled_in(row, words)}
        elif row["kind"] == "permission":
            content = {"optionId": _option(row, words[0] if words else None, "allow_once")["id"]}
        else:
            raise Failed(f"a {row['kind']} request is answered by the program that offered the tool", EXIT_REFUSED)
        print(_send(connection, row, content))
    return 0


def _decide(name: str, given: Given, address: Address, kind: str, option: str | None) -> int:
    with connect(address, name, requests=questions.KINDS) as connection:
        rows = questions.open_rows(connection, given["session"])
        if given["json"] and given["request"] is None:
            print(json.dumps(rows, indent=2, ensure_ascii=False))
            return 0
        row = _meant(rows, given["request"])
        if row is None:
            return 1 if not rows else 2
        chosen_option = _option(row, option, kind)
        content: Given = {"optionId": chosen_option["id"]}
        if given["feedback"]:
            content["feedback"] = given["feedback"]
        print(_send(connection, row, content) or chosen_option["kind"])
    return 0


def _meant(rows: list[Row], text: str | None) -> Row | None:
    """The permission request that is meant; None when it has to be named, after listing what is open."""
    if text is not None:
        return questions.one(rows, text)
    asked = [row for row in rows if row["kind"] == "permission"]
    if len(asked) == 1:
        return asked[0]
    questions.table(rows)
    if len(asked) > 1:
        print(f"{len(asked)} requests are open: name the one that is meant", file=sys.stderr)
    elif rows:
        print("none of these asks for a permission: `hermes answer REQUEST` answers them", file=sys.stderr)
    return None


def _option(row: Row, text: str | None, kind: str) -> Row:
    """The option meant by its id, its kind (`allow_once`) or the end of its kind (`once`); without, that of `kind`."""
    offered: list[Row] = list(row.get("options", ()))
    if not offered:
        raise Failed(f"a {row['kind']} request is not answered with an option; use `hermes answer`", EXIT_REFUSED)
    for option in offered:
        names = (option["id"], option["kind"], option["kind"].removeprefix("allow_"))
        if option["kind"] == kind if text is None else text in names:
            return option
    known = ", ".join(f"{option['id']} ({option['label']})" for option in offered)
    raise Failed(f"{text or kind!r} is not offered for this call: expected one of {known}", 2)


def _send(connection: Connection, row: Row, content: Given) -> str:
    """Answer; the outcome in a word."""
    # Only who is subscribed to the session may answer (protocol section 8).
    subscription = {"sessionId": row["sessionId"], "tail": 0, "detail": "status"}
    connection.request("hermes/session/subscribe", subscription, REQUEST_S)
    params = {"requestId": row["requestId"], "answer": content, "key": new_id()}
    result = connection.request("hermes/request/answer", params, REQUEST_S)
    if result.get("late"):
        print(f"others were faster with {', '.join(result['late'])}", file=sys.stderr)
    return str(result.get("outcome") or "")


# --- what was given, as answers -----------------------------------------------------------------------------------


def _clarified(row: Row, words: list[str], *, skip: bool) -> Given:
    """Question id -> answer: `QUESTION=ANSWER`, or answers in the order of the open questions."""
    waiting = questions.unanswered(row)
    if not words and not skip:
        _need_terminal(row)
        return {question["id"]: _ask_one(question) for question in waiting}
    answers: Given = {}
    for word in words:
        name, equals, value = word.partition("=")
        question = next((one for one in waiting if equals and one["id"] == name), None)
        if question is None:
            question = next((one for one in waiting if one["id"] not in answers), None)
            value = word
        if question is None:
            raise Failed(f"more answers than open questions: {len(waiting)} are open, {word!r} is too much", 2)
        answers[question["id"]] = _one_answer(question, value)
    if skip:
        answers.update({one["id"]: {"skip": True} for one in waiting if one["id"] not in answers})
    return answers


def _one_answer(question: Row, value: str) -> Given:
    try:
        meant = chosen(value, question.get("choices", ()), **_how(question))
    except Wrong as wrong:
        raise Failed(f"{question['id']}: {wrong}", 2) from None
    pairs = (("choice", meant.choice), ("choices", meant.choices), ("text", meant.text))
    return {name: given for name, given in pairs if given is not None}


def _ask_one(question: Row) -> Given:
    """Ask on the terminal until the answer fits; an empty line skips the question."""
    print(plain(question["text"]))
    print("\n".join(questions.numbered(question.get("choices", ()))) or "", end="\n" * bool(question.get("choices")))
    while True:
        print(f"{expected(question.get('choices', ()), **_how(question))}, Enter skips: ", end="", flush=True)
        line = sys.stdin.readline()
        if not line.strip():
            return {"skip": True}
        try:
            return _one_answer(question, line)
        except Failed as wrong:
            print(wrong)


def _how(question: Row) -> dict[str, bool]:
    return {"multi": bool(question.get("multi")), "free_text": bool(question.get("freeText", True))}


def _secret(row: Row, words: list[str]) -> str:
    """The value, from the terminal without echo or from standard input; never from the command line."""
    if words:
        raise Failed("a secret is not taken from the command line, where others can read it: give it on the terminal"
                     " when asked, or on standard input", 2)  # fmt: skip
    if sys.stdin.isatty():
        import getpass

        value = getpass.getpass(f"{plain(row.get('prompt') or row.get('name') or 'secret')}: ")
    else:
        value = sys.stdin.read().removesuffix("\n")
    if not value:
        raise Failed("no value was given; `--decline` says that there is none", 2)
    return value


def _filled_in(row: Row, words: list[str]) -> Given:
    """Field name -> value: from NAME=VALUE words, or asked for field by field on the terminal."""
    known = {field.name: field for field in fields(row.get("schema"))}
    typed: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or name not in known:
            raise Failed(f"{word!r}: expected NAME=VALUE with NAME one of {', '.join(known)}", 2)
        typed[name] = value
    if not words and known:
        _need_terminal(row)
        asked = {name: _ask_field(field) for name, field in known.items()}
        return {name: value for name, value in asked.items() if value is not None}
    values: Given = {}
    for name, field in known.items():
        try:
            value = field.read(typed.get(name, ""))
        except Wrong as wrong:
            raise Failed(str(wrong), 2) from None
        if value is not None:
            values[name] = value
    return values


def _ask_field(field: Field) -> Any:
    print("\n".join([plain(field.label), *questions.numbered(field.labels)]))
    while True:
        print(f"{field.hint}: ", end="", flush=True)
        line = sys.stdin.readline()
        if not line:
            raise Failed("the form was not filled in", 2)
        try:
            return field.read(line.rstrip("\n"))
        except Wrong as wrong:
            print(wrong)


def _need_terminal(row: Row) -> None:
    if not sys.stdin.isatty():
        raise Failed("\n".join(["no answer was given:", *questions.described(row)]), 2)
