"""How long a person waits: the one-shot command against a running daemon, and the start of the daemon itself."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.bench.client import BenchClient
from tests.bench.figure import Figure, interleaved, seconds
from tests.support.daemon_process import Daemon, running_daemon

PAIRS = 25
STARTS = 11


def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="hb") as folder:
        return [_chat(Path(folder) / "a"), _cold_start(Path(folder) / "b")]


def _python(code: str) -> float:
    return seconds(lambda: subprocess.run([sys.executable, "-c", code], check=True))


def _chat(folder: Path) -> Figure:
    with running_daemon(folder) as daemon:
        # The installed command when there is one: a console script is what people run.
        script = Path(sys.executable).parent / "hermes"
        command = [str(script)] if script.exists() else [sys.executable, "-m", "hermes_shell"]
        words = [*command, "chat", "--model", "scripted/echo", "--cwd", str(folder), "-q", "hi"]

        def chat() -> None:
            done = subprocess.run(words, env=daemon.environ, capture_output=True, check=True)
            assert b"hi" in done.stdout, done

        chat_s, pass_s = interleaved(lambda: seconds(chat), lambda: _python("pass"), PAIRS)
    return Figure(
        "`hermes chat -q` on a warm daemon",
        chat_s * 1000,
        "ms",
        goal=4.0,
        of="ratio",
        comparison=pass_s * 1000,
        compared_with="`python -c pass`",
        note="whole command: start, connect, session, turn, answer on stdout",
    )


def _cold_start(folder: Path) -> Figure:
    daemon = Daemon(folder / "home", folder / "run")

    def start() -> None:
        daemon.start()
        client = BenchClient(daemon.socket_path)
        client.initialize()
        client.close()

    def one() -> float:
        taken = seconds(start)
        daemon.stop()
        return taken

    start_s, import_s = interleaved(one, lambda: _python("import asyncio, msgspec, sqlite3"), STARTS)
    return Figure(
        "daemon: cold start to the answer of `initialize`",
        start_s * 1000,
        "ms",
        goal=3.0,
        of="ratio",
        comparison=import_s * 1000,
        compared_with="`python -c 'import asyncio, msgspec, sqlite3'`",
    )
