"""The blocking connection, against a real socket."""

from __future__ import annotations

import _socket
import itertools
import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_local.connection import Connection, ConnectionLost, RpcError, new_id
from tests.support.local_daemon import Frame, LocalDaemon, Peer


def echo(peer: Peer, frame: Frame) -> None:
    peer.result(frame, frame["params"])


def test_a_request_is_answered_with_its_result(tmp_path: Path) -> None:
    with LocalDaemon(tmp_path / "s", echo) as daemon, Connection.open(str(tmp_path / "s")) as connection:
        welcome = connection.initialize("test", requests=("permission",))
        assert welcome["bootId"] == "b"
        assert connection.request("hermes/daemon/ping", {"echo": "é\n"}) == {"echo": "é\n"}
        hello = daemon.frames[0]["params"]["hermes"]
        assert hello["client"]["name"] == "test"
        assert hello["capabilities"]["requests"] == ["permission"]
        assert daemon.frames[1]["method"] == "initialized"


def test_answers_may_come_in_any_order_and_notifications_between_them_wait(tmp_path: Path) -> None:
    held: list[Frame] = []

    def answer(peer: Peer, frame: Frame) -> None:
        held.append(frame)
        if len(held) == 2:
            peer.event(sessionId="s", seq=1)
            peer.result(held[1], "second")
            peer.send({"method": "hermes/lag", "params": {}})
            peer.result(held[0], "first")
            peer.event(sessionId="s", seq=2)

    with LocalDaemon(tmp_path / "s", answer), Connection.open(str(tmp_path / "s")) as connection:
        first, second = connection.send("a"), connection.send("b")
        assert connection.answer(first) == "first"
        assert connection.answer(second) == "second"
        events = connection.events(5)
        assert [next(events)["seq"], next(events)["seq"]] == [1, 2]


def test_an_error_keeps_code_kind_message_and_data(tmp_path: Path) -> None:
    def answer(peer: Peer, frame: Frame) -> None:
        peer.error(frame, -32044, "turn_in_progress", "a turn is running", activeTurnId="t1")

    with LocalDaemon(tmp_path / "s", answer), Connection.open(str(tmp_path / "s")) as connection:
        with pytest.raises(RpcError, match="a turn is running") as caught:
            connection.request("hermes/turn/submit")
        assert (caught.value.code, caught.value.kind) == (-32044, "turn_in_progress")
        assert caught.value.data["activeTurnId"] == "t1"


def test_the_daemons_end_is_the_end_of_waiting(tmp_path: Path) -> None:
    def answer(peer: Peer, frame: Frame) -> None:
        peer.send(b'{"jsonrpc":"2.0","id"')
        peer.hang_up()

    with (
        LocalDaemon(tmp_path / "s", answer),
        Connection.open(str(tmp_path / "s")) as one,
        pytest.raises(ConnectionLost),
    ):
        one.request("a")


def test_a_line_that_is_no_json_ends_the_connection_and_odd_frames_are_passed_over(tmp_path: Path) -> None:
    def answer(peer: Peer, frame: Frame) -> None:
        peer.send(b"\n", b"[]\n", b"7\n", b'{"id":"other","result":1}\n', b'{"id":1,"method":"ask"}\n')
        if frame["method"] == "bad":
            peer.send(b"what?\n")
        peer.result(frame, "fine")

    with LocalDaemon(tmp_path / "s", answer), Connection.open(str(tmp_path / "s")) as connection:
        assert connection.request("good") == "fine"
        with pytest.raises(ConnectionLost, match="not JSON"):
            connection.request("bad")


def test_a_silent_daemon_is_a_timeout_and_the_answer_may_still_be_taken_later(tmp_path: Path) -> None:
    waiting: list[tuple[Peer, Frame]] = []

    def answer(peer: Peer, frame: Frame) -> None:
        waiting.append((peer, frame))
        if frame["method"] == "wake":
            for other, asked in waiting:
                other.result(asked, asked["method"])

    with LocalDaemon(tmp_path / "s", answer), Connection.open(str(tmp_path / "s")) as connection:
        late = connection.send("late")
        with pytest.raises(TimeoutError):
            connection.answer(late, 0.01)
        with pytest.raises(TimeoutError):
            connection.notification(0.0)
        assert connection.request("wake") == "wake"
        assert connection.answer(late, 0.0) == "late"


def test_events_that_came_before_a_new_subscription_can_be_dropped(tmp_path: Path) -> None:
    def answer(peer: Peer, frame: Frame) -> None:
        peer.event(sessionId="a", seq=1)
        peer.event(sessionId="b", seq=1)
        peer.result(frame, None)
        peer.event(sessionId="a", seq=2)

    with LocalDaemon(tmp_path / "s", answer), Connection.open(str(tmp_path / "s")) as connection:
        connection.request("hermes/session/subscribe")
        connection.drop_events("a")
        events = connection.events(5)
        assert [(e["sessionId"], e["seq"]) for e in (next(events), next(events))] == [("b", 1), ("a", 2)]


@given(st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=40), max_size=3), min_size=1), st.data())
def test_cutting_the_bytes_anywhere_changes_nothing(values: list[dict[str, str]], data: Any) -> None:
    body = b"".join(json.dumps({"method": "m", "params": value}).encode() + b"\n" for value in values)
    cuts = data.draw(st.sets(st.integers(0, len(body)), max_size=8))
    ours, theirs = _socket.socketpair()
    with Connection(ours) as connection:
        bounds = [0, *sorted(cuts), len(body)]
        seen = []
        sent = 0
        for start, end in itertools.pairwise(bounds):
            theirs.sendall(body[start:end])
            sent = end
            while len(seen) < body[:sent].count(b"\n"):
                seen.append(connection.notification(5)["params"])
        theirs.close()
    assert seen == values


def test_a_frame_of_many_megabytes_is_read(tmp_path: Path) -> None:
    big = "x" * 5_000_000

    def answer(peer: Peer, frame: Frame) -> None:
        peer.result(frame, big)

    with LocalDaemon(tmp_path / "s", answer), Connection.open(str(tmp_path / "s")) as connection:
        assert connection.request("a", None, 30) == big


def test_what_answers_without_being_a_hermes_daemon_is_named_so(tmp_path: Path) -> None:
    with (
        LocalDaemon(tmp_path / "s", echo, {"capabilities": {}}),
        Connection.open(str(tmp_path / "s")) as connection,
        pytest.raises(RpcError, match="not a hermes daemon"),
    ):
        connection.initialize("test")


def test_new_ids_are_uuids_of_version_four() -> None:
    first, second = uuid.UUID(new_id()), uuid.UUID(new_id())
    assert first.version == second.version == 4
    assert first != second
