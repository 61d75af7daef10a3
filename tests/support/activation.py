"""What systemd does, in a few lines: hold a socket, start a daemon with it as descriptor 3, hear what it says."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

# The pid must be that of the daemon itself, so it is filled in between fork and exec.
START = """
import os, sys
for number, fd in enumerate(map(int, sys.argv[2].split(",")), 3):
    os.dup2(fd, number)
os.environ.update(LISTEN_PID=sys.argv[1] or str(os.getpid()), LISTEN_FDS=str(number - 2))
os.execv(sys.executable, [sys.executable, *sys.argv[3:]])
"""


def start_with(
    sockets: list[socket.socket], words: list[str], env: Mapping[str, str], pid: str = ""
) -> subprocess.Popen[str]:
    """Run `python words` with these sockets passed, for the process `pid` ("" = itself)."""
    # Above the numbers they are passed under, so that none of them is overwritten on the way.
    high = [fcntl.fcntl(sock.fileno(), fcntl.F_DUPFD_CLOEXEC, 20) for sock in sockets]
    try:
        return subprocess.Popen(
            [sys.executable, "-c", START, pid, ",".join(map(str, high)), *words],
            env=env, pass_fds=high, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
    finally:
        for fd in high:
            os.close(fd)


def listening(path: str) -> socket.socket:
    """A listening unix socket at `path`."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.bind(path)
    sock.listen(64)
    return sock


class Ear:
    """A NOTIFY_SOCKET: `hear` gives what was said next, as a dict."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "notify")
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._sock.bind(self.path)
        self._sock.settimeout(30)

    def hear(self) -> dict[str, str]:
        said = self._sock.recv(4096).decode()
        return dict(line.split("=", 1) for line in said.splitlines())

    def close(self) -> None:
        self._sock.close()
