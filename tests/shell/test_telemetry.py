"""`hermes daemon telemetry` against the real daemon, and the lines it prints."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from hermes_shell.telemetry import line
from tests.support.local_shell import Shell


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with Shell(tmp_path) as user:
        yield user


def turn(shell: Shell, *words: str) -> str:
    """The session of a finished turn."""
    done = shell.run("chat", "--json", "-q", "hello", "-m", "scripted/echo", *words)
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout.splitlines()[0])["sessionId"])


def test_the_counters_are_what_prometheus_reads(shell: Shell) -> None:
    assert shell.run("daemon", "telemetry").returncode == 3
    turn(shell)
    told = shell.run("daemon", "telemetry")
    assert told.returncode == 0
    turns = {family.name: family for family in text_string_to_metric_families(told.stdout)}["hermes_turns"]
    assert [(sample.labels, sample.value) for sample in turns.samples] == [({"status": "completed"}, 1.0)]
    assert json.loads(shell.run("daemon", "telemetry", "--json").stdout)["text"].startswith("# HELP")


def test_it_follows_one_session_in_full_and_all_of_them_in_numbers(shell: Shell) -> None:
    session = turn(shell)
    with shell.start("daemon", "telemetry", "-f", "--json", session[:12]) as full, shell.start(
        "daemon", "telemetry", "-f"
    ) as numbers:  # fmt: skip
        assert full.stdout is not None
        assert numbers.stdout is not None
        full.stdout.readline(), numbers.stdout.readline()  # they are connected: each is told of the counts
        turn(shell, "--session", session)
        fact = next(told for told in map(json.loads, full.stdout) if told["name"] == "turn")
        assert (fact["sessionId"], fact["attrs"]["model"]) == (session, "scripted/echo")
        shown = next(text for text in numbers.stdout if " turn " in text)
        assert "rounds=1" in shown
        assert "scripted" not in shown
        for child in (full, numbers):
            child.send_signal(signal.SIGINT)
            child.communicate(timeout=60)
        assert (full.returncode, numbers.returncode) == (130, 130)


def test_it_ends_with_the_daemon_and_says_so(shell: Shell) -> None:
    turn(shell)
    with shell.start("daemon", "telemetry", "-f") as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert shell.run("daemon", "stop").returncode == 0
        _, said = child.communicate(timeout=60)
    assert "daemon" in said
    assert child.returncode == 0


def test_a_session_without_follow_is_refused(shell: Shell) -> None:
    refused = shell.run("daemon", "telemetry", "sess_1")
    assert refused.returncode == 2
    assert "--follow" in refused.stderr


def test_a_line_has_the_time_the_name_what_it_is_about_and_plain_attributes() -> None:
    told = {"name": "tool.call", "turnId": "turn_1", "sessionId": "s", "attrs": {"tool": "a b", "durationMs": 1.5,
            "failed": False, "outputBytes": 10}}  # fmt: skip
    assert line(told, "12:00:00") == '12:00:00 tool.call turn_1 tool="a b" durationMs=1.5 failed=no outputBytes=10'
    assert line({"name": "new.kind"}, "12:00:00") == "12:00:00 new.kind"
