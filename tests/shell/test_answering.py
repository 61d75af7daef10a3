"""`hermes approve`, `hermes deny`, `hermes answer`."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.local_daemon import LocalDaemon
from tests.support.local_shell import Shell
from tests.support.shell_requests import CLARIFY, FORM, PERMISSION, SECRET, Asked, answered

OTHER = {**PERMISSION, "requestId": "r-other"}


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("approve",), "yes"),
        (("approve", "r-perm"), "yes"),
        (("approve", "r-p", "once"), "yes"),
        (("approve", "r-p", "yes"), "yes"),
        (("approve", "r-p", "allow_once"), "yes"),
        (("approve", "--session-long"), "ses"),
        (("deny",), "no"),
        (("deny", "r-perm"), "no"),
        (("answer", "r-perm", "session"), "ses"),
        (("answer", "r-perm"), "yes"),
    ],
)
def test_a_permission_is_answered_by_who_is_subscribed(shell: Shell, words: tuple[str, ...], option: str) -> None:
    with LocalDaemon(shell.address.socket_path, Asked(CLARIFY, PERMISSION).answer) as daemon:
        done = shell.run(*words)
    assert (done.returncode, done.stdout) == (0, "taken\n")
    assert answered(daemon) == {"optionId": option}
    methods = [frame["method"] for frame in daemon.frames]
    assert methods.index("hermes/session/subscribe") < methods.index("hermes/request/answer")
    hello = next(frame for frame in daemon.frames if frame["method"] == "initialize")["params"]["hermes"]
    assert set(hello["capabilities"]["requests"]) == {"permission", "clarify", "secret", "form"}


def test_words_ride_on_a_denial(shell: Shell) -> None:
    with LocalDaemon(shell.address.socket_path, Asked(PERMISSION).answer) as daemon:
        shell.run("deny", "--feedback", "keep it")
    assert answered(daemon) == {"optionId": "no", "feedback": "keep it"}


def test_where_several_are_open_they_are_listed_and_one_has_to_be_named(shell: Shell) -> None:
    with LocalDaemon(shell.address.socket_path, Asked(PERMISSION, OTHER).answer) as daemon:
        done = shell.run("approve")
    assert done.returncode == 2
    assert "r-perm" in done.stdout
    assert "r-other" in done.stdout
    assert "2 requests are open: name the one that is meant" in done.stderr
    assert answered(daemon) is None


def test_where_none_asks_for_a_permission_it_is_said(shell: Shell) -> None:
    with LocalDaemon(shell.address.socket_path, Asked(CLARIFY).answer):
        done = shell.run("approve")
    assert (done.returncode, "`hermes answer REQUEST`" in done.stderr) == (2, True)
    os.unlink(shell.address.socket_path)
    with LocalDaemon(shell.address.socket_path, Asked().answer):
        done = shell.run("deny")
    assert (done.returncode, "nothing is waiting" in done.stderr) == (1, True)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("approve", "r-perm", "maybe"), 2, "'maybe' is not offered for this call: expected one of yes (Allow once)"),
        (("approve", "r-perm", "--always"), 2, "'allow_always' is not offered for this call"),
        (("approve", "--always", "--session-long"), 2, "exclude each other"),
        (("approve", "r-two"), 5, "no single request 'r-two' is open"),
        (("approve", "r"), 5, "give more of its id"),
        (("approve", "r-clar"), 5, "use `hermes answer`"),
        (("answer", "r-clar", "3"), 2, "db: expected a number from 1 to 2, got '3'"),
        (("answer", "r-clar", "1", "1", "1"), 2, "2 are open, '1' is too much"),
        (("answer", "r-clar"), 2, "no answer was given:"),
        (("answer", "r-secr", "hunter2"), 2, "a secret is not taken from the command line"),
        (("answer", "r-secr"), 2, "no value was given"),
        (("answer", "r-form", "port"), 2, "'port': expected NAME=VALUE with NAME one of port, host"),
        (("answer", "r-form", "port=0"), 2, "port: expected at least 1, got 0"),
        (("answer", "r-form", "host=x"), 2, "port is needed"),
    ],
)
def test_an_answer_that_does_not_fit_is_not_sent(shell: Shell, words: tuple[str, ...], code: int, message: str) -> None:
    rows = (PERMISSION, OTHER, CLARIFY, SECRET, FORM)
    with LocalDaemon(shell.address.socket_path, Asked(*rows).answer) as daemon:
        done = shell.run(*words)
    assert done.returncode == code
    assert message in done.stderr
    assert answered(daemon) is None


@pytest.mark.parametrize(
    ("words", "stdin", "answer"),
    [
        (("r-clar", "2", "1,2"), "", {"answers": {"db": {"choice": "sqlite"}, "days": {"choices": ["mon", "tue"]}}}),
        (("r-clar", "days=never", "1"), "", {"answers": {"days": {"text": "never"}, "db": {"choice": "postgres"}}}),
        (("r-clar", "1", "--skip"), "", {"answers": {"db": {"choice": "postgres"}, "days": {"skip": True}}}),
        (("r-clar", "--decline"), "", {"decline": True}),
        (("r-secr",), "hunter2 \n", {"value": "hunter2 "}),
        (("r-form", "port=80"), "", {"values": {"port": 80, "host": "localhost"}}),
        (("r-form", "port=80", "host=a=b"), "", {"values": {"port": 80, "host": "a=b"}}),
    ],
)
def test_every_kind_is_answered(shell: Shell, words: tuple[str, ...], stdin: str, answer: dict[str, Any]) -> None:
    with LocalDaemon(shell.address.socket_path, Asked(CLARIFY, SECRET, FORM).answer) as daemon:
        done = shell.run("answer", *words, stdin=stdin)
    assert (done.returncode, done.stderr) == (0, "")
    assert answered(daemon) == answer
    assert "hunter2" not in done.stdout


def on_a_terminal(shell: Shell, *words: str, typed: str) -> tuple[int, str]:
    """Run a command on a terminal of its own; its exit code and all that the terminal showed."""
    keyboard, terminal = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", "hermes_shell", *words],
        cwd=shell.work,
        env=shell.env,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
    )
    os.close(terminal)
    shown = b""
    with child:
        for line in typed.splitlines(keepends=True):
            while not shown.rstrip(b" ").endswith(b":"):
                shown += os.read(keyboard, 4096)
            shown += b"\n"
            os.write(keyboard, line.encode())
        code = child.wait(60)
    try:
        while piece := os.read(keyboard, 4096):
            shown += piece
    except OSError:
        pass  # the terminal ends with its program
    os.close(keyboard)
    return code, shown.decode()


def test_on_a_terminal_questions_are_asked_until_the_answer_fits(shell: Shell) -> None:
    with LocalDaemon(shell.address.socket_path, Asked(CLARIFY).answer) as daemon:
        code, shown = on_a_terminal(shell, "answer", "r-clar", typed="7\n2\n\n")
    assert code == 0, shown
    assert "expected a number from 1 to 2, got '7" in shown
    assert answered(daemon) == {"answers": {"db": {"choice": "sqlite"}, "days": {"skip": True}}}


def test_on_a_terminal_a_form_is_asked_field_by_field(shell: Shell) -> None:
    with LocalDaemon(shell.address.socket_path, Asked(FORM).answer) as daemon:
        code, shown = on_a_terminal(shell, "answer", "r-form", typed="x\n80\n\n")
    assert code == 0, shown
    assert answered(daemon) == {"values": {"port": 80, "host": "localhost"}}


def test_on_a_terminal_a_secret_is_not_shown(shell: Shell) -> None:
    with LocalDaemon(shell.address.socket_path, Asked(SECRET).answer) as daemon:
        code, shown = on_a_terminal(shell, "answer", "r-secr", typed="hunter2\n")
    assert code == 0, shown
    assert "hunter2" not in shown
    assert answered(daemon) == {"value": "hunter2"}


def test_json_lists_what_is_open(shell: Shell) -> None:
    with LocalDaemon(shell.address.socket_path, Asked(PERMISSION).answer):
        assert json.loads(shell.run("approve", "--json").stdout) == [PERMISSION]
