"""One conversation that every client of others has with a daemon, and what it must have seen.

The program gets an endpoint, a folder and a model; it says hello, creates a session, subscribes, and prints
`{"session": …}`. Then another client, a plain one of ours, says something into that session; its turn asks for a
permission, which the program allows. After the turn's end it prints what it saw and ends.
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.support.daemon_process import Daemon
from tests.support.peer import Peer

MODEL = "scripted/tool?name=terminal&args=" + quote('{"command":"echo from the tool"}')
SAID = "said by another client: ünïcödé 🎈"
PATIENCE_S = 60.0


def converse(
    command: Sequence[str], daemon: Daemon, folder: Path, endpoint: Sequence[str], env: dict[str, str]
) -> dict[str, Any]:
    """What the program `command` saw. AssertionError with its words when it failed or took longer than a minute."""
    process = subprocess.Popen(
        [*command, *endpoint, str(folder), MODEL],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
        text=True,
        start_new_session=True,
    )
    watch = threading.Timer(PATIENCE_S, process.kill)
    watch.start()
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if line:
            speak(daemon, json.loads(line)["session"])
    finally:
        out, err = process.communicate()
        watch.cancel()
    assert process.returncode == 0, f"exit code {process.returncode}: {line}{out}{err}"
    seen: dict[str, Any] = json.loads(out.splitlines()[-1])
    return seen


def speak(daemon: Daemon, session: str) -> None:
    """Say something into the session as another client."""
    hello = {"protocolVersions": ["1.0"], "client": {"id": "other", "name": "another"}, "capabilities": {}}
    with Peer(daemon.socket_path) as peer:
        peer.request(1, "initialize", {"hermes": hello})
        block = [{"type": "text", "text": SAID}]
        peer.request(2, "hermes/turn/submit", {"sessionId": session, "key": "k", "input": block})


def assert_seen(seen: dict[str, Any], name: str) -> None:
    """The program, known to the daemon as `name`, has seen all of the conversation."""
    assert seen["version"] == "1.0"
    assert (seen["mode"], seen["items"]) == ("snapshot", 0)
    assert (seen["heard"], seen["by"]) == (SAID, "another")
    assert "echo from the tool" in seen["asked"]
    assert (seen["outcome"], seen["resolvedBy"]) == ("allow_once", name)
    assert (seen["status"], seen["chain"]) == ("completed", True)
    assert "from the tool" in seen["output"]
    expected = ["turn.started", "item.started", "request.opened", "request.resolved", "item.completed", "turn.ended"]
    order = [kind for kind in dict.fromkeys(seen["kinds"]) if kind in expected]
    assert sorted(order) == sorted(expected)
    assert order.index("request.opened") < order.index("request.resolved")
    assert order[-1] == "turn.ended"
    assert seen["refused"] == "session_not_found"
