"""Runs the `hermes` command as a user would, in a home and a runtime folder of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from hermes_local.address import Address, resolve

PATHS = [path for path in sys.path if path]


class Shell:
    """A user with nothing but a home: `run` gives the finished command, `start` a running one."""

    def __init__(self, place: Path) -> None:
        runtime = place / "run"
        runtime.mkdir(mode=0o700)
        self.work = place / "work"
        self.work.mkdir()
        self.env = {
            "HOME": str(place),
            "PATH": os.environ["PATH"],
            "HERMES_HOME": str(place / "home"),
            "XDG_RUNTIME_DIR": str(runtime),
            "PYTHONPATH": ":".join(PATHS),
            "LANG": "C.UTF-8",
        }

    @property
    def address(self) -> Address:
        """Where this user's daemon lives; the runtime folder is made."""
        address = resolve(self.env)
        Path(address.runtime_dir).mkdir(mode=0o700, exist_ok=True)
        return address

    def start(self, *words: str, module: str = "hermes_shell") -> subprocess.Popen[str]:
        """The command, running, with pipes."""
        return subprocess.Popen(
            [sys.executable, "-P", "-m", module, *words],
            cwd=self.work,
            env=self.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str, stdin: str = "", module: str = "hermes_shell") -> subprocess.CompletedProcess[str]:
        """The command, finished within a minute."""
        with self.start(*words, module=module) as child:
            out, err = child.communicate(stdin, timeout=60)
        return subprocess.CompletedProcess(words, child.returncode, out, err)
