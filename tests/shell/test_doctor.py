"""`hermes doctor`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.local_daemon import Frame, LocalDaemon, Peer
from tests.support.local_shell import Shell

STATUS: dict[str, Any] = {"pid": 1, "version": "0.1.0", "uptimeS": 5.0, "rssBytes": 40_000_000}
MODELS = {"default": "local/x", "models": [{"id": "local/x", "provider": "local"}]}


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def findings(shell: Shell) -> tuple[int, dict[str, dict[str, str]]]:
    done = shell.run("doctor", "--json")
    return done.returncode, {row["name"]: row for row in json.loads(done.stdout)}


def daemon(shell: Shell, models: dict[str, Any] = MODELS, **status: Any) -> LocalDaemon:
    def answer(peer: Peer, frame: Frame) -> None:
        peer.result(frame, {**STATUS, **status} if frame["method"].endswith("status") else models)

    return LocalDaemon(shell.address.socket_path, answer)


def test_a_fresh_machine_is_in_order_and_nothing_is_started(shell: Shell) -> None:
    code, found = findings(shell)
    assert code == 0
    assert {row["level"] for row in found.values()} == {"ok"}
    assert not Path(shell.env["HERMES_HOME"]).exists()
    assert shell.daemon_pid() is None


def test_a_running_daemon_is_described(shell: Shell) -> None:
    with daemon(shell):
        code, found = findings(shell)
    assert code == 0
    assert "pid 1, up 5 s" in found["daemon"]["text"]
    assert found["model"]["text"] == "local/x"


def test_what_the_daemon_warns_of_is_shown(shell: Shell) -> None:
    missing = {"default": "local/x", "models": [{"id": "local/x", "provider": "local", "state": "missing"}]}
    with daemon(shell, missing, version="0.0.1", storage="disk full", warnings=["config.yaml: what is 'modle'?"]):
        code, found = findings(shell)
    assert code == 1
    assert found["daemon"]["level"] == "warn"
    assert found["storage"]["text"] == "disk full"
    assert "modle" in found["configuration"]["text"]
    assert "hermes models pull" in found["model"]["advice"]


def test_a_model_whose_key_is_missing_is_told_by_its_key(shell: Shell) -> None:
    row = {"id": "lab/small", "provider": "lab", "state": "missing", "note": "set LAB_API_KEY"}
    with daemon(shell, {"default": "lab/small", "models": [row]}):
        _, found = findings(shell)
    assert found["model"]["level"] == "warn"
    assert found["model"]["advice"] == "set LAB_API_KEY (docs/howto/models.md)"


def test_files_that_others_can_read_are_told_with_what_to_do(shell: Shell) -> None:
    home = Path(shell.env["HERMES_HOME"])
    home.mkdir(mode=0o755)
    home.chmod(0o755)
    (home / ".env").write_text("KEY=1")
    (home / ".env").chmod(0o644)
    code, found = findings(shell)
    assert code == 1
    assert found["home"]["advice"] == f"chmod 700 {home}"
    assert found[".env"]["advice"] == f"chmod 600 {home}/.env"


def test_a_damaged_database_that_was_set_aside_is_not_forgotten(shell: Shell) -> None:
    home = Path(shell.env["HERMES_HOME"])
    home.mkdir(mode=0o700)
    (home / "state.db").write_bytes(b"x" * 1_048_576)
    (home / "state.db.corrupt-1").write_bytes(b"")
    _, found = findings(shell)
    assert found["database"]["level"] == "warn"
    assert "1.0 MiB" in found["database"]["text"]
    assert "state.db.corrupt-1" in found["database"]["advice"]


def test_a_broken_configuration_is_found_without_a_daemon(shell: Shell) -> None:
    home = Path(shell.env["HERMES_HOME"])
    home.mkdir(mode=0o700)
    (home / "config.yaml").write_text("agent:\n  max_rounds: many\n")
    code, found = findings(shell)
    assert code == 1
    assert "max_rounds" in found["configuration"]["text"]


def test_a_daemon_that_cannot_be_reached_is_a_failure(shell: Shell) -> None:
    Path(shell.address.socket_path).write_text("not a socket")
    code, found = findings(shell)
    assert code == 1
    assert "is a regular file" in found["daemon"]["text"]


def test_people_get_a_table(shell: Shell) -> None:
    done = shell.run("doctor")
    assert done.returncode == 0
    assert done.stdout.startswith("ok    python")
