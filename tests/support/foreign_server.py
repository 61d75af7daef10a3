"""Servers written by others, run for a test on a free loopback port in a process group of their own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

START_S = 60.0


def free_port() -> int:
    """A port nobody listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def foreign_server(command: Sequence[str], port: int) -> Iterator[str]:
    """The URL of the server that `command` starts on `port`, once it accepts connections; its group is killed after.

    RuntimeError with what it printed when it ends, or does not listen in a minute.
    """
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            deadline = time.monotonic() + START_S
            while not _listens(port):
                if process.poll() is not None or time.monotonic() > deadline:
                    output.seek(0)
                    said = output.read().decode("utf-8", "replace")[-2000:]
                    raise RuntimeError(f"{command[0]} does not listen on port {port}: {said}")
                time.sleep(0.05)  # foreign programs give no other sign than the open port
            yield f"http://127.0.0.1:{port}"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def call(url: str, method: str = "GET", body: Any = None) -> Any:
    """The JSON answer of a control route, None for an empty one."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"}, method=method)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=20) as response:
            content = response.read()
    except urllib.error.HTTPError as error:
        with error:
            raise RuntimeError(f"{url} answered {error.code}: {error.read()[:400]!r}") from None
    return json.loads(content) if content else None


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex(("127.0.0.1", port)) == 0
