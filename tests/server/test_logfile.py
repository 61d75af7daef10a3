"""The daemon's log file."""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path

from hermes_daemon.server.logfile import LogFile


def entry(text: str) -> logging.LogRecord:
    return logging.LogRecord("room", logging.WARNING, "", 0, text, None, None)


def test_an_entry_is_one_line_with_utc_time_level_and_name(tmp_path: Path) -> None:
    log = LogFile(str(tmp_path / "log"))
    log.emit(entry("hello \udc80"))
    log.close()
    line = (tmp_path / "log").read_text()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z WARNING room: hello \\udc80\n", line)
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o600


def test_a_full_file_moves_back_and_the_oldest_is_dropped(tmp_path: Path) -> None:
    log = LogFile(str(tmp_path / "log"), max_bytes=10, backups=2)
    for number in range(5):
        log.emit(entry(f"entry {number}"))
    log.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", "log.1", "log.2"]
    assert "entry 4" in (tmp_path / "log").read_text()
    assert "entry 3" in (tmp_path / "log.1").read_text()
    assert "entry 2" in (tmp_path / "log.2").read_text()


def test_a_file_that_somebody_moved_is_made_anew(tmp_path: Path) -> None:
    log = LogFile(str(tmp_path / "log"), max_bytes=10)
    log.emit(entry("first"))
    os.rename(tmp_path / "log", tmp_path / "kept")
    log.emit(entry("second"))
    log.close()
    assert "second" in (tmp_path / "log").read_text()
    assert "first" in (tmp_path / "kept").read_text()
    assert not (tmp_path / "log.1").exists()
