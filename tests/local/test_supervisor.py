"""What systemd passes and hears: sd_listen_fds(3) and sd_notify(3)."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_local.supervisor import Supervisor, passed_sockets
from tests.support.activation import Ear, listening, start_with

TAKE = """
import json, os
from hermes_local.supervisor import BadSocket, passed_sockets
try:
    found = [[sock.family.name, sock.getblocking(), os.get_inheritable(sock.fileno())]
             for sock in passed_sockets(os.environ)]
except BadSocket as error:
    found = str(error)
print(json.dumps([found, [name for name in os.environ if name.startswith("LISTEN_")]]))
"""


def taken(sockets: list[socket.socket], pid: str = "") -> object:
    """What a process finds that was started with these sockets."""
    env = {"PYTHONPATH": ":".join(sys.path), "LISTEN_FDNAMES": "x"}
    with start_with(sockets, ["-c", TAKE], env, pid) as child:
        out, err = child.communicate(timeout=60)
    assert child.returncode == 0, err
    found, left = json.loads(out)
    assert left == [], "children would take the sockets for theirs"
    return found


def test_unix_and_tcp_sockets_are_taken_over_non_blocking_and_not_for_children(tmp_path: Path) -> None:
    with listening(str(tmp_path / "s")) as unix, socket.create_server(("127.0.0.1", 0)) as tcp:
        assert taken([unix, tcp]) == [["AF_UNIX", False, False], ["AF_INET", False, False]]


def test_sockets_for_another_process_are_not_ours(tmp_path: Path) -> None:
    with listening(str(tmp_path / "s")) as unix:
        assert taken([unix], pid="1") == []


def test_what_is_no_listening_stream_socket_is_named(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams:
        assert "descriptor 3 was passed as a socket, expected a listening unix or TCP" in str(taken([datagrams]))
    with socket.socket(socket.AF_UNIX) as silent:
        assert "descriptor 3 was passed as a socket, expected a listening" in str(taken([silent]))
    with open(os.devnull) as file:
        assert "descriptor 3 was passed as a socket: " in str(taken([file]))  # type: ignore[list-item]


@pytest.mark.parametrize("count", ["many", "-1", "17", "1000000"])
def test_a_number_of_sockets_that_does_not_fit_is_named(count: str) -> None:
    take = f"import os; os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS={count!r})\n{TAKE}"
    env = {"PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", take], env=env, capture_output=True, text=True, timeout=60)
    assert json.loads(done.stdout)[0] == f"LISTEN_FDS is {count!r}, expected a number of sockets up to 16"


def test_nothing_passed_is_nothing() -> None:
    assert passed_sockets({}) == []
    assert passed_sockets({"LISTEN_PID": str(os.getpid())}) == []


def test_a_supervisor_hears_states_and_children_do_not_know_it(tmp_path: Path) -> None:
    ear = Ear(tmp_path)
    environ = {"NOTIFY_SOCKET": ear.path}
    supervisor = Supervisor.found(environ)
    assert environ == {}
    supervisor.tell("READY")
    supervisor.tell("STOPPING", STATUS="draining: asked")
    assert ear.hear() == {"READY": "1"}
    assert ear.hear() == {"STOPPING": "1", "STATUS": "draining: asked"}
    ear.close()


def test_an_abstract_address_works_and_a_supervisor_that_is_gone_does_not_matter() -> None:
    name = f"hermes-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ear:
        ear.bind(f"\0{name}")
        Supervisor(f"@{name}").tell("READY")
        assert ear.recv(100) == b"READY=1"
    Supervisor(f"@{name}").tell("READY")
    Supervisor("").tell("READY")
