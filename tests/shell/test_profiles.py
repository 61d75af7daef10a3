"""Profiles."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_local import locks
from hermes_local.address import resolve
from tests.support.local_shell import Shell


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_a_profile_is_made_listed_and_removed(shell: Shell) -> None:
    made = shell.run("profiles", "create", "work")
    home = Path(shell.env["HERMES_HOME"], "profiles", "work")
    assert made.returncode == 0
    assert home.stat().st_mode & 0o777 == 0o700
    assert "work" in shell.run("profiles").stdout
    assert shell.run("profiles", "create", "work").returncode == 1
    assert shell.run("profiles", "remove", "work", "--yes").returncode == 0
    assert not home.exists()
    assert shell.run("profiles", "remove", "work", "--yes").returncode == 1


def test_a_profile_made_first_leaves_no_folder_above_it_open_to_others(shell: Shell) -> None:
    root = Path(shell.env["HERMES_HOME"], "new")
    shell.env["HERMES_HOME"] = str(root)
    assert shell.run("profiles", "create", "work").returncode == 0
    assert [path.stat().st_mode & 0o777 for path in (root, root / "profiles")] == [0o700, 0o700]


def test_nothing_is_removed_without_a_word(shell: Shell) -> None:
    shell.run("profiles", "create", "work")
    done = shell.run("profiles", "remove", "work")
    assert done.returncode == 2
    assert "say --yes" in done.stderr
    assert Path(shell.env["HERMES_HOME"], "profiles", "work").exists()


def test_a_profile_whose_daemon_runs_is_kept(shell: Shell) -> None:
    shell.run("profiles", "create", "work")
    assert shell.address
    held = locks.try_lock(resolve(shell.env, "work").lock_path)
    assert held is not None
    done = shell.run("profiles", "remove", "work", "--yes")
    held.release()
    assert done.returncode == 1
    assert "daemon is running" in done.stderr


@pytest.mark.parametrize("name", ["default", "../etc", "A"])
def test_names_that_are_none_are_refused(shell: Shell, name: str) -> None:
    assert shell.run("profiles", "create", name).returncode in (2, 69)
    assert shell.run("profiles", "remove", name, "--yes").returncode in (2, 69)


def test_a_profile_that_was_never_made_is_not_made_by_a_slip(shell: Shell) -> None:
    done = shell.run("-p", "wrok", "chat", "-q", "hi", "--model", "scripted/echo")
    assert done.returncode == 5
    assert done.stderr == "hermes: there is no profile 'wrok'; `hermes profiles create wrok` makes it\n"
    assert not Path(shell.env["HERMES_HOME"], "profiles", "wrok").exists()
