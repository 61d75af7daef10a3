"""Connecting to a daemon, or saying why not."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from hermes_local import locks, spawn, state_file
from hermes_local.address import Address
from hermes_local.spawn import DaemonUnavailable, connect, connect_or_start, dial
from tests.support.local_daemon import WELCOME, Frame, LocalDaemon, Peer


@pytest.fixture
def address(tmp_path: Path) -> Address:
    (tmp_path / "run").mkdir(mode=0o700)
    return Address(str(tmp_path / "home"), "", str(tmp_path / "run"))


def silent(peer: Peer, frame: Frame) -> None:
    """Never answers."""


def refusing(code: int, kind: str, **data: object) -> object:
    return lambda peer, frame: peer.error(frame, code, kind, f"{kind}!", **data)


def test_a_running_daemon_is_used(address: Address) -> None:
    with LocalDaemon(address.socket_path, silent), connect_or_start(address, "test") as connection:
        assert connection.welcome["bootId"] == "b"


def test_without_a_daemon_connect_says_so_with_code_3(address: Address) -> None:
    with pytest.raises(DaemonUnavailable, match="hermes daemon start") as caught:
        connect(address, "test")
    assert caught.value.exit_code == spawn.EXIT_NOT_RUNNING


def test_a_dead_socket_is_nobody(address: Address) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(address.socket_path)
    assert dial(address.socket_path) is None


@pytest.mark.parametrize("what", ["a regular file", "a folder", "a symbolic link"])
def test_what_is_no_socket_is_left_alone_and_named(address: Address, what: str) -> None:
    path = Path(address.socket_path)
    if what == "a folder":
        path.mkdir()
    elif what == "a regular file":
        path.write_text("mine")
    else:
        path.symlink_to("nowhere")
    with pytest.raises(DaemonUnavailable, match=f"{path.name} is {what}") as caught:
        connect_or_start(address, "test")
    assert caught.value.exit_code == spawn.EXIT_UNAVAILABLE
    assert path.is_symlink() or path.exists()


def test_a_daemon_that_does_not_answer_is_named_and_not_replaced(address: Address) -> None:
    Path(address.home, "logs").mkdir(parents=True)
    Path(address.log_path).write_text("the last thing it did\n")
    state_file.write(address.state_path, {"pid": 4711, "startTime": 0})
    with (
        LocalDaemon(address.socket_path, silent, welcome=None) as daemon,
        pytest.raises(DaemonUnavailable, match="does not answer: pid 4711") as caught,
    ):
        connect_or_start(address, "test", timeout=0.05)
    assert caught.value.exit_code == spawn.EXIT_TRY_AGAIN
    assert "the last thing it did" in str(caught.value)
    assert [frame["method"] for frame in daemon.frames] == ["initialize"]


def test_an_owner_that_does_not_listen_is_waited_for_and_never_replaced(address: Address) -> None:
    owner = locks.try_lock(address.lock_path)
    assert owner is not None
    state_file.write(address.state_path, {"pid": 4711, "startTime": 0})
    with pytest.raises(DaemonUnavailable, match="holds its lock but does not listen: pid 4711") as caught:
        connect_or_start(address, "test", patience=0.05)
    assert caught.value.exit_code == spawn.EXIT_TRY_AGAIN
    assert not Path(address.socket_path).exists()
    owner.release()


def test_another_client_that_starts_the_daemon_is_waited_for(address: Address) -> None:
    starter = locks.try_lock(address.start_lock_path)
    assert starter is not None
    with pytest.raises(DaemonUnavailable, match="another client is starting"):
        connect_or_start(address, "test", patience=0.05)
    starter.release()


@pytest.mark.parametrize(
    ("code", "kind", "exit_code", "message"),
    [
        (-32056, "version_unsupported", spawn.EXIT_VERSION, "speaks 2.0"),
        (-32052, "auth_required", spawn.EXIT_REFUSED, "refused the connection: auth_required!"),
        (-32051, "draining", spawn.EXIT_TRY_AGAIN, "draining!"),
    ],
)
def test_a_refusal_has_its_own_exit_code(address: Address, code: int, kind: str, exit_code: int, message: str) -> None:
    answer = refusing(code, kind, supported=["2.0"])
    with (
        LocalDaemon(address.socket_path, answer, welcome=None),  # type: ignore[arg-type]
        pytest.raises(DaemonUnavailable, match=message) as caught,
    ):
        connect(address, "test")
    assert caught.value.exit_code == exit_code


def test_a_daemon_that_was_just_leaving_is_followed_by_the_next(address: Address) -> None:
    hung_up: list[Peer] = []

    def answer(peer: Peer, frame: Frame) -> None:
        if hung_up:
            peer.result(frame, WELCOME)
        else:
            hung_up.append(peer)
            peer.hang_up()

    with LocalDaemon(address.socket_path, answer, welcome=None), connect_or_start(address, "test") as connection:
        assert connection.welcome["bootId"] == "b"


def test_a_home_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    address = Address(str(tmp_path / "file" / "home"), "", str(tmp_path / "run"))
    with pytest.raises(DaemonUnavailable, match="cannot make the home folder"):
        connect_or_start(address, "test")
