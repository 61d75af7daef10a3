"""`hermes tools`, `hermes models`, `hermes model`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.local_daemon import Frame, LocalDaemon, Peer
from tests.support.local_shell import Shell

MODELS: dict[str, Any] = {
    "default": "local/tiny",
    "models": [
        {"id": "local/tiny", "provider": "local", "contextLength": 4096, "tools": False, "note": "fetched"},
        {"id": "far/big", "provider": "far", "state": "unreachable"},
    ],
}
TOOLS: dict[str, Any] = {
    "tools": [
        {"name": "terminal", "toolset": "terminal", "description": "Runs.\nMore.", "source": "core", "state": "ready"},
        {
            "name": "read_file",
            "toolset": "files",
            "description": "Reads.",
            "source": "core",
            "state": "failed",
            "lastError": "no",
            "readOnly": True,
        },
    ]
}


def answer(peer: Peer, frame: Frame) -> None:
    peer.result(frame, {"hermes/models/list": MODELS, "hermes/tool/list": TOOLS}[frame["method"]])


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_tools_are_listed_by_toolset_with_their_state(shell: Shell) -> None:
    with LocalDaemon(shell.address.socket_path, answer):
        lines = shell.run("tools").stdout.splitlines()
    assert lines[1].split() == ["read_file", "files", "no", "failed:", "no", "Reads."]
    assert lines[2].split() == ["terminal", "terminal", "yes", "ready", "Runs."]


def test_models_are_listed_with_the_default_marked(shell: Shell) -> None:
    with LocalDaemon(shell.address.socket_path, answer) as daemon:
        lines = shell.run("models", "list", "--probe").stdout.splitlines()
        as_json = shell.run("models", "--json").stdout
    assert lines[1].split() == ["*", "local/tiny", "4096", "?", "text", "?", "?", "ready", "fetched"]
    assert lines[2].split() == ["far/big", "?", "?", "tools", "?", "?", "unreachable"]
    assert json.loads(as_json) == MODELS
    asked = [frame["params"]["probe"] for frame in daemon.frames if frame["method"] == "hermes/models/list"]
    assert asked == [True, False]


def test_model_alone_is_the_default_and_an_unknown_provider_is_refused(shell: Shell) -> None:
    with LocalDaemon(shell.address.socket_path, answer):
        assert shell.run("model").stdout == "local/tiny\n"
        refused = shell.run("model", "nowhere/x")
    assert refused.returncode == 5
    assert "with a provider of far, local" in refused.stderr
