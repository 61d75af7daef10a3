"""The real process on the network: the command line's flags, config.yaml, what is told where it listens."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_local import spawn, state_file
from hermes_local.address import Address
from hermes_local.connection import Connection
from hermes_local.elsewhere import dial
from tests.support.daemon_process import Daemon, running_daemon
from tests.support.local_shell import Shell, wait_for


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with Shell(tmp_path) as user:
        yield user


def state_of(address: Address) -> dict[str, Any]:
    return state_file.read(address.state_path)


def urls(daemon: Daemon) -> dict[str, str]:
    """{scheme: endpoint} of the state file."""
    return {url.partition(":")[0]: url for url in state_of(daemon.address)["endpoints"]}


def token(daemon: Daemon) -> str:
    return Path(daemon.address.home, "token").read_text().strip()


LISTEN = "listen:\n  tcp: ['127.0.0.1:0']\n"


def test_the_real_port_is_in_the_state_file_and_in_status_before_the_daemon_is_ready(tmp_path: Path) -> None:
    with running_daemon(tmp_path, LISTEN) as daemon:
        told = urls(daemon)
        assert list(told) == ["unix", "tcp", "ws"]
        with dial(told["tcp"]) as connection:
            connection.initialize("test", token=token(daemon))
            status = connection.request("hermes/daemon/status", {}, 10)
        assert status["endpoints"] == list(told.values())
        assert not status.get("warnings")


def test_flags_open_a_listener_too(shell: Shell) -> None:
    words = ("--listen", "tcp://127.0.0.1:0", "--listen", "tcp://localhost:0")
    with shell.start("serve", *words, module="hermes_daemon") as child:
        wait_for(lambda: state_of(shell.address))
        told = state_of(shell.address)["endpoints"]
        assert len({port for url in told if (port := url.rpartition(":")[2]).isdecimal()}) >= 2, told
        url = state_of(shell.address)["endpoints"][1]
        Path(shell.env["HERMES_HOME"], "config.yaml").write_text("model: {}\n")
        shell.env["HERMES_DAEMON"] = url
        done = shell.run("daemon", "status", "--json")
        assert json.loads(done.stdout)["endpoints"][1] == url, done.stderr
        child.terminate()
        assert child.wait(20) == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--listen", "127.0.0.1:0"], "--listen 127.0.0.1:0: expected tcp://HOST:PORT or tls://HOST:PORT"),
        (["--listen", "tcp://127.0.0.1"], "expected HOST:PORT such as 127.0.0.1:7777"),
    ],
)
def test_a_flag_that_does_not_fit_is_a_usage_error(shell: Shell, words: list[str], told: str) -> None:
    done = shell.run("serve", *words, module="hermes_daemon")
    assert done.returncode == 2
    assert told in done.stderr
    assert not Path(shell.env["HERMES_HOME"]).exists()


def test_what_others_can_reach_is_refused_without_allow_remote_and_nothing_is_touched(shell: Shell) -> None:
    done = shell.run("serve", "--listen", "tcp://0.0.0.0:0", module="hermes_daemon")
    assert done.returncode == spawn.EXIT_REFUSED
    assert "other machines could reach it" in done.stderr
    assert "--allow-remote" in done.stderr
    assert not Path(shell.env["HERMES_HOME"], "state.db").exists()
    assert not Path(shell.env["HERMES_HOME"], "token").exists()
    assert not state_of(shell.address)


def test_with_allow_remote_the_token_is_asked_for(shell: Shell) -> None:
    words = ("serve", "--listen", "tcp://0.0.0.0:0", "--allow-remote")
    with shell.start(*words, module="hermes_daemon") as child:
        wait_for(lambda: state_of(shell.address))
        port = state_of(shell.address)["endpoints"][1].rpartition(":")[2]
        shell.env["HERMES_DAEMON_TOKEN_FILE"] = os.devnull
        done = shell.run("--daemon", f"tcp://127.0.0.1:{port}", "sessions", "list")
        assert done.returncode == spawn.EXIT_REFUSED
        assert "needs the daemon's token" in done.stderr
        child.terminate()
        child.wait(20)


def test_a_port_in_use_is_told_in_log_and_status_while_the_unix_socket_serves(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with running_daemon(tmp_path, f"listen:\n  tcp: ['127.0.0.1:{port}']\n") as daemon:
            assert list(urls(daemon)) == ["unix"]
            with Connection.open(daemon.socket_path) as connection:
                connection.initialize("test")
                warnings = connection.request("hermes/daemon/status", {}, 10)["warnings"]
            told = f"not listening on tcp://127.0.0.1:{port}: address already in use"
            assert told in warnings
            assert told in Path(daemon.address.log_path).read_text()


def test_a_second_daemon_with_the_same_listener_leaves_before_it_listens(tmp_path: Path) -> None:
    """The handed case rpc/daemon-without-transport, with a network listener: the second touches nothing."""
    with running_daemon(tmp_path, LISTEN) as daemon:
        with Connection.open(daemon.socket_path) as connection:
            connection.initialize("test")
            connection.request("hermes/session/list", {}, 20)  # its database is open
        before = sorted(os.listdir(daemon.address.home))
        done = subprocess.run(
            [sys.executable, "-m", "hermes_daemon", "serve", "--listen", urls(daemon)["tcp"]],
            env=daemon.environ, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert done.returncode == spawn.EXIT_TRY_AGAIN
        assert "already runs for this home" in done.stderr
        assert sorted(os.listdir(daemon.address.home)) == before


def test_a_listen_section_that_does_not_fit_listens_on_nothing_and_is_told(tmp_path: Path) -> None:
    with running_daemon(tmp_path, "listen:\n  tcp: 127.0.0.1:0\n") as daemon:
        assert list(urls(daemon)) == ["unix"]
        with Connection.open(daemon.socket_path) as connection:
            connection.initialize("test")
            connection.request("hermes/session/list", {}, 20)
            warnings = connection.request("hermes/daemon/status", {}, 10)["warnings"]
        assert any("listen.tcp: expected a list" in text for text in warnings), warnings


def test_commands_talk_to_the_daemon_that_is_named(shell: Shell, tmp_path: Path) -> None:
    """Another user's home: nothing is started there, the answer comes from the named daemon."""
    with running_daemon(tmp_path / "far", LISTEN + "model:\n  default: scripted/echo\n") as daemon:
        url, file = urls(daemon)["tcp"], f"{daemon.address.home}/token"
        asked = shell.run("chat", "-q", "are you there", "--daemon", url, f"--token-file={file}")
        assert asked.returncode == 0, asked.stderr
        assert "are you there" in asked.stdout
        shell.env |= {"HERMES_DAEMON": url, "HERMES_DAEMON_TOKEN_FILE": file}
        rows = json.loads(shell.run("sessions", "list", "--json").stdout)
        assert len(rows) == 1
        assert json.loads(shell.run("daemon", "status", "--json").stdout)["pid"] == daemon.pid
        for verb in ("start", "stop", "restart", "logs"):
            done = shell.run("daemon", verb)
            assert done.returncode == spawn.EXIT_REFUSED
            assert f"`hermes daemon {verb}` is for this user's own daemon, not for {url}" in done.stderr
        assert shell.daemon_pid() is None
    done = shell.run("sessions", "list")
    assert done.returncode == spawn.EXIT_NOT_RUNNING
    assert f"no daemon answers at {url}" in done.stderr
    assert shell.daemon_pid() is None


@pytest.mark.parametrize("words", [["--daemon"], ["sessions", "list", "--token-file"], ["chat", "--daemon="]])
def test_an_option_without_its_value_is_a_usage_error(shell: Shell, words: list[str]) -> None:
    done = shell.run(*words)
    assert done.returncode == 2
    assert "after it" in done.stderr


def test_behind_two_dashes_words_are_words(shell: Shell) -> None:
    done = shell.run("sessions", "search", "--", "--daemon", "tcp://127.0.0.1:1")
    assert "nothing found" in done.stderr
