"""Started by a supervisor: with its socket, in its words, and by its rules for starting again."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.activation import Ear, listening, start_with
from tests.support.local_shell import Shell, wait_for

SERVE = ["-m", "hermes_daemon", "serve", "--supervised"]


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with Shell(tmp_path) as user:
        yield user


@pytest.fixture
def ear(tmp_path: Path) -> Iterator[Ear]:
    made = Ear(tmp_path)
    yield made
    made.close()


def settle(shell: Shell, text: str) -> None:
    home = Path(shell.env["HERMES_HOME"])
    home.mkdir(mode=0o700, exist_ok=True)
    (home / "config.yaml").write_text(text)


def test_a_daemon_serves_the_socket_it_was_passed_and_leaves_its_file_to_the_next(shell: Shell, ear: Ear) -> None:
    settle(shell, "daemon: {idle_exit_s: 0.2}\n")
    path = Path(shell.address.socket_path)
    with listening(str(path)) as held:
        made = path.stat()
        pids = []
        for question in ("one", "two"):
            with start_with([held], SERVE, {**shell.env, "NOTIFY_SOCKET": ear.path}) as daemon:
                # The client was there first, as with systemd: it waits in the socket's queue.
                assert shell.run("chat", "-q", question, "-m", "scripted/echo").stdout == f"{question}\n"
                pids.append(daemon.pid)
                assert ear.hear() == {"READY": "1"}
                assert daemon.wait(timeout=30) == 0, "idle: the next connection starts the next one"
                assert ear.hear() == {"STOPPING": "1", "STATUS": "stopping: idle"}
            assert path.stat().st_ino == made.st_ino
        assert len(set(pids)) == 2
    assert len(json.loads(shell.run("sessions", "list", "--json").stdout)) == 2


def test_who_connects_while_an_activated_daemon_leaves_is_served_by_the_next(shell: Shell) -> None:
    with listening(shell.address.socket_path) as held, start_with([held], SERVE, shell.env) as first:
        with shell.start("chat", "-q", "x", "-m", "scripted/words?n=100&delay_ms=10") as talking:
            assert talking.stdout is not None
            assert talking.stdout.read(5) == "word0"
            with shell.start("daemon", "restart", "--drain") as restarting:
                assert first.wait(timeout=30) == 0
                with start_with([held], SERVE, shell.env) as second:
                    out, err = restarting.communicate(timeout=60)
                    second.terminate()
                    assert second.wait(timeout=30) == 0
            assert talking.stdout.read().split()[-1] == "word99"
        assert restarting.returncode == 0, err
        assert f"pid {second.pid}" in out
        assert Path(shell.address.socket_path).is_socket()


def test_sockets_for_another_process_are_ignored(shell: Shell) -> None:
    with listening(f"{shell.env['HOME']}/elsewhere") as held, start_with([held], SERVE, shell.env, pid="1") as daemon:
        wait_for(lambda: Path(shell.address.socket_path).exists())
        assert shell.run("daemon", "stop").returncode == 0
        assert daemon.wait(timeout=30) == 0
    assert not Path(shell.address.socket_path).exists()


def test_a_socket_where_no_client_looks_and_one_of_another_kind_are_refused(shell: Shell) -> None:
    with listening(f"{shell.env['HOME']}/elsewhere") as held, start_with([held], SERVE, shell.env) as daemon:
        _, err = daemon.communicate(timeout=60)
    assert daemon.returncode == 69
    assert f"elsewhere, but clients of this home look for {shell.address.socket_path}" in err
    assert "hermes daemon install --socket-activation" in err
    with socket.create_server(("127.0.0.1", 0)) as held, start_with([held], SERVE, shell.env) as daemon:
        _, err = daemon.communicate(timeout=60)
    assert daemon.returncode == 69
    assert "sockets were passed (AF_INET), expected one unix socket" in err
    assert not Path(shell.env["HERMES_HOME"], "state.db").exists()


def supervised(shell: Shell, *more: str, **env: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, *SERVE, *more], env={**shell.env, **env}, stdin=subprocess.DEVNULL)


def test_a_supervised_daemon_asks_for_the_next_one_when_it_is_idle_or_restarted_and_not_when_it_is_stopped(
    shell: Shell, ear: Ear
) -> None:
    settle(shell, "daemon: {idle_exit_s: 0.1}\n")
    assert supervised(shell).wait(timeout=30) == 100
    settle(shell, "daemon: {idle_exit_s: 0}\n")
    for words, code in ((("daemon", "restart"), 100), (("daemon", "stop"), 0)):
        daemon = supervised(shell, NOTIFY_SOCKET=ear.path)
        assert ear.hear() == {"READY": "1"}
        assert shell.run(*words).returncode == 0
        assert daemon.wait(timeout=30) == code
        ear.hear()
        shell.run("daemon", "stop", "--now")


def test_a_reload_is_told_as_systemd_wants_it(shell: Shell, ear: Ear) -> None:
    settle(shell, "agent: {max_rounds: 5}\n")
    daemon = supervised(shell, NOTIFY_SOCKET=ear.path)
    assert ear.hear() == {"READY": "1"}
    assert shell.run("sessions", "list").returncode == 0  # the engine is open
    os.kill(daemon.pid, signal.SIGHUP)
    told = ear.hear()
    assert told["RELOADING"] == "1"
    assert int(told["MONOTONIC_USEC"]) > 0
    assert ear.hear() == {"READY": "1"}
    daemon.terminate()
    assert daemon.wait(timeout=30) == 0
    assert ear.hear()["STOPPING"] == "1"
