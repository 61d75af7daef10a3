"""A real daemon process for tests and benches: started, awaited by its readiness pipe, ended with the test."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hermes_local.address import Address, resolve

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCES = [str(REPOSITORY / folder) for folder in ("protocol", ".", "clients/python", "clients/shell")]
START_S = 30.0


class Daemon:
    """One daemon on a home of its own. `socket_path` accepts connections while it runs; a command that is run with
    `environ` finds it by itself."""

    def __init__(self, home: Path, runtime_dir: Path, environ: Mapping[str, str] | None = None) -> None:
        home.mkdir(parents=True, exist_ok=True)
        runtime_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.environ = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "PYTHONPATH": os.pathsep.join(SOURCES),
            "HERMES_HOME": str(home),
            "XDG_RUNTIME_DIR": os.path.realpath(runtime_dir),
            **(environ or {}),
        }
        self.address: Address = resolve(self.environ)
        self.process: subprocess.Popen[bytes] | None = None
        self._until: int | None = None
        self._said = runtime_dir / "said.txt"
        self.ready: dict[str, Any] = {}

    @property
    def socket_path(self) -> str:
        return self.address.socket_path

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def start(self) -> None:
        """Start it and return when the first connection can be made. AssertionError with its words when it cannot."""
        ready, ready_end = os.pipe()
        until_end, self._until = os.pipe()
        words = ["serve", "--runtime-dir", self.address.runtime_dir, "--ready-fd", str(ready_end)]
        try:
            with self._said.open("ab") as said:
                self.process = subprocess.Popen(
                    [sys.executable, "-m", "hermes_daemon", *words, "--until-fd", str(until_end)],
                    env=self.environ,
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=said,
                    pass_fds=(ready_end, until_end),
                    start_new_session=True,
                )
        finally:
            os.close(ready_end)
            os.close(until_end)
        try:
            line = _line(ready, START_S)
        finally:
            os.close(ready)
        if not line:
            self.kill()
            raise AssertionError(f"the daemon did not become ready: {self._last_words()}")
        self.ready = json.loads(line)

    def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self._let_go()

    def stop(self) -> int:
        """Ask it to stop and wait; its exit code."""
        if self.process is None:
            return 0
        self._let_go()
        try:
            return self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the daemon did not stop: {self._last_words()}") from None

    def _let_go(self) -> None:
        if self._until is not None:
            os.close(self._until)
            self._until = None

    def _last_words(self) -> str:
        files = (self._said, Path(self.address.log_path))
        return "\n".join(file.read_text(errors="replace")[-2000:] for file in files if file.exists())


@contextlib.contextmanager
def running_daemon(folder: Path, config: str = "", environ: Mapping[str, str] | None = None) -> Iterator[Daemon]:
    """A daemon below `folder` with this config.yaml, until the end of the block."""
    daemon = Daemon(folder / "home", folder / "run", environ)
    if config:
        (folder / "home" / "config.yaml").write_text(config, encoding="utf-8")
    daemon.start()
    try:
        yield daemon
    except BaseException:
        daemon.kill()
        raise
    daemon.stop()


def _line(fd: int, timeout: float) -> bytes:
    """What comes through the pipe until a newline or its end; nothing when it takes too long."""
    line = b""
    while select.select([fd], [], [], timeout)[0]:
        piece = os.read(fd, 65_536)
        line += piece
        if not piece or b"\n" in line:
            break
    return line
