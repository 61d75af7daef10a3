"""`hermes daemon` and `hermes config` against the real daemon."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.local_shell import Shell, wait_for


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with Shell(tmp_path) as user:
        yield user


def test_start_status_restart_stop(shell: Shell) -> None:
    assert shell.run("daemon", "start").stdout.startswith("started: pid ")
    assert shell.run("daemon", "start").stdout.startswith("already running: pid ")
    first = json.loads(shell.run("daemon", "status", "--json").stdout)
    assert first["running"]
    assert first["pid"] == shell.daemon_pid()
    assert "hermes daemon" in shell.run("daemon", "status").stdout
    assert shell.run("daemon", "restart").returncode == 0
    second = json.loads(shell.run("daemon", "status", "--json").stdout)
    assert second["bootId"] != first["bootId"]
    stopped = shell.run("daemon", "stop")
    assert (stopped.returncode, stopped.stdout) == (0, "stopped\n")
    assert not Path(shell.address.socket_path).exists()
    assert not Path(shell.address.state_path).exists()


def test_without_a_daemon_status_and_stop_exit_with_3(shell: Shell) -> None:
    assert shell.run("daemon", "stop").returncode == 3
    status = shell.run("daemon", "status", "--json")
    assert status.returncode == 3
    assert json.loads(status.stdout)["running"] is False
    assert shell.run("daemon", "reload").returncode == 3
    assert shell.daemon_pid() is None


def test_a_daemon_that_does_not_answer_is_only_ended_by_force(shell: Shell) -> None:
    shell.run("daemon", "start")
    pid = shell.daemon_pid()
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    forced = shell.run("daemon", "stop", "--now")
    assert forced.returncode == 0
    assert forced.stdout == f"stopped by force (pid {pid})\n"
    assert shell.daemon_pid() is None


def test_a_running_turn_is_ended_by_now_and_shown_to_who_waits_for_it(shell: Shell) -> None:
    with shell.start("chat", "--json", "-q", "x", "-m", "scripted/hang") as child:
        assert child.stdout is not None
        assert json.loads(child.stdout.readline())["kind"] == "turn.started"
        assert shell.run("daemon", "stop", "--now").returncode == 0
        rest, _ = child.communicate(timeout=60)
    last = json.loads(rest.splitlines()[-1])
    assert last["kind"] == "turn.ended"
    assert last["data"]["status"] in ("interrupted", "lost")
    assert child.returncode == 1


def test_a_turn_whose_daemon_is_killed_is_told_as_lost(shell: Shell) -> None:
    with shell.start("chat", "-q", "x", "-m", "scripted/words?n=1000000&delay_ms=20") as child:
        assert child.stdout is not None
        assert child.stdout.read(5) == "word0"
        shell.kill_daemon()
        _, err = child.communicate(timeout=60)
    assert child.returncode == 1
    assert "connecting again" in err
    assert "lost" in err


def test_ctrl_c_ends_the_turn_in_the_daemon(shell: Shell) -> None:
    with shell.start("chat", "--json", "-q", "x", "-m", "scripted/hang") as child:
        assert child.stdout is not None
        session_id = json.loads(child.stdout.readline())["sessionId"]
        child.send_signal(signal.SIGINT)
        rest, _ = child.communicate(timeout=60)
    assert child.returncode == 130
    assert json.loads(rest.splitlines()[-1])["data"]["status"] == "interrupted"
    assert json.loads(shell.run("sessions", "show", session_id, "--json").stdout)["state"] == "idle"


def test_the_log_is_shown_and_followed(shell: Shell) -> None:
    missing = shell.run("daemon", "logs")
    assert missing.returncode == 3
    log = Path(shell.address.log_path)
    log.parent.mkdir(parents=True)
    log.write_text("".join(f"line {number}\n" for number in range(100)))
    assert shell.run("daemon", "logs", "-n", "2").stdout == "line 98\nline 99\n"
    with shell.start("daemon", "logs", "-f", "-n", "1") as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "line 99\n"
        with log.open("a") as file:
            file.write("fresh\n")
        assert child.stdout.readline() == "fresh\n"
        log.rename(log.with_suffix(".1"))
        log.write_text("after rotation\n")
        assert child.stdout.readline() == "after rotation\n"
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=60)
    assert child.returncode == 130


def test_the_daemons_own_command_has_the_same_words(shell: Shell) -> None:
    assert shell.run("status", module="hermes_daemon").returncode == 3
    assert shell.run("start", module="hermes_daemon").stdout.startswith("started")
    assert shell.run("stop", "--now", module="hermes_daemon").stdout == "stopped\n"


def test_a_setting_is_written_read_back_and_taken_up_by_the_running_daemon(shell: Shell) -> None:
    assert shell.run("config", "path").stdout == f"{shell.env['HERMES_HOME']}/config.yaml\n"
    assert shell.run("config", "get", "agent.max_rounds").stdout == "90\n"
    changed = shell.run("config", "set", "agent.max_rounds", "7")
    assert changed.returncode == 0
    assert "changed: agent.max_rounds" in changed.stdout
    assert shell.run("config", "get", "agent.max_rounds").stdout == "7\n"
    assert shell.run("config", "validate").returncode == 0


def test_a_setting_that_does_not_fit_is_refused_and_nothing_is_written(shell: Shell) -> None:
    refused = shell.run("config", "set", "agent.max_rounds", "many")
    assert refused.returncode == 1
    assert "max_rounds" in refused.stderr
    assert not Path(shell.env["HERMES_HOME"], "config.yaml").exists()
    unknown = shell.run("config", "get", "nosuch")
    assert unknown.returncode == 5


def test_the_daemon_stops_by_signal_and_leaves_nothing_behind(shell: Shell) -> None:
    shell.run("daemon", "start")
    pid = shell.daemon_pid()
    assert pid is not None
    os.kill(pid, signal.SIGTERM)
    wait_for(lambda: shell.daemon_pid() is None)
    assert not Path(shell.address.socket_path).exists()
    assert not Path(shell.address.state_path).exists()


def test_the_default_model_is_chosen_with_one_command(shell: Shell) -> None:
    assert shell.run("model", "scripted/echo").returncode == 0
    assert shell.run("model").stdout == "scripted/echo\n"
    assert shell.run("chat", "-q", "by default").stdout == "by default\n"
