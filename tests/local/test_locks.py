"""Locks that end with their holder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from hermes_local import locks

HOLD = """
import sys
from hermes_local import locks
held = locks.try_lock(sys.argv[1])
print(held is not None, flush=True)
sys.stdin.read()
"""


def holder(path: Path) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "True\n"
    return child


def test_a_lock_keeps_others_out_until_it_is_released(tmp_path: Path) -> None:
    path = str(tmp_path / "a.lock")
    held = locks.try_lock(path)
    assert held is not None
    assert locks.try_lock(path) is None
    assert locks.is_locked(path)
    held.release()
    held.release()
    again = locks.try_lock(path)
    assert again is not None
    again.release()


def test_looking_at_a_free_lock_makes_no_file(tmp_path: Path) -> None:
    assert not locks.is_locked(str(tmp_path / "a.lock"))
    assert not (tmp_path / "a.lock").exists()


def test_a_killed_holder_holds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    with holder(path) as child:
        assert locks.is_locked(str(path))
        child.kill()
        child.wait()
        assert not locks.is_locked(str(path))


def test_a_lock_file_is_for_its_owner_and_says_what_was_written_last(tmp_path: Path) -> None:
    held = locks.try_lock(str(tmp_path / "a.lock"))
    assert held is not None
    held.write("a long first text")
    held.write("short")
    held.release()
    assert (tmp_path / "a.lock").read_text() == "short"
    assert (tmp_path / "a.lock").stat().st_mode & 0o777 == 0o600
