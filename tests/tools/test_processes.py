import os
import secrets
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_daemon.core.records import ProcessRow
from hermes_daemon.tools.terminal.processes import MARKER, reap, start_time, strays

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="processes are found through /proc")


def begun(code: str, marker: str) -> subprocess.Popen[bytes]:
    """A Python process in a session of its own that has said that it is ready."""
    process = subprocess.Popen(
        [sys.executable, "-c", f"{code}\nprint(flush=True)\nimport time; time.sleep(300)"],
        env={MARKER: marker, "PATH": os.defpath},
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    return process


def row(pid: int, started: str, marker: str) -> ProcessRow:
    return ProcessRow(pid=pid, started=started, marker=marker, session_id="s", command="python server.py")


def test_a_start_time_names_one_process_for_its_whole_life() -> None:
    assert start_time(os.getpid()) == start_time(os.getpid()) != ""
    gone = subprocess.Popen(["/bin/true"])
    gone.wait()
    assert start_time(gone.pid) == ""


def test_what_a_dead_daemon_left_is_stopped_and_told() -> None:
    marker = secrets.token_hex(8)
    process = begun("", marker)
    (sentence,) = reap((row(process.pid, start_time(process.pid), marker),), 2.0)
    assert process.wait() == -signal.SIGTERM
    assert sentence == f"stopped 1 process(es) left by an earlier run of `python server.py`: {process.pid}"


def test_what_ignores_the_first_signal_is_killed() -> None:
    marker = secrets.token_hex(8)
    process = begun("import signal; signal.signal(15, signal.SIG_IGN)", marker)
    assert reap((row(process.pid, start_time(process.pid), marker),), 0.1)
    assert process.wait() == -signal.SIGKILL


def test_a_child_that_left_the_group_is_found_by_its_marker_when_the_shell_is_gone(tmp_path: Path) -> None:
    marker = secrets.token_hex(8)
    shell = subprocess.Popen(
        ["/bin/sh", "-c", f"setsid sleep 300 >/dev/null 2>&1 & echo $! > {tmp_path}/pid"],
        env={MARKER: marker, "PATH": os.defpath},
        start_new_session=True,
    )
    started = start_time(shell.pid)
    shell.wait()
    assert len(strays(marker)) == 1
    assert len(reap((row(shell.pid, started, marker),), 1.0)) == 1
    assert strays(marker) == []


def test_a_pid_that_was_given_to_another_process_is_left_alone() -> None:
    marker = secrets.token_hex(8)
    bystander = begun("", "another")
    assert reap((row(bystander.pid, "00000000:1", marker), row(bystander.pid, "", marker)), 0.1) == []
    assert bystander.poll() is None
    bystander.kill()
    bystander.wait()


def test_nothing_left_is_nothing_told() -> None:
    assert reap((), 1.0) == []
    assert reap((row(2**22 + 1, "00000000:1", secrets.token_hex(8)),), 1.0) == []
