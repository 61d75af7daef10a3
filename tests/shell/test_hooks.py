"""`hermes hooks`, and what a chat without a terminal says of hooks that wait."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.local_shell import Shell

HOOKS = """hooks:
  pre_tool_call: [{command: 'echo never >&2; exit 2', matcher: terminal}]
  post_tool_call: [{command: 'true'}]
"""
TOOL = 'scripted/tool?name=terminal&args={"command":"echo it ran"}'


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with Shell(tmp_path) as shell:
        home = Path(shell.env["HERMES_HOME"])
        home.mkdir(mode=0o700)
        (home / "config.yaml").write_text(HOOKS)
        yield shell


def test_a_chat_tells_once_of_hooks_that_wait_and_does_not_run_them(shell: Shell) -> None:
    done = shell.run("chat", "-q", "go", "-m", TOOL, "--yolo")
    assert done.returncode == 0
    assert "it ran" in done.stdout
    assert done.stderr.count("'echo never >&2; exit 2' for pre_tool_call waits for consent: hermes hooks allow") == 1


def test_hooks_are_listed_allowed_by_number_and_revoked(shell: Shell) -> None:
    lines = shell.run("hooks").stdout.splitlines()
    assert lines[1].split()[:5] == ["1", "pre_tool_call", "terminal", "60", "s"]
    assert " waits " in lines[1]
    which = shell.run("hooks", "allow")
    assert which.returncode == 2
    assert "which one?" in which.stderr
    assert shell.run("hooks", "allow", "1").stdout == "allowed: pre_tool_call: echo never >&2; exit 2\n"
    done = shell.run("chat", "-q", "go", "-m", TOOL, "--yolo")
    assert "it ran\n" not in done.stdout
    assert "never" in done.stdout + done.stderr
    assert shell.run("hooks", "allow").stdout == "allowed: post_tool_call: true\n"
    assert shell.run("hooks", "allow").stdout == "nothing to do: no hook waits\n"
    assert shell.run("hooks", "revoke", "true").stdout == "revoked: post_tool_call: true\n"
    assert shell.run("hooks", "revoke", "--all").stdout == "revoked: pre_tool_call: echo never >&2; exit 2\n"
    unknown = shell.run("hooks", "allow", "echo other")
    assert unknown.returncode == 5
    assert "no hook 'echo other'" in unknown.stderr


def test_every_hook_is_allowed_where_the_variable_says_so(shell: Shell) -> None:
    shell.env["HERMES_ACCEPT_HOOKS"] = "1"
    found = json.loads(shell.run("hooks", "--json").stdout)
    assert [row["allowed"] for row in found["hooks"]] == [True, True]
    done = shell.run("hooks", "revoke", "1")
    assert done.returncode == 1
    assert "HERMES_ACCEPT_HOOKS allows every hook" in done.stderr
    assert "it ran\n" not in shell.run("chat", "-q", "go", "-m", TOOL, "--yolo").stdout


def test_safe_mode_runs_no_hook(shell: Shell) -> None:
    shell.env |= {"HERMES_ACCEPT_HOOKS": "1", "HERMES_SAFE_MODE": "1"}
    assert "it ran" in shell.run("chat", "-q", "go", "-m", TOOL, "--yolo").stdout
