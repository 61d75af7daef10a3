"""vscode-jsonrpc in plain node over the unix socket, with Content-Length framing: the peer that editors bring."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.counterparty import assert_seen, converse
from tests.support.daemon_process import running_daemon

pytestmark = pytest.mark.real
PEER = Path(__file__).resolve().parents[1] / "support" / "node" / "vscode_peer.js"
ATTACH = PEER.with_name("vscode_attach.js")
MODEL = "scripted/tool?name=terminal&args=" + quote('{"command":"echo from the tool"}')


def node_modules() -> str:
    """The folder vscode-jsonrpc is installed in; skips the test, with the reason, where there is none."""
    folder = os.environ.get("HERMES_TEST_NODE_MODULES", "")
    if not shutil.which("node"):
        pytest.skip("node is not installed")
    if not Path(folder, "vscode-jsonrpc").is_dir():
        pytest.skip("HERMES_TEST_NODE_MODULES names no folder with vscode-jsonrpc (npm install vscode-jsonrpc)")
    return folder


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the peer saw in one conversation."""
    modules, folder = node_modules(), tmp_path_factory.mktemp("vscode")
    with running_daemon(folder, config="model:\n  default: scripted/echo\n") as daemon:
        done = subprocess.run(
            ["node", str(PEER), daemon.socket_path, str(folder), MODEL],
            env={"PATH": os.environ["PATH"], "NODE_PATH": modules},
            capture_output=True,
            timeout=60,
        )
    assert done.returncode == 0, done.stderr.decode()
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def test_it_attaches_through_the_options_of_initialize(seen: dict[str, Any]) -> None:
    assert seen["version"] == "1.0"
    assert seen["early"] == {"code": -32002, "kind": "not_initialized"}


def test_its_turn_runs_and_its_permission_counts(seen: dict[str, Any]) -> None:
    assert (seen["answer"], seen["status"]) == ("allow_once", "completed")
    assert {"turn.started", "item.delta", "request.opened", "request.resolved", "turn.ended"} <= set(seen["kinds"])


def test_its_events_are_a_chain_without_a_gap(seen: dict[str, Any]) -> None:
    assert seen["chain"] is True
    assert seen["desyncs"] == 0


def test_its_cancellation_token_cancels(seen: dict[str, Any]) -> None:
    assert seen["cancelled"] == {"code": -32800, "kind": "cancelled"}


def test_messages_of_3_mb_go_both_ways_whole(seen: dict[str, Any]) -> None:
    assert seen["bytes"] > 3_000_000
    assert (seen["echoed"], seen["echo"]) == (True, True)


def test_its_interrupt_ends_the_turn_and_its_errors_are_ours(seen: dict[str, Any]) -> None:
    assert (seen["interrupt"], seen["interrupted"]) == ("interrupting", "interrupted")
    assert seen["unknown"] == {"code": -32601, "kind": "method_not_found"}
    assert seen["positional"]["code"] == -32602


def test_shutdown_and_exit_end_its_connection_only(seen: dict[str, Any]) -> None:
    assert seen["shutdown"] is None
    assert seen["late"]["code"] == -32600


def test_it_answers_the_permission_of_a_turn_that_another_client_began(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "NODE_PATH": node_modules()}
    with running_daemon(tmp_path) as daemon:
        seen = converse(["node", str(ATTACH)], daemon, tmp_path, [daemon.socket_path], environment)
    assert_seen(seen, "vscode-jsonrpc")
