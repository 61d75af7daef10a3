"""Starting the real daemon: races, leftovers of dead ones, and ones that do not answer.

The handed cases rpc/stale-socket, rpc/daemon-without-transport, rpc/parent-died and acceptance check 10.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_local import locks, spawn
from hermes_local.address import Address, resolve
from hermes_local.spawn import DaemonUnavailable, connect, connect_or_start
from tests.support.local_shell import Shell, wait_for

HELLO = '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"hermes":{"protocolVersions":["1.0"]}}}\n'
SHUTDOWN = '{"jsonrpc":"2.0","id":2,"method":"shutdown"}\n'
EXIT = '{"jsonrpc":"2.0","method":"exit"}\n'

CLIENT = """
import sys
from hermes_local.address import resolve
from hermes_local.spawn import connect_or_start
with connect_or_start(resolve(), "test") as connection:
    print(connection.welcome["bootId"])
"""


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with Shell(tmp_path) as user:
        yield user


def clients(shell: Shell, count: int) -> list[str]:
    """So many clients at once; the boot ids of the daemons that answered them."""
    children = [
        subprocess.Popen(
            [sys.executable, "-c", CLIENT], env=shell.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(count)
    ]
    answers = []
    for child in children:
        with child:
            out, err = child.communicate(timeout=120)
        assert child.returncode == 0, err
        answers.append(out.strip())
    return answers


def test_fifty_clients_without_a_daemon_get_one_daemon(shell: Shell) -> None:
    answers = clients(shell, 50)
    assert len(answers) == 50
    assert len(set(answers)) == 1


def test_five_clients_after_a_kill_take_the_dead_socket_over(shell: Shell) -> None:
    (first,) = clients(shell, 1)
    shell.kill_daemon()
    assert Path(shell.address.socket_path).is_socket()
    answers = clients(shell, 5)
    assert set(answers) != {first}
    assert len(set(answers)) == 1


def test_lock_and_state_files_of_the_dead_decide_nothing(shell: Shell) -> None:
    address = shell.address
    Path(address.lock_path).write_text(f'{{"pid":{os.getpid()}}}')
    Path(address.state_path).write_text(f'{{"pid":{os.getpid()}}}')
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(address.socket_path)
    assert len(clients(shell, 1)) == 1
    assert shell.daemon_pid() != os.getpid()


def test_the_daemon_outlives_its_starter_in_a_session_of_its_own(shell: Shell) -> None:
    clients(shell, 1)
    pid = shell.daemon_pid()
    assert pid is not None
    assert os.getsid(pid) == pid
    state = json.loads(Path(shell.address.state_path).read_text())
    assert state["pid"] == pid
    assert Path(shell.address.log_path).stat().st_mode & 0o777 == 0o600


def test_a_stopped_daemon_is_named_not_replaced_and_serves_again_when_it_goes_on(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in shell.env.items():
        monkeypatch.setenv(name, value)
    clients(shell, 1)
    pid = shell.daemon_pid()
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(DaemonUnavailable, match=f"does not answer: pid {pid}, up for") as caught:
        connect_or_start(resolve(), "test", timeout=0.1)
    assert caught.value.exit_code == spawn.EXIT_TRY_AGAIN
    assert shell.daemon_pid() == pid
    os.kill(pid, signal.SIGCONT)
    with connect(resolve(), "test") as connection:
        assert connection.request("hermes/daemon/status")["pid"] == pid


def test_a_second_daemon_leaves_before_it_touches_anything(shell: Shell) -> None:
    clients(shell, 1)
    first = shell.daemon_pid()
    second = shell.run("serve", module="hermes_daemon")
    assert second.returncode == spawn.EXIT_TRY_AGAIN
    assert f"already runs for this home: pid {first}" in second.stderr
    assert Path(shell.address.socket_path).is_socket()
    assert len(clients(shell, 1)) == 1


def test_a_client_with_another_runtime_folder_reaches_the_daemon_of_the_home(shell: Shell, tmp_path: Path) -> None:
    (first,) = clients(shell, 1)
    (tmp_path / "other-run").mkdir(mode=0o700)
    there, shell.env["XDG_RUNTIME_DIR"] = shell.env["XDG_RUNTIME_DIR"], str(tmp_path / "other-run")
    answers = clients(shell, 1)
    shell.env["XDG_RUNTIME_DIR"] = there
    assert answers == [first]


def test_a_daemon_that_cannot_start_says_why_at_once(shell: Shell) -> None:
    home = Path(shell.env["HERMES_HOME"])
    (home / "daemon.lock").mkdir(parents=True)
    done = shell.run("daemon", "start")
    assert done.returncode == spawn.EXIT_UNAVAILABLE
    assert f"cannot lock {home}/daemon.lock" in done.stderr


def test_what_stands_at_the_sockets_path_stops_the_daemon_and_stays(shell: Shell) -> None:
    Path(shell.address.socket_path).write_text("mine")
    done = shell.run("serve", module="hermes_daemon")
    assert done.returncode == spawn.EXIT_UNAVAILABLE
    assert "is a regular file" in done.stderr
    assert Path(shell.address.socket_path).read_text() == "mine"
    assert not Path(shell.env["HERMES_HOME"], "state.db").exists()


def test_standard_input_and_output_speak_with_the_shared_daemon(shell: Shell) -> None:
    done = shell.run("stdio", stdin=HELLO, module="hermes_daemon")
    assert json.loads(done.stdout)["id"] == 1
    assert done.returncode == 0
    assert shell.daemon_pid() is not None


@pytest.mark.parametrize(("said", "code"), [(HELLO + SHUTDOWN + EXIT, 0), (HELLO, 1)])
def test_a_private_daemon_ends_with_its_client(shell: Shell, said: str, code: int) -> None:
    done = shell.run("stdio", "--private", stdin=said, module="hermes_daemon")
    assert done.stderr == ""
    assert done.returncode == code
    assert json.loads(done.stdout.splitlines()[0])["id"] == 1
    assert shell.daemon_pid() is None
    assert not locks.is_locked(f"{shell.env['HERMES_HOME']}/daemon.lock")


def test_a_private_daemon_ends_when_the_process_that_holds_it_is_killed(shell: Shell) -> None:
    home_lock = f"{shell.env['HERMES_HOME']}/daemon.lock"
    with shell.start("stdio", "--private", module="hermes_daemon") as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(HELLO)
        child.stdin.flush()
        assert json.loads(child.stdout.readline())["id"] == 1
        assert locks.is_locked(home_lock)
        child.kill()
        wait_for(lambda: not locks.is_locked(home_lock))


EDITOR = """
import os, subprocess, sys
words = [sys.executable, "-P", "-m", "hermes_daemon", "stdio", *sys.argv[2:]]
child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
child.stdin.write(sys.argv[1])
child.stdin.flush()
assert child.stdout.readline()
print(child.pid, flush=True)
os.read(0, 1)
"""


@pytest.mark.parametrize("private", [True, False])
def test_parent_died(shell: Shell, private: bool) -> None:
    """The handed case: after kill -9 of the editor its pump ends, and the daemon with it if it was the editor's own."""
    home_lock = f"{shell.env['HERMES_HOME']}/daemon.lock"
    with subprocess.Popen(
        [sys.executable, "-c", EDITOR, HELLO, *(["--private"] if private else [])],
        env=shell.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as editor:  # fmt: skip
        assert editor.stdout is not None
        pump = int(editor.stdout.readline())
        assert locks.is_locked(home_lock)
        editor.kill()
    wait_for(lambda: not running(pump))
    if private:
        wait_for(lambda: not locks.is_locked(home_lock))
    else:
        with connect(shell.address, "test") as connection:
            rows = connection.request("hermes/daemon/status")["connections"]
            assert [row["name"] for row in rows] == ["test"], "only the client is dropped"


def running(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    try:
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_private_daemon_does_not_share_a_home(shell: Shell) -> None:
    clients(shell, 1)
    done = shell.run("stdio", "--private", stdin=HELLO, module="hermes_daemon")
    assert done.returncode == spawn.EXIT_TRY_AGAIN
    assert "belongs to a running daemon" in done.stderr
    assert len(clients(shell, 1)) == 1


def test_a_socket_path_too_long_for_the_kernel_works_all_the_same(tmp_path: Path) -> None:
    with Shell(tmp_path) as shell:
        deep = tmp_path / ("d" * 100)
        deep.mkdir(mode=0o700)
        shell.env["XDG_RUNTIME_DIR"] = str(deep)
        address: Address = shell.address
        clients(shell, 1)
        assert Path(address.socket_link).is_symlink()
        shell.kill_daemon()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(address.socket_path)
