"""`hermes say`."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_local.address import resolve
from hermes_local.connection import Connection
from hermes_local.spawn import dial
from tests.support.local_daemon import Frame, LocalDaemon, Peer
from tests.support.local_shell import Shell


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with Shell(tmp_path) as user:
        yield user


class Busy:
    """A session in which a turn runs; what is said gets this disposition, then these events."""

    def __init__(self, disposition: str = "queued", events: tuple[dict[str, Any], ...] = (), **more: Any) -> None:
        self.receipt = {"disposition": disposition, "turnId": "t9", "seq": 3, **more}
        self.events = events

    def answer(self, peer: Peer, frame: Frame) -> None:
        if frame["method"] == "hermes/session/get":
            peer.result(frame, {"session": {"sessionId": "s1"}, "options": {}})
        elif frame["method"] == "hermes/session/subscribe":
            peer.result(frame, {"mode": "replay", "epoch": "e", "seq": 1})
        elif frame["method"] == "hermes/turn/submit":
            peer.result(frame, self.receipt)
            for seq, event in enumerate(self.events, 2):
                peer.event(**{"sessionId": "s1", "epoch": "e", "seq": seq, "prev": seq - 1, "ts": "", **event})


def sent(daemon: LocalDaemon, method: str) -> dict[str, Any]:
    found: dict[str, Any] = next(frame for frame in daemon.frames if frame["method"] == method)["params"]
    return found


@pytest.mark.parametrize(
    ("words", "when_busy"),
    [
        ((), "queue"),
        (("--steer",), "steer"),
        (("--interrupt",), "interrupt"),
        (("--reject",), "reject"),
        (("--when-busy", "steer"), "steer"),
    ],
)
def test_the_words_go_into_the_session_as_asked(shell: Shell, words: tuple[str, ...], when_busy: str) -> None:
    with LocalDaemon(shell.address.socket_path, Busy().answer) as daemon:
        done = shell.run("say", "s1", "and", "the", "tests", *words)
    assert done.stdout == "queued: turn t9\n"
    submitted = sent(daemon, "hermes/turn/submit")
    assert submitted["input"] == [{"type": "text", "text": "and the tests"}]
    assert submitted["whenBusy"] == when_busy
    assert submitted["key"]


@pytest.mark.parametrize(("depth", "sent_on"), [("2", 2), ("", None), ("two", None)])
def test_from_a_tool_of_an_agent_the_depth_goes_along(shell: Shell, depth: str, sent_on: int | None) -> None:
    shell.env["HERMES_AGENT_DEPTH"] = depth
    with LocalDaemon(shell.address.socket_path, Busy().answer) as daemon:
        shell.run("say", "s1", "and the tests")
    assert sent(daemon, "hermes/turn/submit").get("depth") == sent_on


def test_standard_input_is_taken_for_a_dash_and_nothing_is_not(shell: Shell) -> None:
    with LocalDaemon(shell.address.socket_path, Busy().answer) as daemon:
        shell.run("say", "s1", "-", stdin="from a\nfile\n")
        empty = shell.run("say", "s1", "-", stdin=" \n")
        both = shell.run("say", "s1", "x", "--steer", "--reject")
    assert sent(daemon, "hermes/turn/submit")["input"][0]["text"] == "from a\nfile"
    assert (empty.returncode, "TEXT is empty" in empty.stderr) == (2, True)
    assert (both.returncode, "steer and reject exclude each other" in both.stderr) == (2, True)


def message(turn_id: str, text: str) -> dict[str, Any]:
    item = {"type": "agentMessage", "itemId": "i", "turnId": turn_id, "status": "completed", "text": text, "model": "m"}
    return {"kind": "item.completed", "turnId": turn_id, "itemId": "i", "data": {"item": item}}


def ended(turn_id: str, status: str = "completed") -> dict[str, Any]:
    return {"kind": "turn.ended", "turnId": turn_id, "data": {"status": status}}


def test_what_steered_too_late_is_followed_into_its_own_turn(shell: Shell) -> None:
    moved = {"kind": "turn.steerRequeued", "data": {"turnId": "t9", "queueId": "q1", "newTurnId": "t10"}}
    events = (message("t9", "not to me"), moved, ended("t9"), message("t10", "to me"), ended("t10"))
    with LocalDaemon(shell.address.socket_path, Busy("steered", events, queueId="q1").answer):
        done = shell.run("say", "s1", "x", "--steer", "--wait")
    assert done.stdout.endswith("to me\n")
    assert done.returncode == 0


def test_waiting_fails_with_the_turn_and_prints_events_for_programs(shell: Shell) -> None:
    with LocalDaemon(shell.address.socket_path, Busy("started", (ended("t9", "failed"),)).answer):
        done = shell.run("say", "s1", "x", "--wait", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["kind"] == "turn.ended"


def test_words_wait_for_the_running_turn_of_a_real_daemon_and_are_answered(shell: Shell) -> None:
    shell.run("daemon", "start")
    connection = dial(resolve(shell.env).socket_path)
    assert isinstance(connection, Connection)
    with connection:
        connection.initialize("test")
        made = connection.request(
            "hermes/session/create", {"cwd": str(shell.work), "model": "scripted/words?n=40&delay_ms=20"}
        )
        session_id = made["session"]["sessionId"]
        connection.request("hermes/session/subscribe", {"sessionId": session_id})
        block = {"type": "text", "text": "first"}
        connection.request("hermes/turn/submit", {"sessionId": session_id, "input": [block], "key": "k"})
        said: list[Any] = []
        saying = threading.Thread(target=lambda: said.append(shell.run("say", session_id[:12], "second", "--wait")))
        saying.start()
        inputs = []
        for event in connection.events(30):
            if event["kind"] == "turn.started":
                inputs.append(event["data"]["input"][0]["text"])
            if event["kind"] == "turn.ended" and len(inputs) == 2:
                break
        saying.join()
    (done,) = said
    assert inputs == ["first", "second"]
    assert done.returncode == 0, done.stderr
    assert "word39" in done.stdout
    assert "(queued: turn" in done.stderr
