"""`hermes say`: words for a session that runs elsewhere, and with --wait what is answered."""

from __future__ import annotations

import os
import sys
from typing import Any

from hermes_local.address import Address
from hermes_local.arguments import UsageError
from hermes_local.codec import encode
from hermes_local.connection import new_id
from hermes_local.spawn import connect_or_start
from hermes_shell.answer import STDERR, STDOUT, Answer, write_all
from hermes_shell.session_ids import find
from hermes_shell.turn import Turn, TurnLost

Given = dict[str, Any]
NAME = "hermes say"
HOW = ("steer", "interrupt", "reject")
INTERRUPTED = 130


def run(given: Given, address: Address) -> int:
    """Submit a text; what became of it on standard output. With --wait the answer instead, and its exit code."""
    when_busy = how(given)
    text = " ".join(given["text"])
    if text == "-":
        text = sys.stdin.read().rstrip("\n")
    if not text.strip():
        raise UsageError("TEXT is empty: expected words, or - and words on standard input")
    client_id = new_id()
    connection = connect_or_start(address, NAME, client_id=client_id)
    try:
        session_id = find(connection, given["session"])
    except BaseException:
        connection.close()
        raise
    answer = Answer(
        (lambda fd, said: None) if given["json"] else write_all,
        tty=(os.isatty(STDOUT), os.isatty(STDERR) and not os.environ.get("NO_COLOR")),
    )

    def see(event: Given) -> None:
        if given["json"] and "seq" in event and given["wait"]:
            write_all(STDOUT, encode(event) + "\n")
        if turn.turn_id and event.get("turnId") in (None, turn.turn_id):
            answer.feed(event["kind"], event["data"], event.get("itemId"))

    turn = Turn(address, connection, client_id, session_id, see, answer.say, name=NAME)
    try:
        receipt = turn.submit(text, {}, None, when_busy=when_busy)
        if not given["wait"]:
            print(encode(receipt) if given["json"] else f"{receipt['disposition']}: turn {receipt['turnId']}")
            return 0
        if receipt["disposition"] != "started":
            answer.say(f"({receipt['disposition']}: turn {receipt['turnId']})")
        turn.follow(None)
    except TurnLost as lost:
        answer.failed = str(lost)
    except KeyboardInterrupt:
        answer.say("hermes: no longer waiting; the turn goes on")
        return INTERRUPTED
    finally:
        turn.connection.close()
    if answer.failed:
        answer.say(f"hermes: {answer.failed}")
        return 1
    return 0


def how(given: Given) -> str:
    """What is to be done while a turn runs; UsageError where two ways are asked for."""
    asked = [name for name in HOW if given[name]]
    if given["when_busy"]:
        asked.append(given["when_busy"])
    if len(set(asked)) > 1:
        raise UsageError(f"{' and '.join(dict.fromkeys(asked))} exclude each other: expected one of them")
    return asked[0] if asked else "queue"
