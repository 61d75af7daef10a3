"""Writing home/.env: private, one line changed, and read back as it was given."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_daemon.config import Configuration
from hermes_daemon.config.env_edit import put_secret
from hermes_daemon.config.problem import Notes
from hermes_daemon.config.secrets import parse_env
from hermes_daemon.core.ports import Refused


def test_a_new_file_is_private(tmp_path: Path) -> None:
    path = tmp_path / "home" / ".env"
    put_secret(str(path), "A_KEY", "sk-1")
    assert path.read_text() == "A_KEY=sk-1\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_other_lines_stay_and_every_line_of_the_name_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_text("# mine\nB=2 # two\nexport A=old\nA='older'\nnonsense\n")
    path.chmod(0o600)
    put_secret(str(path), "A", "new")
    assert path.read_text() == "# mine\nB=2 # two\nnonsense\nA=new\n"
    put_secret(str(path), "A", None)
    assert path.read_text() == "# mine\nB=2 # two\nnonsense\n"
    put_secret(str(path), "A", None)


def test_a_file_that_others_may_read_is_refused_and_left(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_text("A=1\n")
    path.chmod(0o644)
    with pytest.raises(Refused, match="chmod 600"):
        put_secret(str(path), "A", "new")
    assert path.read_text() == "A=1\n"


@pytest.mark.parametrize("value", ["", "  ", "a\nB=2", " a", "a\x00", "x" * 20_000])
def test_a_value_that_no_line_can_hold_is_refused_without_being_repeated(tmp_path: Path, value: str) -> None:
    with pytest.raises(Refused) as caught:
        put_secret(str(tmp_path / ".env"), "A", value)
    assert len(value.strip()) < 3 or value not in str(caught.value)
    assert not (tmp_path / ".env").exists()


def test_a_name_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="name of a variable"):
        put_secret(str(tmp_path / ".env"), "A B", "x")


@given(st.text(st.characters(min_codepoint=33, max_codepoint=0x2FF, categories=["L", "N", "P", "S"]), min_size=1))
def test_what_is_written_is_what_is_read(tmp_path_factory: pytest.TempPathFactory, value: str) -> None:
    path = tmp_path_factory.mktemp("env") / ".env"
    put_secret(str(path), "A", value)
    notes = Notes(str(path))
    assert parse_env(path.read_text(), notes) == {"A": value}
    assert not notes.warnings


def test_the_configuration_goes_by_it_at_once_and_says_where_it_comes_from(tmp_path: Path) -> None:
    configuration = Configuration(str(tmp_path), {"B": "from the environment"})
    assert not configuration.put_secret("A", "kept").errors
    assert (configuration.secret("A"), configuration.stored("A")) == ("kept", True)
    configuration.put_secret("B", "beaten")
    assert (configuration.secret("B"), configuration.stored("B")) == ("from the environment", False)
    assert "kept" in configuration.secret_values()
