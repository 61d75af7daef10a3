"""Only the user who started the daemon is served, whatever the modes of files say."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_daemon.server.peers import is_ours, peer_uid
from tests.support.live import live

NOBODY = 65534
linux = pytest.mark.skipif(not hasattr(socket, "SO_PEERCRED"), reason="the system does not tell who connected")
root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")


@linux
def test_the_kernel_tells_who_connected() -> None:
    one, other = socket.socketpair()
    with one, other:
        assert peer_uid(one) == os.geteuid()
        assert is_ours(one)


def test_what_cannot_be_asked_is_left_to_the_modes() -> None:
    assert peer_uid(None) is None
    assert is_ours(None)


@linux
@root
def test_another_user_is_told_and_cut_off(tmp_path: Path) -> None:
    script = (
        "import os,socket,sys; os.setgid(65534); os.setuid(65534); s=socket.socket(socket.AF_UNIX);"
        "s.connect(sys.argv[1]); s.sendall(b'{}\\n'); print(s.makefile().readline())"
    )

    async def story() -> dict[str, object]:
        for folder in (tmp_path, *tmp_path.parents[:2]):
            os.chmod(folder, 0o755)
        async with live(str(tmp_path)) as daemon:
            os.chmod(daemon.socket_path, 0o777)
            command = [sys.executable, "-c", script, daemon.socket_path]
            ran = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True)
            assert ran.returncode == 0, ran.stderr
            assert not daemon.daemon.connections
            answer: dict[str, object] = json.loads(ran.stdout)["error"]
            return answer

    error = asyncio.run(story())
    assert error["code"] == -32052
