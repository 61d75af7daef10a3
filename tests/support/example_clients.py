"""The programs of docs/examples/clients, run as a person runs them, with a `hermes-daemon` of the test on PATH."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.daemon_process import Daemon

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "examples" / "clients"
COMMANDS = {
    "client.py": [sys.executable],
    "client.mjs": ["node"],
    "client.lua": ["nvim", "-l"],
    "client.el": ["emacs", "-Q", "--batch", "-l"],
}
PATIENCE_S = 60.0


def available(name: str) -> None:
    """Skip the test, with the reason, where the program that runs this client is not installed."""
    program = COMMANDS[name][0]
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")


def run(name: str, daemon: Daemon, folder: Path, *arguments: str, typed: str = "", relay: Path | None = None) -> str:
    """What the client prints. `typed` is its standard input; `relay` is a script to use in place of the stdio pump."""
    available(name)
    bin = folder / "bin"
    bin.mkdir(exist_ok=True)
    words = [sys.executable, str(relay)] if relay else [sys.executable, "-m", "hermes_daemon"]
    (bin / "hermes-daemon").write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    (bin / "hermes-daemon").chmod(0o755)
    environ = daemon.environ | {"PATH": f"{bin}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        [*COMMANDS[name], str(FOLDER / name), *arguments],
        cwd=folder,
        env=environ,
        input=typed,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
