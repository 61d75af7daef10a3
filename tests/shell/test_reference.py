"""The reference page of the command line."""

from __future__ import annotations

from pathlib import Path

from hermes_daemon.cli import ALIASES, COMMANDS, ROUTED
from hermes_shell.reference import DAEMON, page

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"


def test_the_page_is_what_the_tables_say() -> None:
    assert PAGE.read_text() == page()


def test_the_daemons_commands_are_all_on_it() -> None:
    for name in (*(command.name for command in COMMANDS), *ROUTED, *ALIASES):
        assert name in DAEMON
