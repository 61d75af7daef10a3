"""From words to commands."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from hermes_local.arguments import UsageError
from hermes_shell import dispatch
from hermes_shell.commands import DEFAULT_VERBS, ENTRIES, all_commands
from tests.support.local_shell import Shell


def test_every_command_has_a_function_that_runs_it() -> None:
    for entry in ENTRIES:
        module, _, function = entry.handler.partition(":")
        assert callable(getattr(import_module(module), function)), entry.command.name


def test_no_command_has_two_options_of_one_name() -> None:
    for command in all_commands():
        names = [option.name for option in command.options] + [o.short for o in command.options if o.short]
        assert len(names) == len(set(names)), command.name


def test_a_family_alone_is_its_first_verb() -> None:
    for family, verb in DEFAULT_VERBS.items():
        assert dispatch.find([family])[0].command.name == f"{family} {verb}"
        assert dispatch.find([family, "--json"])[1] == ["--json"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sesions"], "did you mean 'sessions'"),
        (["sessions", "lst"], "did you mean 'list'"),
        (["config"], "needs one of: get, set, path, validate"),
        (["--frobnicate"], "unknown option"),
    ],
)
def test_a_word_that_is_no_command_is_answered_with_the_nearest(words: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        dispatch.find(words)


def test_help_is_given_for_everything(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    whole = shell.run("--help")
    assert whole.returncode == 0
    for command in all_commands():
        assert command.name in whole.stdout
    assert "--format FORMAT" in shell.run("sessions", "export", "--help").stdout
    assert "--format FORMAT" in shell.run("help", "sessions", "export").stdout
    assert "sessions search" in shell.run("sessions", "--help").stdout
    assert "--yolo" in shell.run("chat", "-h").stdout


def test_no_command_without_a_terminal_is_a_usage_error(tmp_path: Path) -> None:
    done = Shell(tmp_path).run()
    assert done.returncode == 2
    assert "usage: hermes" in done.stderr


def test_the_version_is_printed_and_a_profile_may_stand_first(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    assert shell.run("--version").stdout.startswith("hermes ")
    assert shell.run("-p", "work", "daemon", "status", "--json").stdout.count("profiles/work") == 1
    bad = shell.run("-p", "No Name", "daemon", "status")
    assert bad.returncode == 69
    assert "expected 1 to 64" in bad.stderr
