"""The pages about chat and client say what is true."""

from __future__ import annotations

import re
from pathlib import Path

from hermes_client.view import View
from hermes_shell.interactive.commands import COMMANDS

DOCS = Path(__file__).parents[2] / "docs"


def test_every_command_is_on_the_page_and_the_reverse() -> None:
    page = (DOCS / "howto" / "chat.md").read_text(encoding="utf-8")
    section = page.split("## Commands")[1].split("\n## ")[0]
    assert set(re.findall(r"^\| `/(\w+)", section, re.M)) == set(COMMANDS)


def test_the_table_of_the_view_names_fields_that_exist() -> None:
    page = (DOCS / "howto" / "python-client.md").read_text(encoding="utf-8")
    section = page.split("## What a session looks like")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`.*?`) \|", section, re.M)
    for name in re.findall(r"`(\w+)", " ".join(rows)):
        assert hasattr(View, name), name


def test_every_example_is_on_the_page_and_the_reverse() -> None:
    page = (DOCS / "howto" / "python-client.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"\(\.\./examples/(\w+\.py)\)", page))
    assert shown == {path.name for path in (DOCS / "examples").glob("*.py")}
    for name in shown:
        assert f"```python\n{(DOCS / 'examples' / name).read_text(encoding='utf-8')}```" in page, name
