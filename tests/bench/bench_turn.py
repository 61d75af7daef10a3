"""What a turn through the daemon costs over talking to the same endpoint directly."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import httpx

from tests.bench.client import BenchClient
from tests.bench.figure import Figure, interleaved, seconds
from tests.support.daemon_process import running_daemon

PAIRS = 60
CONFIG = """\
providers:
  bench:
    base_url: {base_url}
    models: [echo]
"""


def measure() -> list[Figure]:
    command = [sys.executable, "-m", "tests.support.scripted_http"]
    with tempfile.TemporaryDirectory(prefix="hb") as name, subprocess.Popen(command, stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None
            base_url = server.stdout.readline().decode().split()[-1]
            return [_overhead(Path(name), base_url)]
        finally:
            server.terminate()


def _overhead(folder: Path, base_url: str) -> Figure:
    with running_daemon(folder, CONFIG.format(base_url=base_url)) as daemon, httpx.Client(trust_env=False) as direct:
        client = BenchClient(daemon.socket_path)
        client.initialize()
        count = iter(range(10**6))

        def through() -> float:
            # A session of its own for every turn: the history, and so the request, is as long as the direct one.
            session_id = client.session("bench/echo", str(folder))
            client.subscribe(session_id)

            def turn() -> None:
                client.submit(session_id, f"k{next(count)}", "a word or two")
                client.until_turn_ended()

            taken = seconds(turn)
            client.request("hermes/session/unsubscribe", {"sessionId": session_id})
            return taken

        turn_s, direct_s = interleaved(through, lambda: seconds(lambda: _ask(direct, base_url)), PAIRS)
        client.close()
    return Figure(
        "daemon's share of a turn",
        (turn_s - direct_s) * 1000,
        "ms",
        goal=3.0,
        comparison=direct_s * 1000,
        compared_with="the same endpoint by httpx",
        note="submit to turn.ended, journal on, no tools, less the direct call",
    )


def _ask(client: httpx.Client, base_url: str) -> None:
    body = {"model": "echo", "stream": True, "messages": [{"role": "user", "content": "a word or two"}]}
    words = []
    with client.stream("POST", f"{base_url}/chat/completions", json=body) as response:
        response.raise_for_status()
        for line in response.iter_lines():
            if line.startswith("data: {"):
                choices = json.loads(line[6:])["choices"]
                words += [choice["delta"].get("content") or "" for choice in choices]
    assert "".join(words).strip(), words
