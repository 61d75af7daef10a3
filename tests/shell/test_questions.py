"""`hermes say` and `hermes approve`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.local_daemon import Frame, LocalDaemon, Peer
from tests.support.local_shell import Shell

ASKED: dict[str, Any] = {
    "requestId": "r-one",
    "sessionId": "s1",
    "kind": "permission",
    "toolCall": {"id": "c", "name": "terminal", "title": "rm x", "args": "{}"},
    "options": [
        {"id": "yes", "kind": "allow_once", "label": "Allow once"},
        {"id": "no", "kind": "deny", "label": "Deny"},
    ],
}


class Session:
    """Answers what the two commands ask."""

    def __init__(self, *asked: dict[str, Any]) -> None:
        self.asked = asked

    def answer(self, peer: Peer, frame: Frame) -> None:
        results: dict[str, Any] = {
            "hermes/session/get": {"session": {"sessionId": "s1"}, "options": {}},
            "hermes/request/list": {"requests": list(self.asked)},
            "hermes/session/subscribe": {"mode": "snapshot", "epoch": "e", "seq": 1},
            "hermes/request/answer": {"status": "accepted", "seq": 2, "outcome": "allow_once"},
            "hermes/turn/submit": {"disposition": "queued", "turnId": "t9", "seq": 3},
        }
        peer.result(frame, results[frame["method"]])


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def sent(daemon: LocalDaemon, method: str) -> dict[str, Any]:
    found: dict[str, Any] = next(frame for frame in daemon.frames if frame["method"] == method)["params"]
    return found


@pytest.mark.parametrize("option", ["yes", "allow_once", "once"])
def test_a_request_is_answered_by_who_is_subscribed_with_the_option_meant(shell: Shell, option: str) -> None:
    with LocalDaemon(shell.address.socket_path, Session(ASKED).answer) as daemon:
        done = shell.run("approve", "r-o", option, "--feedback", "fine")
    assert (done.returncode, done.stdout) == (0, "allow_once\n")
    assert sent(daemon, "hermes/request/answer")["answer"] == {"optionId": "yes", "feedback": "fine"}
    assert sent(daemon, "initialize")["hermes"]["capabilities"]["requests"] == ["permission"]
    methods = [frame["method"] for frame in daemon.frames]
    assert methods.index("hermes/session/subscribe") < methods.index("hermes/request/answer")


def test_open_requests_are_listed_with_their_options(shell: Shell) -> None:
    with LocalDaemon(shell.address.socket_path, Session(ASKED).answer):
        done = shell.run("approve")
    assert "r-one" in done.stdout
    assert "yes no" in done.stdout
    assert "terminal: rm x" in done.stdout


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("r-one",), 2, "no option given: expected one of yes (Allow once), no (Deny)"),
        (("r-one", "maybe"), 2, "no option 'maybe': expected one of"),
        (("r-two", "yes"), 5, "no single request 'r-two' is open"),
        (("r", "yes"), 5, "give more of its id"),
    ],
)
def test_an_answer_that_does_not_fit_is_not_sent(shell: Shell, words: tuple[str, ...], code: int, message: str) -> None:
    other = {**ASKED, "requestId": "r-other"}
    with LocalDaemon(shell.address.socket_path, Session(ASKED, other).answer) as daemon:
        done = shell.run("approve", *words)
    assert done.returncode == code
    assert message in done.stderr
    assert not any(frame["method"] == "hermes/request/answer" for frame in daemon.frames)


def test_say_puts_the_words_into_the_session_and_says_what_became_of_them(shell: Shell) -> None:
    with LocalDaemon(shell.address.socket_path, Session().answer) as daemon:
        done = shell.run("say", "s1", "and", "the", "tests", "--when-busy", "steer")
    assert done.stdout == "queued: turn t9\n"
    submitted = sent(daemon, "hermes/turn/submit")
    assert submitted["input"] == [{"type": "text", "text": "and the tests"}]
    assert submitted["whenBusy"] == "steer"
