"""Runs the `hermes` command as a user would, in a home and a runtime folder of its own."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from hermes_local import locks, state_file
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

    def __enter__(self) -> Shell:
        return self

    def __exit__(self, *exc: object) -> None:
        """End whatever daemon was started, and wait for its lock."""
        self.kill_daemon()

    def daemon_pid(self) -> int | None:
        """The pid that the owner's lock file names, while the lock is held."""
        path = self.address.lock_path
        return state_file.read(path).get("pid") if locks.is_locked(path) else None

    def kill_daemon(self) -> int | None:
        """kill -9 the daemon and wait until the kernel has dropped its lock; its pid."""
        pid = self.daemon_pid()
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            wait_for(lambda: not locks.is_locked(self.address.lock_path))
        return pid

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


def wait_for(condition: Callable[[], object], seconds: float = 30.0) -> None:
    """Return as soon as `condition` holds; fail after a generous time that only a hang can use up."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the awaited condition never came"
        select.select((), (), (), 0.01)
