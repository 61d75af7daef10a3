"""docs/howto/plugins.md followed word by word, in an empty home, with the commands of a user."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.generate import ROOT
from tests.support.local_shell import Shell

PAGE = (ROOT / "docs/howto/plugins.md").read_text(encoding="utf-8")


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with Shell(tmp_path) as shell:
        yield shell


def followed(shell: Shell, heading: str) -> list[str]:
    """Do what a section says, in its order: commands are run, blocks with a file name are written into the plugins."""
    start = PAGE.index(f"## {heading}")
    section = PAGE[start : PAGE.index("\n## ", start)]
    said = []
    pattern = r"^    (hermes [^\n]*)$|`(hermes plugins new [^`]+)`|^```\w+ file=(\S+)\n(.*?)^```"
    for found in re.finditer(pattern, section, re.MULTILINE | re.DOTALL):
        indented, inline, path, text = found.groups()
        if path:
            (Path(shell.env["HERMES_HOME"]) / "plugins" / path).write_text(text)
            continue
        done = shell.run(*shlex.split(indented or inline)[1:])
        assert done.returncode == 0, (indented or inline, done.stderr)
        assert "middleware" not in done.stderr
        said.append(done.stdout)
    return said


def test_the_first_plugin_works(shell: Shell) -> None:
    said = followed(shell, "The first one")
    assert "my-first is loaded" in said[2]
    assert said[-1] == "loaded: my-first\n"


def test_the_plugin_that_does_four_things_works_at_the_first_try(shell: Shell) -> None:
    said = followed(shell, "One that does four things")
    assert "is valid" in said[1]
    assert "four-things is loaded: points llm_request, llm_execution, tool_request, tool_execution" in said[2]
    assert "/tmp/work" in said[3]
    assert "[by terminal]" in said[3]
