"""The shipped plugins as a person meets them: enabled by command, asked by command, judged by exit codes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.local_shell import Shell


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with Shell(tmp_path) as shell:
        yield shell


def test_A1_5_classifier_status_ends_with_one_while_nothing_is_configured_and_asked(shell: Shell) -> None:
    assert shell.run("plugins", "enable", "classifier-core").stdout == (
        "classifier-core is loaded: tools classifier_status; commands classifier-status\n"
    )
    done = shell.run("classifier-status", "--probe")
    assert done.returncode == 0
    assert "service   not reachable, model none: not_configured: the setting endpoint is empty" in done.stdout
    assert shell.run("classifier-status", "--everything").returncode == 2


def test_A2_5_shadow_status_ends_with_two_for_a_name_that_is_none(shell: Shell) -> None:
    shell.run("plugins", "enable", "shadow-gate")
    done = shell.run("shadow-status", "--decision", "../x")
    assert done.returncode == 2
    assert "decision: expected words of a-z, 0-9 and _ joined by dots, got '../x'" in done.stderr
    assert shell.run("shadow-status", "--decision", "area.decision").returncode == 0
    assert shell.run("shadow-status").stdout == "No decision has rows or a policy.\n"
