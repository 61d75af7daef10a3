"""Two real builds on one home: whichever is older, turns in flight end whole and the other build takes over.

Acceptance check 11 of the protocol: old client on new daemon and the reverse, with extra and missing fields.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_local.spawn import EXIT_TRY_AGAIN, EXIT_VERSION
from tests.support.local_shell import Shell, wait_for
from tests.support.other_build import OTHER_FIELDS, OTHER_HELLO, Build

WORDS = "scripted/words?n=300&delay_ms=10"
ALL_WORDS = [f"word{number}" for number in range(300)]


class Users:
    """Two installations for one user: `use` chooses which one the next command runs with."""

    def __init__(self, place: Path, shell: Shell) -> None:
        self.shell = shell
        self.paths = {"this": shell.env["PYTHONPATH"]}
        self.other = Build(place / "other")
        self.paths["other"] = f"{self.other.path}:{shell.env['PYTHONPATH']}"

    def use(self, which: str) -> Shell:
        self.shell.env["PYTHONPATH"] = self.paths[which]
        return self.shell


@pytest.fixture
def users(tmp_path: Path) -> Iterator[Users]:
    with Shell(tmp_path) as shell:
        yield Users(tmp_path, shell)


@pytest.mark.parametrize(("client", "daemon"), [("this", "other"), ("other", "this")])
def test_without_a_common_version_either_side_drains_the_other_and_its_turn_ends_whole(
    users: Users, client: str, daemon: str
) -> None:
    users.other.change(OTHER_FIELDS).change(OTHER_HELLO).speak("2.0")
    speaks = {"this": "1.0", "other": "2.0"}
    with users.use(daemon).start("chat", "-q", "count", "-m", WORDS) as talking:
        assert talking.stdout is not None
        first = talking.stdout.read(5)
        assert first == "word0"
        shell, pid = users.use(client), users.shell.daemon_pid()

        refused = shell.run("chat", "-q", "hello", "-m", "scripted/echo")
        assert refused.returncode == EXIT_VERSION
        assert refused.stdout == ""
        assert f"speaks {speaks[daemon]}, this client {speaks[client]}" in refused.stderr
        assert "hermes daemon restart" in refused.stderr

        status = shell.run("daemon", "status")
        assert status.returncode == 0, status.stderr
        assert "no protocol in common" in status.stdout
        assert f"pid          {pid}\n" in status.stdout
        assert "turn of " in status.stdout
        assert "hermes daemon restart" in shell.run("doctor").stdout

        restarted = shell.run("daemon", "restart")
        assert restarted.returncode == 0, restarted.stderr
        assert "waiting for turn of" in restarted.stderr
        rest = talking.stdout.read()
    assert talking.returncode == 0
    assert (first + rest).split() == ALL_WORDS
    assert shell.run("chat", "-q", "hello", "-m", "scripted/echo").stdout == "hello\n"
    assert shell.daemon_pid() != pid
    sessions = json.loads(shell.run("sessions", "list", "--json").stdout)
    assert len(sessions) == 2
    assert users.use(daemon).run("chat", "-q", "x", "-m", "scripted/echo").returncode == EXIT_VERSION


@pytest.mark.parametrize(("client", "daemon"), [("this", "other"), ("other", "this")])
def test_with_a_common_version_extra_and_missing_fields_change_nothing(users: Users, client: str, daemon: str) -> None:
    users.other.change(OTHER_FIELDS).upgrade("0.1.0", "0.2.0")
    assert users.use(daemon).run("daemon", "start").returncode == 0
    shell = users.use(client)
    assert shell.run("chat", "-q", "hello", "-m", "scripted/echo").stdout == "hello\n"
    status = shell.run("daemon", "status")
    versions = {"this": "0.1.0", "other": "0.2.0"}
    assert f"{versions[daemon]} (this client is {versions[client]})" in status.stdout
    assert "hermes daemon restart" in shell.run("doctor").stdout


def test_a_daemon_whose_code_was_replaced_says_so_leaves_when_quiescent_and_the_next_client_starts_the_new_one(
    users: Users,
) -> None:
    shell = users.use("other")
    with shell.start("chat", "-q", "count", "-m", WORDS) as talking:
        assert talking.stdout is not None
        first = talking.stdout.read(5)
        assert first == "word0"
        users.other.upgrade("0.1.0", "0.2.0")
        status = json.loads(shell.run("daemon", "status", "--json").stdout)
        assert status["stale"] is True
        assert status["version"] == "0.1.0"
        assert status["handover"]["state"] == "stale"
        assert "handover     leaves as soon as nothing keeps it" in shell.run("daemon", "status").stdout
        assert "stale" in shell.run("doctor").stdout
        rest = talking.stdout.read()
    assert (first + rest).split() == ALL_WORDS
    wait_for(lambda: shell.daemon_pid() is None)
    assert shell.run("chat", "-q", "hello", "-m", "scripted/echo").stdout == "hello\n"
    fresh = json.loads(shell.run("daemon", "status", "--json").stdout)
    assert (fresh["version"], fresh["stale"]) == ("0.2.0", False)
    assert fresh["bootId"] != status["bootId"]
    assert fresh["buildId"] != status["buildId"]


def test_while_it_drains_status_tells_what_the_lock_file_says_and_clients_wait_for_the_next_one(users: Users) -> None:
    shell = users.use("this")
    with shell.start("chat", "-q", "count", "-m", "scripted/words?n=200&delay_ms=10") as talking:
        assert talking.stdout is not None
        talking.stdout.read(5)
        first = shell.daemon_pid()
        with shell.start("daemon", "restart", "--drain") as restarting:
            wait_for(lambda: not Path(shell.address.socket_path).exists())
            status = shell.run("daemon", "status")
            told = shell.run("daemon", "status", "--json")
            late = shell.run("chat", "-q", "hello", "-m", "scripted/echo")
            restarting.communicate(timeout=60)
        talking.communicate(timeout=60)
    assert status.returncode == told.returncode == EXIT_TRY_AGAIN
    assert status.stdout.startswith("state        draining\n")
    assert f"pid {first} is draining, for" in status.stdout
    assert "another one is to follow" in status.stdout
    handover = json.loads(told.stdout)["handover"]
    assert (handover["state"], handover["restart"]) == ("draining", True)
    assert 0 <= handover["deadlineS"] <= 30
    assert (late.returncode, late.stdout) == (0, "hello\n")
    assert talking.returncode == restarting.returncode == 0
    assert shell.daemon_pid() not in (None, first)
