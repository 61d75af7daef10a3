import os
from pathlib import Path

import pytest

from hermes_daemon.config.problem import Notes
from hermes_daemon.config.secrets import Secrets, parse_env, read_env_file


def parsed(text: str) -> dict[str, str]:
    notes = Notes(".env")
    values = parse_env(text, notes)
    assert not notes.warnings
    return values


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("K=plain", "plain"),
        ("export K = spaced ", "spaced"),
        ("K=a#b # comment", "a#b"),
        ("K='it is $5 \\n # x' # comment", "it is $5 \\n # x"),
        ('K="two\\nlines \\"q\\" $5"', 'two\nlines "q" $5'),
        ("K=", ""),
        ('K=""', ""),
        ("K=a=b==", "a=b=="),
    ],
)
def test_one_line_is_one_value(line: str, value: str) -> None:
    assert parsed(line) == {"K": value}


def test_comments_blank_lines_and_windows_newlines_are_fine() -> None:
    assert parsed("# a\r\n\r\nA=1\r\nB=2\r\n") == {"A": "1", "B": "2"}


@pytest.mark.parametrize("line", ["sk-very-secret", "1K=v", 'K="sk-very-secret', "K='a'sk-very-secret"])
def test_a_line_that_does_not_fit_is_named_by_number_and_never_repeated(line: str) -> None:
    notes = Notes(".env")
    assert parse_env(f"A=1\n{line}\nB=2", notes) == {"A": "1", "B": "2"}
    assert "line 2" in notes.warnings[0]
    assert "very-secret" not in notes.warnings[0]


def test_a_file_that_others_may_read_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_text("K=v")
    for mode in (0o644, 0o640, 0o602):
        path.chmod(mode)
        notes = Notes(str(path))
        assert read_env_file(str(path), notes) == {}
        assert f"mode {mode:04o}" in notes.warnings[0]
        assert f"chmod 600 {path}" in notes.warnings[0]
    path.chmod(0o600)
    assert read_env_file(str(path), Notes("")) == {"K": "v"}


def test_no_file_is_no_secret_and_no_warning(tmp_path: Path) -> None:
    notes = Notes("")
    assert read_env_file(str(tmp_path / ".env"), notes) == {}
    assert not notes.warnings


def test_a_folder_or_binary_in_its_place_warns(tmp_path: Path) -> None:
    notes = Notes("")
    assert read_env_file(str(tmp_path), notes) == {}
    path = tmp_path / "binary"
    handle = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
    os.write(handle, b"K=\xff")
    os.close(handle)
    assert read_env_file(str(path), notes) == {}
    assert len(notes.warnings) == 2


def test_the_environment_wins_over_the_file_and_empty_is_not_set() -> None:
    secret = Secrets({"A": "env", "C": ""}, {"A": "file", "B": "file", "C": "file"})
    assert (secret("A"), secret("B"), secret("C"), secret("D")) == ("env", "file", "file", None)
    assert (secret.stored("A"), secret.stored("B")) == (False, True)


def test_a_print_shows_no_value() -> None:
    assert "hunter2" not in repr(Secrets({}, {"A": "hunter2"})) + str(Secrets({"A": "hunter2"}, {}))
