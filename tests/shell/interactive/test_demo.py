"""The demo's repository and script, without a daemon (tests/real plays all of it)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from hermes_shell import demo


def test_the_help_names_its_options_and_an_unknown_one_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert demo.run(["--help"]) == 0
    assert "--keep" in capsys.readouterr().out
    assert demo.run(["--fast"]) == 2
    assert "--fast: expected --yes or --keep" in capsys.readouterr().err


def test_the_short_option_of_the_reference_page_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    assert demo.run(["-y", "--fast"]) == 2
    assert capsys.readouterr().err == "hermes demo: --fast: expected --yes or --keep\n"


def test_the_test_fails_before_and_passes_after_the_scripts_patch(tmp_path: Path) -> None:
    repository, script = demo.prepare(str(tmp_path))
    assert not demo.passes(repository)
    rounds = yaml.safe_load(Path(script).read_text(encoding="utf-8"))["rounds"]
    (patch,) = [call["args"] for row in rounds for call in row.get("calls", ()) if call["name"] == "patch"]
    code = Path(repository, patch["path"])
    before = code.read_text(encoding="utf-8")
    assert before.count(patch["old_string"]) == 1
    code.write_text(before.replace(patch["old_string"], patch["new_string"]), encoding="utf-8")
    assert demo.passes(repository)
    assert sorted(os.listdir(tmp_path)) == ["demo.yaml", "shop"]


def test_a_folder_with_a_space_and_quotes_is_no_problem(tmp_path: Path) -> None:
    folder = tmp_path / "a 'quoted' place"
    folder.mkdir()
    repository, _ = demo.prepare(str(folder))
    assert os.path.exists(os.path.join(repository, "prices.py"))
