"""`hermes requests`: what is open, as a list and whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hermes_shell import questions
from tests.support.local_daemon import LocalDaemon
from tests.support.local_shell import Shell
from tests.support.shell_requests import CLARIFY, FORM, PERMISSION, SECRET, Asked


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_open_requests_of_every_kind_are_listed(shell: Shell) -> None:
    with LocalDaemon(shell.address.socket_path, Asked(PERMISSION, CLARIFY, SECRET, FORM).answer) as daemon:
        done = shell.run("requests", "--session", "s1")
    for told in (
        "r-perm",
        "yes ses no",
        "terminal: rm x",
        "r-clar",
        "Which? / Days?",
        "The password",
        "42 s",
        "Where?",
    ):
        assert told in done.stdout
    listed = next(frame for frame in daemon.frames if frame["method"] == "hermes/request/list")
    assert listed["params"] == {"sessionId": "s1"}


def test_nothing_open_is_said_and_json_is_for_programs(shell: Shell) -> None:
    with LocalDaemon(shell.address.socket_path, Asked().answer):
        assert "nothing is waiting" in shell.run("requests").stderr
        assert json.loads(shell.run("requests", "--json").stdout) == []


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (PERMISSION, ["terminal: rm x", "yes: Allow once", "answer: hermes approve r-perm, or hermes deny r-perm"]),
        (CLARIFY, ["db: Which?", "1 postgres", "answer: hermes answer r-clar [QUESTION=]ANSWER …"]),
        (SECRET, ["The password", "answer: hermes answer r-secr"]),
        (FORM, ["port: port (whole number from 1)", "answer: hermes answer r-form NAME=VALUE …"]),
    ],
)
def test_one_request_is_shown_whole_with_how_it_is_answered(row: dict[str, Any], told: list[str]) -> None:
    text = "\n".join(questions.described(row))
    for words in told:
        assert words in text


def test_only_questions_nobody_answered_are_left() -> None:
    answered = [{"id": "db", "status": "answered"}, {"id": "days", "status": "open"}]
    assert [row["id"] for row in questions.unanswered({**CLARIFY, "answered": answered})] == ["days"]
