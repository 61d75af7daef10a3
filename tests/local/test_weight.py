"""What the hot path may import: each of these costs more than a whole request."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {
    "re",
    "enum",
    "json",
    "socket",
    "typing",
    "pathlib",
    "dataclasses",
    "argparse",
    "subprocess",
    "logging",
    "asyncio",
}


@pytest.mark.parametrize(
    "modules",
    [
        "hermes_local.spawn, hermes_local.names, hermes_local.codec",
        "hermes_shell.main, hermes_shell.chat, hermes_shell.oneshot",
    ],
)
def test_the_hot_path_imports_nothing_heavy(modules: str) -> None:
    program = f"import sys; before = set(sys.modules); import {modules}; print(*(set(sys.modules) - before))"
    environ = {"PYTHONPATH": ":".join(sys.path)}
    # -S: what site loads (a .pth file of some other package, say) is not ours to answer for.
    done = subprocess.run(
        [sys.executable, "-S", "-c", program], env=environ, capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert "hermes_local.codec" in loaded
    assert not loaded & HEAVY
