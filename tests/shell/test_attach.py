"""`hermes attach`: which session is meant. The chat it opens is tests/real/test_tmux_attach.py's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hermes_shell.attach import live, running_in
from tests.support.local_shell import Shell


def row(session_id: str, state: str = "idle", cwd: str = "/w", **more: Any) -> dict[str, Any]:
    return {"sessionId": session_id, "state": state, "cwd": cwd, **more}


def test_live_are_those_that_run_ask_or_have_somebody_attached() -> None:
    rows = [row("idle"), row("watched", clients=1), row("runs", "running"), row("asks", "waiting", openRequests=1)]
    assert [one["sessionId"] for one in live(rows)] == ["asks", "runs", "watched"]


def test_the_only_one_that_runs_here_is_taken_without_asking() -> None:
    here, there = row("a", "running"), row("b", "running", "/elsewhere")
    assert running_in([here, there, row("c", clients=1)], "/w") == "a"
    assert running_in([here, row("d", "waiting")], "/w") == ""
    assert running_in([there], "/w") == ""


def test_without_a_terminal_it_says_what_scripts_use(tmp_path: Path) -> None:
    done = Shell(tmp_path).run("attach", "s1")
    assert done.returncode == 2
    assert "hermes sessions events SESSION --follow" in done.stderr
