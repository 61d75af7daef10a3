"""`hermes-daemon schema` writes the schema in every form; without a daemon."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hermes_daemon.cli import main
from hermes_protocol import schema


@pytest.mark.parametrize(
    ("form", "file"), [("jsonschema", "hermes.schema.json"), ("openrpc", "openrpc.json"), ("ts", "hermes.ts")]
)
@pytest.mark.parametrize("trial", [[], ["--experimental"]])
def test_each_form_goes_into_its_file_and_to_standard_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str, file: str, trial: list[str]
) -> None:
    assert main(["schema", "--format", form, "--out", str(tmp_path / "new"), *trial]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'new' / file}\n"
    assert main(["schema", "--format", form, *trial]) == 0
    assert capsys.readouterr().out == (tmp_path / "new" / file).read_text(encoding="utf-8")


def test_json_schema_is_what_it_writes_unasked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(schema.document("jsonschema")))


def test_an_unknown_form_and_a_folder_that_cannot_be_made_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["schema", "--format", "xml"]) == 2
    assert "jsonschema" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert main(["schema", "--out", str(tmp_path / "file" / "below")]) == 1
    assert "cannot write" in capsys.readouterr().err
