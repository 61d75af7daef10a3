"""The page for client authors shows the programs that the tests run."""

from __future__ import annotations

import re

import pytest

from docs.generate import ROOT
from tests.support.example_clients import COMMANDS, FOLDER

PAGE = (ROOT / "docs/howto/write-a-client.md").read_text(encoding="utf-8")
LANGUAGES = {".py": "python", ".mjs": "javascript", ".lua": "lua", ".el": "elisp"}


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_page_shows_each_client_as_it_is_in_at_most_60_lines(name: str) -> None:
    code = (FOLDER / name).read_text(encoding="utf-8")
    assert f"```{LANGUAGES[(FOLDER / name).suffix]}\n{code}```\n" in PAGE
    assert len(code.splitlines()) <= 60
    assert max(map(len, code.splitlines())) <= 130


def test_every_client_in_the_folder_is_on_the_page_and_run() -> None:
    assert {path.name for path in FOLDER.iterdir() if path.is_file()} == set(COMMANDS)
    assert set(re.findall(r"\]\(\.\./examples/clients/([^)]+)\)", PAGE)) == set(COMMANDS)


def test_python_s_client_needs_the_standard_library_only() -> None:
    imports = re.findall(r"^(?:import|from) (\w+)", (FOLDER / "client.py").read_text(), re.MULTILINE)
    assert set(imports) == {"json", "os", "subprocess", "sys"}
