"""What a daemon says of itself in a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_local import state_file


def test_what_was_written_is_read_and_no_other_file_is_left(tmp_path: Path) -> None:
    path = tmp_path / "d.json"
    state_file.write(str(path), {"pid": 1})
    state_file.write(str(path), {"pid": 2})
    assert state_file.read(str(path)) == {"pid": 2}
    assert [entry.name for entry in tmp_path.iterdir()] == ["d.json"]
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", [None, "", "{", "[1]", "null"])
def test_a_missing_torn_or_strange_file_says_nothing(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "d.json"
    if content is not None:
        path.write_text(content)
    assert state_file.read(str(path)) == {}
    assert "has not written its state file" in state_file.describe(str(path), "")


def test_the_description_names_pid_age_and_the_last_log_lines(tmp_path: Path) -> None:
    path, log = tmp_path / "d.json", tmp_path / "log"
    state_file.write(str(path), {"pid": 77, "startTime": 0})
    log.write_text("".join(f"line {number}\n" for number in range(2000)) + "\n")
    text = state_file.describe(str(path), str(log))
    assert "pid 77" in text
    assert " d\n" in text
    assert text.endswith("| line 1999")
    assert text.count("\n") == 6


@pytest.mark.parametrize(
    ("seconds", "text"), [(-1, "0 s"), (119, "119 s"), (120, "2 min"), (7300, "2 h 1 min"), (200_000, "2 d")]
)
def test_lengths_of_time_are_said_as_people_do(seconds: float, text: str) -> None:
    assert state_file.duration(seconds) == text
