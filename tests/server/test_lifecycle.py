"""Who owns a daemon's address. The handed cases rpc/stale-socket and rpc/old-daemon-unlinks-new-socket."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_daemon.server.lifecycle import CannotListen, Owned, Owner, Readiness
from hermes_local.address import Address, AddressError
from hermes_local.spawn import dial

OWN = """
import sys
from hermes_daemon.server.lifecycle import Owner
from hermes_local.address import Address
owner = Owner.acquire(Address(sys.argv[1], "", sys.argv[2]))
listener = owner.bind()
print("listening", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def address(tmp_path: Path) -> Address:
    return Address(str(tmp_path / "home"), "", str(tmp_path / "run"))


def other_owner(address: Address) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-c", OWN, address.root, address.runtime_dir],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "listening\n"
    return child


def test_there_is_one_owner_and_the_second_hears_where_the_first_listens(address: Address) -> None:
    first = Owner.acquire(address)
    with pytest.raises(Owned, match="already runs") as caught:
        Owner.acquire(address)
    assert caught.value.socket_path == address.socket_path
    first.release()
    Owner.acquire(address).release()


def test_one_home_has_one_owner_even_under_two_runtime_folders(address: Address, tmp_path: Path) -> None:
    first = Owner.acquire(address)
    elsewhere = Address(address.root, "", str(tmp_path / "other-run"))
    with pytest.raises(Owned, match="owned by a daemon in another runtime folder") as caught:
        Owner.acquire(elsewhere)
    assert caught.value.socket_path == address.socket_path
    first.release()
    Owner.acquire(elsewhere).release()


def test_the_socket_listens_at_once_and_is_for_its_owner_only(address: Address) -> None:
    owner = Owner.acquire(address)
    with owner.bind():
        connection = dial(address.socket_path)
        assert connection is not None
        connection.close()
        assert os.stat(address.socket_path).st_mode & 0o777 == 0o600
        assert os.stat(address.runtime_dir).st_mode & 0o777 == 0o700
    owner.release()


def test_the_socket_of_a_killed_daemon_is_taken_over(address: Address) -> None:
    with other_owner(address) as dead:
        dead.send_signal(signal.SIGKILL)
        dead.wait()
        assert os.path.exists(address.socket_path)
        owner = Owner.acquire(address)
        with owner.bind():
            connection = dial(address.socket_path)
            assert connection is not None
            connection.close()
        owner.release()


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda path: path.write_text("mine"), "a regular file"),
        (lambda path: path.mkdir(), "a folder"),
        (lambda path: path.symlink_to("nowhere"), "a symbolic link"),
    ],
)
def test_what_is_no_socket_is_left_alone_and_named(address: Address, make: object, what: str) -> None:
    owner = Owner.acquire(address)
    path = Path(address.socket_path)
    make(path)  # type: ignore[operator]
    with pytest.raises(CannotListen, match=what) as caught:
        owner.bind()
    assert str(path) in str(caught.value)
    owner.release()
    assert path.is_symlink() or path.exists()


def test_a_socket_that_a_stranger_answers_is_not_taken(address: Address) -> None:
    owner = Owner.acquire(address)
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.bind(address.socket_path)
        stranger.listen()
        with pytest.raises(CannotListen, match="does not hold the lock"):
            owner.bind()
    owner.release()


def test_an_owner_that_leaves_removes_its_own_files_and_no_others(address: Address) -> None:
    owner = Owner.acquire(address)
    with owner.bind():
        owner.write_state(boot_id="b", build_id="c", endpoints=["unix"], protocol_versions=["1.0"])
        os.unlink(address.socket_path)
        Path(address.socket_path).write_text("a successor's")
        owner.withdraw()
    assert not os.path.exists(address.state_path)
    assert Path(address.socket_path).read_text() == "a successor's"
    owner.release()


def test_a_withdrawn_owner_is_found_by_nobody_but_keeps_the_next_one_out(address: Address) -> None:
    owner = Owner.acquire(address)
    with owner.bind():
        owner.withdraw()
        assert dial(address.socket_path) is None
        with pytest.raises(Owned):
            Owner.acquire(address)
    owner.release()


def test_the_state_file_says_who_runs(address: Address) -> None:
    owner = Owner.acquire(address)
    owner.write_state(boot_id="b", build_id="c", endpoints=["unix:x"], protocol_versions=["1.0"])
    state = json.loads(Path(address.state_path).read_text())
    assert state["pid"] == os.getpid()
    assert (state["bootId"], state["buildId"], state["endpoints"]) == ("b", "c", ["unix:x"])
    assert state["home"] == address.home
    owner.release()


def test_a_deep_runtime_folder_holds_a_link_to_the_socket(tmp_path: Path) -> None:
    deep = Address(str(tmp_path / "home"), "", f"{tmp_path}/{'d' * 100}")
    owner = Owner.acquire(deep)
    with owner.bind():
        assert os.readlink(deep.socket_link) == deep.socket_path
        connection = dial(deep.socket_path)
        assert connection is not None
        connection.close()
    owner.release()
    assert not os.path.lexists(deep.socket_link)
    assert not os.path.lexists(deep.socket_path)


def test_a_runtime_folder_that_others_can_write_is_refused(address: Address) -> None:
    os.mkdir(address.runtime_dir)
    os.chmod(address.runtime_dir, 0o777)
    with pytest.raises(AddressError, match="can be written by others"):
        Owner.acquire(address)


def test_readiness_is_said_once_and_then_the_pipe_ends(address: Address) -> None:
    reading, writing = os.pipe()
    readiness = Readiness(writing)
    readiness.ready(address)
    readiness.failed("too late", 1)
    with open(reading) as pipe:
        lines = [json.loads(line) for line in pipe]
    assert lines == [{"ready": True, "pid": os.getpid(), "socket": address.socket_path}]


def test_failure_is_said_with_sentence_and_code_and_a_dead_starter_does_not_matter() -> None:
    reading, writing = os.pipe()
    Readiness(writing).failed("no room", 69)
    with open(reading) as pipe:
        assert json.loads(pipe.read())["message"] == "no room"
    reading, writing = os.pipe()
    os.close(reading)
    Readiness(writing).failed("nobody listens", 1)
    Readiness(None).failed("nobody ever listened", 1)
