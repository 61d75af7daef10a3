"""A configuration changed on disk is taken without being asked to."""

from __future__ import annotations

import os
from pathlib import Path

from hermes_daemon.config import Configuration


def test_nothing_is_read_while_nothing_changed(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("agent: {max_rounds: 3}\n")
    live = Configuration(str(tmp_path), {})
    assert live.freshen() is None


def test_a_changed_a_new_and_a_removed_file_are_taken(tmp_path: Path) -> None:
    live = Configuration(str(tmp_path), {})
    for text, rounds in (("agent: {max_rounds: 3}\n", 3), ("agent: {max_rounds: 4}\n", 4)):
        (tmp_path / "config.yaml").write_text(text)
        reloaded = live.freshen()
        assert reloaded is not None
        assert reloaded.changed == ("agent.max_rounds",)
        assert live.current.agent.max_rounds == rounds
    (tmp_path / "config.yaml").unlink()
    assert live.freshen() is not None
    assert live.current.agent.max_rounds == 90


def test_a_key_written_into_env_is_found(tmp_path: Path) -> None:
    live = Configuration(str(tmp_path), {})
    assert live.secret("LAB_KEY") is None
    path = tmp_path / ".env"
    path.touch(0o600)
    path.write_text("LAB_KEY=abc\n")
    assert live.freshen() is not None
    assert live.secret("LAB_KEY") == "abc"


def test_a_mode_that_becomes_private_counts_as_a_change(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_text("LAB_KEY=abc\n")
    path.chmod(0o644)
    live = Configuration(str(tmp_path), {})
    assert live.secret("LAB_KEY") is None
    os.chmod(path, 0o600)
    assert live.freshen() is not None
    assert live.secret("LAB_KEY") == "abc"


def test_a_broken_file_is_said_once_and_read_again_only_when_it_changes(tmp_path: Path) -> None:
    live = Configuration(str(tmp_path), {})
    (tmp_path / "config.yaml").write_text("agent: [\n")
    reloaded = live.freshen()
    assert reloaded is not None
    assert reloaded.errors
    assert live.freshen() is None
    assert live.errors
