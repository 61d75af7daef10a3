"""What a turn through the daemon costs over talking to the same endpoint directly."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from functools import partial
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
            return _overhead(Path(name), base_url)
        finally:
            server.terminate()


def _overhead(folder: Path, base_url: str) -> list[Figure]:
    with running_daemon(folder, CONFIG.format(base_url=base_url)) as daemon:
        client = BenchClient(daemon.socket_path)
        client.initialize()
        count = iter(range(10**6))

        def through(model: str = "bench/echo") -> float:
            # A session of its own for every turn: the history, and so the request, is as long as the direct one.
            session_id = client.session(model, str(folder))
            client.subscribe(session_id)

            def turn() -> None:
                client.submit(session_id, f"k{next(count)}", "a word or two")
                client.until_turn_ended()

            taken = seconds(turn)
            client.request("hermes/session/unsubscribe", {"sessionId": session_id})
            return taken

        with asyncio.Runner() as runner:
            direct = httpx.AsyncClient(trust_env=False)
            ask = partial(_ask, direct, base_url)
            turn_s, direct_s = interleaved(through, lambda: seconds(lambda: runner.run(ask())), PAIRS)
            runner.run(direct.aclose())
        within_s, _ = interleaved(lambda: through("scripted/echo"), lambda: 0.0, PAIRS // 2)
        client.close()
    return [
        Figure(
            "daemon's share of a turn",
            (turn_s - direct_s) * 1000,
            "ms",
            goal=3.0,
            comparison=direct_s * 1000,
            compared_with="the same endpoint by httpx",
            note=f"submit to turn.ended ({turn_s * 1000:.2f} ms), journal on, no tools, less the direct call",
        ),
        Figure(
            "a turn without any endpoint",
            within_s * 1000,
            "ms",
            note="the same with the scripted model in the daemon: admission, journal, events, end",
        ),
    ]


async def _ask(client: httpx.AsyncClient, base_url: str) -> None:
    """What a program without a daemon does: stream the answer and read its words."""
    body = {"model": "echo", "stream": True, "messages": [{"role": "user", "content": "a word or two"}]}
    words = []
    async with client.stream("POST", f"{base_url}/chat/completions", json=body) as response:
        response.raise_for_status()
        async for line in response.aiter_lines():
            if line.startswith("data: {"):
                choices = json.loads(line[6:])["choices"]
                words += [choice["delta"].get("content") or "" for choice in choices]
    assert "".join(words).strip(), words
