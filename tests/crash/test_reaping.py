"""What a killed daemon's tools leave running: the next start ends exactly that. Acceptance check 13 of the protocol."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.crash.test_endings import Scene, scene  # noqa: F401 (a fixture)
from tests.support.local_shell import wait_for

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="processes are found through /proc")


def stubborn(folder: Path) -> str:
    """A model whose tool ignores TERM, has a child in its group and a grandchild; their pids go into files."""
    inner = f"trap '' TERM; sleep 1000 & echo $! > {folder}/grandchild; echo $$ > {folder}/child; wait; sleep 1000"
    command = f"trap '' TERM; echo $$ > {folder}/leader; bash -c \"{inner.replace('$', chr(92) + '$')}\""
    return f"scripted/tool?name=terminal&args={quote(json.dumps({'command': command}))}"


def pids(folder: Path) -> list[int]:
    files = [folder / name for name in ("leader", "child", "grandchild")]
    wait_for(lambda: all(file.exists() and file.read_text().strip() for file in files))
    return [int(file.read_text()) for file in files]


def alive(pid: int) -> bool:
    """Whether the process runs; one that is dead and not waited for by its parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@contextlib.contextmanager
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A process that is none of ours."""
    process = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_the_next_start_ends_the_whole_group_of_a_killed_daemons_tool_and_no_process_with_a_reused_pid(
    scene: Scene,  # noqa: F811
) -> None:
    scene.start()
    session = scene.session(stubborn(scene.folder), mode="off")
    scene.submit(session, "run it")
    left = pids(scene.folder)
    assert f"process {left[0]} of {session}" in scene.witness.ask("hermes/daemon/status", {})["idle"]["holders"]
    scene.daemon.kill()
    assert all(alive(pid) for pid in left), "kill -9 of the daemon ends no tool"
    with bystander() as stranger:
        with sqlite3.connect(scene.folder / "home" / "state.db") as database:
            columns = [row[1] for row in database.execute("PRAGMA table_info(processes)")]
            (row,) = database.execute("SELECT * FROM processes").fetchall()
            reused = {**dict(zip(columns, row, strict=True)), "pid": stranger.pid, "started": "earlier", "marker": "m"}
            marks = ", ".join("?" * len(columns))
            database.execute(f"INSERT INTO processes VALUES ({marks})", [reused[name] for name in columns])
        database.close()
        scene.start()
        scene.witness.ask("hermes/session/get", {"sessionId": session})  # answered when everything is open
        status = scene.witness.ask("hermes/daemon/status", {})
        assert not any(alive(pid) for pid in left)
        assert stranger.poll() is None
        (told,) = [text for text in status["warnings"] if "left by an earlier run" in text]
        assert all(str(pid) in told for pid in left)
        assert str(stranger.pid) not in told.rpartition(":")[2]
        assert status["children"] == 0
    scene.witness.judge(session, {})


def test_a_stop_ends_a_group_that_ignores_term_within_the_grace(scene: Scene) -> None:  # noqa: F811
    scene.start()
    session = scene.session(stubborn(scene.folder), mode="off")
    scene.submit(session, "run it")
    left = pids(scene.folder)
    os.kill(scene.daemon.pid, signal.SIGTERM)
    assert scene.ended() == 0
    assert not any(alive(pid) for pid in left)
    assert scene.statuses(session) == ["interrupted"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_waits_for_no_grace(scene: Scene, number: int) -> None:  # noqa: F811
    # Whoever waited for this grace would not be done within the test's patience of half a minute.
    scene.config.write_text("agent: {interrupt_grace_s: 600}\nterminal: {grace_s: 600}\ndaemon: {idle_exit_s: 0}\n")
    scene.start()
    session = scene.session(stubborn(scene.folder), mode="off")
    scene.submit(session, "run it")
    left = pids(scene.folder)
    os.kill(scene.daemon.pid, number)
    note = scene.witness.note("hermes/daemon/state")
    assert note == {"state": "stopping", "reason": "signal"}
    assert scene.daemon.process is not None
    assert scene.daemon.process.poll() is None
    os.kill(scene.daemon.pid, number)
    assert scene.ended() == 0
    assert not any(alive(pid) for pid in left)
    scene.start()
    scene.witness.judge(session, {})
