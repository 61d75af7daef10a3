import io
import json
from pathlib import Path

import pytest

from hermes_daemon.config.command import main


def run(home: Path, *words: str, **environ: str) -> tuple[int, str]:
    out = io.StringIO()
    return main(words, {"HERMES_HOME": str(home), **environ}, out), out.getvalue()


def test_get_prints_a_value_a_section_and_everything(tmp_path: Path) -> None:
    assert run(tmp_path, "get", "agent.max_rounds") == (0, "90\n")
    assert run(tmp_path, "get", "approvals")[1].splitlines()[0] == "mode: manual"
    assert "compression:" in run(tmp_path, "get")[1]
    code, text = run(tmp_path, "get", "agent.max_rounds", "--json")
    assert (code, json.loads(text)) == (0, {"value": 90, "source": "default"})


def test_set_then_get_then_unset(tmp_path: Path) -> None:
    assert run(tmp_path, "set", "agent.max_rounds", "12") == (0, "agent.max_rounds = 12\n")
    assert run(tmp_path, "get", "agent.max_rounds") == (0, "12\n")
    assert run(tmp_path, "set", "approvals.mode", "off")[0] == 0
    assert run(tmp_path, "validate")[0] == 0
    assert run(tmp_path, "unset", "agent.max_rounds") == (0, "agent.max_rounds = 90\n")


def test_a_variable_that_wins_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "set", "agent.max_rounds", "12", HERMES_MAX_ITERATIONS="5")[0] == 0
    assert "HERMES_MAX_ITERATIONS is set and wins" in capsys.readouterr().err


def test_validate_tells_everything_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "validate")[0] == 0
    (tmp_path / "config.yaml").write_text("agnet: {}\nagent:\n  max_rounds: x\n  api_max_retries: y\n")
    assert run(tmp_path, "validate") == (1, "")
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[0] for line in lines] == ["warning", "error", "error"]
    assert f"{tmp_path}/config.yaml:3:3: agent.max_rounds: expected a whole number" in lines[1]


def test_path_is_the_file_of_the_profile(tmp_path: Path) -> None:
    assert run(tmp_path, "path") == (0, f"{tmp_path}/config.yaml\n")
    assert run(tmp_path, "path", HERMES_PROFILE="work") == (0, f"{tmp_path}/profiles/work/config.yaml\n")


@pytest.mark.parametrize("words", [[], ["get", "a", "b"], ["set", "a"], ["frobnicate"], ["path", "x"]])
def test_wrong_usage_is_exit_code_2(tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, *words)[0] == 2


@pytest.mark.parametrize(
    "words", [["get", "nope"], ["set", "nope", "1"], ["set", "agent.max_rounds", "x"], ["get", "a..b"]]
)
def test_a_refusal_is_exit_code_1_and_one_sentence(
    tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, *words) == (1, "")
    assert capsys.readouterr().err.startswith("hermes-daemon config: ")
