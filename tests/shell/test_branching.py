"""`hermes sessions fork|rewind|archive|unarchive`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.local_daemon import Frame, LocalDaemon, Peer
from tests.support.local_shell import Shell

ITEMS = [
    {"itemId": "i4", "type": "agentMessage"},
    {"itemId": "i3", "type": "userMessage"},
    {"itemId": "i2", "type": "agentMessage"},
    {"itemId": "i1", "type": "userMessage"},
]


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def answer(peer: Peer, frame: Frame) -> None:
    session = {"sessionId": "s1", "rev": 4}
    results: dict[str, Any] = {
        "hermes/session/get": {"session": session, "options": {}},
        "hermes/session/fork": {"session": {"sessionId": "s2"}, "seq": 1, "epoch": "e"},
        "hermes/session/archive": {"session": session},
        "hermes/session/rewind": {"rev": 5, "removed": 2, "seq": 9, "input": [{"type": "text", "text": "try this"}]},
    }
    if frame["method"] == "hermes/session/items":
        # Two a page: what is looked for may be behind the first one.
        place = next((n + 1 for n, row in enumerate(ITEMS) if row["itemId"] == frame["params"].get("before")), 0)
        page = ITEMS[place : place + 2]
        more = page[-1]["itemId"] if place + 2 < len(ITEMS) else None
        peer.result(frame, {"items": page, "nextCursor": more})
    else:
        peer.result(frame, results[frame["method"]])


def sent(daemon: LocalDaemon, method: str) -> dict[str, Any]:
    found: dict[str, Any] = next(frame for frame in daemon.frames if frame["method"] == method)["params"]
    return {name: value for name, value in found.items() if name != "key"}


def test_a_fork_prints_the_new_id(shell: Shell) -> None:
    with LocalDaemon(shell.address.socket_path, answer) as daemon:
        done = shell.run("sessions", "fork", "s1", "--at", "i2", "--title", "another way")
    assert done.stdout == "s2\n"
    assert sent(daemon, "hermes/session/fork") == {"sessionId": "s1", "atItemId": "i2", "title": "another way"}


@pytest.mark.parametrize(
    ("words", "item"), [((), "i3"), (("--turns", "2"), "i1"), (("-n", "1"), "i3"), (("--to", "i2"), "i2")]
)
def test_a_rewind_names_the_item_and_the_revision_it_saw(shell: Shell, words: tuple[str, ...], item: str) -> None:
    with LocalDaemon(shell.address.socket_path, answer) as daemon:
        done = shell.run("sessions", "rewind", "s1", *words)
    assert (done.stdout, done.stderr) == ("try this\n", "2 items taken back\n")
    assert sent(daemon, "hermes/session/rewind") == {"sessionId": "s1", "toItemId": item, "expectRev": 4}


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("--turns", "3"), 5, "--turns 3: the session has 2 messages to take back"),
        (("--turns", "0"), 2, "expected a number from 1"),
        (("--turns", "1", "--to", "i1"), 2, "exclude each other"),
    ],
)
def test_a_rewind_that_does_not_fit_is_not_sent(shell: Shell, words: tuple[str, ...], code: int, told: str) -> None:
    with LocalDaemon(shell.address.socket_path, answer) as daemon:
        done = shell.run("sessions", "rewind", "s1", *words)
    assert done.returncode == code
    assert told in done.stderr
    assert "hermes/session/rewind" not in [frame["method"] for frame in daemon.frames]


@pytest.mark.parametrize(("verb", "archived"), [("archive", True), ("unarchive", False)])
def test_sessions_are_archived_and_put_back(shell: Shell, verb: str, archived: bool) -> None:
    with LocalDaemon(shell.address.socket_path, answer) as daemon:
        done = shell.run("sessions", verb, "s1", "s1")
    assert done.returncode == 0
    asked = [frame["params"] for frame in daemon.frames if frame["method"] == "hermes/session/archive"]
    assert [row["archived"] for row in asked] == [archived, archived]


class Journal:
    """Two events, then one more as soon as somebody waits for it; then the connection ends."""

    def __init__(self, oldest: int = 1) -> None:
        self.count = 2
        self.oldest = oldest
        self.waits = 0

    def answer(self, peer: Peer, frame: Frame) -> None:
        params = frame["params"]
        if frame["method"] == "hermes/session/get":
            peer.result(frame, {"session": {"sessionId": "s1"}, "epoch": "e7"})
        elif frame["method"] == "hermes/session/events" and params["after"] < self.oldest - 1:
            peer.error(frame, -32054, "replay_truncated", "gone", oldest=self.oldest)
        elif frame["method"] == "hermes/session/events":
            events = [{"seq": n, "kind": "notice"} for n in range(params["after"] + 1, self.count + 1)][:1]
            more = bool(events) and events[-1]["seq"] != self.count
            peer.result(frame, {"events": events, "head": self.count, "truncated": more})
        elif self.waits == 0:
            self.waits, self.count = 1, 3
            peer.hang_up()
        elif self.waits == 1:
            self.waits = 2
            peer.result(frame, {"state": "idle", "seq": 3, "reached": True})
        else:
            peer.error(frame, -32041, "session_deleted", "the session was deleted")


def numbers(text: str) -> list[int]:
    return [json.loads(line)["seq"] for line in text.splitlines()]


def test_events_are_printed_page_by_page(shell: Shell) -> None:
    with LocalDaemon(shell.address.socket_path, Journal().answer) as daemon:
        done = shell.run("sessions", "events", "s1")
    assert numbers(done.stdout) == [1, 2]
    asked = [frame["params"] for frame in daemon.frames if frame["method"] == "hermes/session/events"]
    assert [row["epoch"] for row in asked] == ["e7", "e7"]


def test_following_goes_on_after_a_lost_connection_until_the_session_is_deleted(shell: Shell) -> None:
    with LocalDaemon(shell.address.socket_path, Journal().answer):
        done = shell.run("sessions", "events", "s1", "--follow")
    assert numbers(done.stdout) == [1, 2, 3]
    assert "connecting again" in done.stderr
    assert (done.returncode, "the session was deleted" in done.stderr) == (5, True)


def test_what_is_kept_no_longer_is_said_and_the_rest_printed(shell: Shell) -> None:
    with LocalDaemon(shell.address.socket_path, Journal(oldest=2).answer):
        done = shell.run("sessions", "events", "s1")
        behind = shell.run("sessions", "events", "s1", "--after", "1")
    assert numbers(done.stdout) == [2]
    assert "the events before 2 are not kept any more" in done.stderr
    assert (behind.returncode, "--after needs --epoch" in behind.stderr) == (2, True)
