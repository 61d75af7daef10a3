"""`hermes sessions` against the real daemon."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.local_shell import Shell

ECHO = ("-m", "scripted/echo")


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    with Shell(tmp_path_factory.mktemp("sessions")) as user:
        yield user


def rows(shell: Shell, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(shell.run("sessions", "list", "--json", *words).stdout)
    return found


def asked(shell: Shell, text: str) -> str:
    """A new session with one exchange; its id."""
    done = shell.run("chat", "--json", "-q", text, *ECHO)
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout.splitlines()[0])["sessionId"])


def test_a_session_is_listed_shown_renamed_exported_found_and_deleted(shell: Shell) -> None:
    session_id = asked(shell, "the quick brown aardvark")
    assert session_id in [row["sessionId"] for row in rows(shell)]
    shown = shell.run("sessions", "show", session_id[:-3])
    assert "> the quick brown aardvark" in shown.stdout
    assert shell.run("sessions", "rename", session_id, "About", "animals").returncode == 0
    assert "About animals" in shell.run("sessions").stdout
    found = shell.run("sessions", "search", "aardvark")
    assert session_id in found.stdout
    as_json = json.loads(shell.run("sessions", "export", session_id, "--format", "json").stdout)
    assert [item["type"] for item in as_json["items"]] == ["userMessage", "agentMessage"]
    assert "## Assistant\n\nthe quick brown aardvark" in shell.run("sessions", "export", session_id).stdout
    assert shell.run("sessions", "delete", session_id).returncode == 0
    assert session_id not in [row["sessionId"] for row in rows(shell)]
    gone = shell.run("sessions", "show", session_id)
    assert gone.returncode == 5
    assert "deleted" in gone.stderr


def test_an_export_to_a_file_is_for_its_owner_only(shell: Shell, tmp_path: Path) -> None:
    session_id = asked(shell, "keep this")
    target = tmp_path / "out.md"
    assert shell.run("sessions", "export", session_id, "-o", str(target)).returncode == 0
    assert "keep this" in target.read_text()
    assert target.stat().st_mode & 0o777 == 0o600
    failed = shell.run("sessions", "export", session_id, "-o", str(tmp_path / "no" / "out.md"))
    assert failed.returncode == 1
    assert "cannot write" in failed.stderr


def test_the_list_is_of_one_folder_or_of_one_text_or_short(shell: Shell, tmp_path: Path) -> None:
    asked(shell, "something about zebras")
    assert rows(shell, "--cwd", str(tmp_path)) == []
    assert len(rows(shell, "-n", "1")) == 1
    assert [row["title"] for row in rows(shell, "-q", "zebras")] == ["something about zebras"]


def test_a_search_without_hits_is_exit_code_1(shell: Shell) -> None:
    done = shell.run("sessions", "search", "nosuchwordanywhere")
    assert (done.returncode, done.stdout) == (1, "")


def test_a_session_goes_on_where_it_was(shell: Shell) -> None:
    session_id = asked(shell, "first")
    assert shell.run("chat", "-c", "-q", "second").stdout == "second\n"
    assert shell.run("chat", "-s", session_id, "-q", "third").stdout == "third\n"
    items = json.loads(shell.run("sessions", "export", session_id, "-f", "json").stdout)["items"]
    assert [item["text"] for item in items] == ["first", "first", "second", "second", "third", "third"]
    options = json.loads(shell.run("sessions", "show", session_id, "--json").stdout)["options"]
    assert options["unattended"] == "deny"


def test_text_is_put_into_a_session_and_answered_by_the_daemon_alone(shell: Shell) -> None:
    session_id = asked(shell, "first")
    said = shell.run("say", session_id, "from", "outside")
    assert said.stdout.startswith("started: turn ")
    assert shell.run("chat", "-s", session_id, "-q", "last").stdout == "last\n"
    items = json.loads(shell.run("sessions", "export", session_id, "-f", "json").stdout)["items"]
    assert [item["text"] for item in items if item["type"] == "userMessage"] == ["first", "from outside", "last"]
