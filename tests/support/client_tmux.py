"""A real terminal driven from outside: tmux on a socket of its own, programs in it, their screens read as text."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping

HERMES = (sys.executable, "-m", "hermes_shell")
PATIENCE = 30.0
LOOK_AGAIN = 0.05


class Pane:
    """One program on one screen."""

    def __init__(self, tmux: Tmux, name: str) -> None:
        self._tmux = tmux
        self.name = name

    def screen(self, *, colours: bool = False, history: bool = True) -> str:
        """What the screen shows, with what scrolled away above it."""
        words = [
            "capture-pane",
            "-p",
            "-t",
            self.name,
            *(["-e"] if colours else []),
            *(["-S", "-"] if history else []),
        ]
        return self._tmux.run(*words)

    def type(self, text: str) -> None:
        """Keys as they are written."""
        self._tmux.run("send-keys", "-t", self.name, "-l", "--", text)

    def press(self, *keys: str) -> None:
        """Keys by name: Enter, C-c, M-Enter …"""
        self._tmux.run("send-keys", "-t", self.name, *keys)

    def enter(self, text: str) -> None:
        self.type(text)
        self.press("Enter")

    def paste(self, text: str) -> None:
        """As a terminal pastes: all at once, bracketed where the program asked for it."""
        self._tmux.run("load-buffer", "-b", "pasted", "-", given=text)
        self._tmux.run("paste-buffer", "-p", "-b", "pasted", "-t", self.name)

    def resize(self, columns: int, rows: int) -> None:
        self._tmux.run("resize-window", "-t", self.name, "-x", str(columns), "-y", str(rows))

    def wait(self, wanted: str | Callable[[str], object], *, history: bool = True) -> str:
        """The screen as soon as it shows the text (or fits the function). AssertionError with the screen else."""
        deadline = time.monotonic() + PATIENCE
        while True:
            shown = self.screen(history=history)
            if wanted in shown if isinstance(wanted, str) else wanted(shown):
                return shown
            if time.monotonic() > deadline:
                raise AssertionError(f"{wanted!r} did not appear on:\n{shown}")
            select.select([], [], [], LOOK_AGAIN)


class Tmux:
    """A tmux server, with the environment its programs get."""

    def __init__(self, folder: str, environ: Mapping[str, str]) -> None:
        self._socket = os.path.join(folder, "tmux")
        self._environ = dict(environ)
        self._count = 0

    def run(self, *words: str, given: str = "") -> str:
        done = subprocess.run(
            ("tmux", "-u", "-f", os.devnull, "-S", self._socket, *words),
            env=self._environ,
            input=given,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
        if done.returncode:
            raise RuntimeError(f"tmux {words[0]}: {done.stderr.strip()}")
        return done.stdout

    def open(
        self, *words: str, columns: int = 100, rows: int = 30, cwd: str | None = None, environ: Mapping[str, str] = {}
    ) -> Pane:
        """Start `words` on a screen of its own; when they end, the screen stays and tells their exit code."""
        self._count += 1
        name = f"pane{self._count}"
        program = 'trap : INT; code=0; "$@" || code=$?; echo "[left with $code]"; exec sleep 1000'
        size = ("-x", str(columns), "-y", str(rows))
        given = [f"{key}={value}" for key, value in environ.items()]
        self.run(
            "new-session",
            "-d",
            "-s",
            name,
            *size,
            "-c",
            cwd or os.getcwd(),
            "env",
            *given,
            "sh",
            "-c",
            program,
            "sh",
            *words,
        )
        return Pane(self, name)

    def close(self) -> None:
        with contextlib.suppress(RuntimeError):
            self.run("kill-server")


class Desk:
    """A home with its daemon, and terminals to use it from."""

    def __init__(self, folder: str) -> None:
        self.home = os.path.join(folder, "home")
        self.runtime = os.path.join(folder, "run")
        self.work = os.path.join(folder, "work")
        self.temporary = os.path.join(folder, "tmp")
        for path in (self.home, self.runtime, self.work, self.temporary):
            os.mkdir(path, 0o700)
        kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
        self.environ = {
            **kept,
            "HOME": self.home,
            "HERMES_HOME": self.home,
            "XDG_RUNTIME_DIR": self.runtime,
            "TMPDIR": self.temporary,
            "LANG": "C.UTF-8",
            "USER": "ada",
            "TERM": "xterm-256color",
        }
        self.tmux = Tmux(folder, self.environ)

    def hermes(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command without a terminal."""
        return subprocess.run(
            (*HERMES, *words),
            env=self.environ,
            cwd=self.work,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )

    def python(self, path: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a program with this home's daemon."""
        return subprocess.run(
            (sys.executable, path, *words),
            env=self.environ,
            cwd=self.work,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )

    def chat(self, *words: str, **how: object) -> Pane:
        """`hermes chat` on a screen, ready for input."""
        pane = self.tmux.open(*HERMES, "chat", *words, cwd=self.work, **how)  # type: ignore[arg-type]
        pane.wait("idle")
        return pane

    def daemon_pid(self) -> int:
        """The running daemon's process, 0 for none."""
        for folder, _, names in os.walk(self.runtime):
            for name in names:
                if name.endswith(".json"):
                    with open(os.path.join(folder, name), encoding="utf-8") as file:
                        return int(json.load(file)["pid"])
        return 0

    def close(self) -> None:
        self.tmux.close()
        pid = self.daemon_pid()
        if pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@contextlib.contextmanager
def desk() -> Iterator[Desk]:
    """A Desk in a folder of its own, cleared away afterwards. The folder is short: a socket's path must be."""
    folder = tempfile.mkdtemp(prefix="hd-")
    made = Desk(folder)
    try:
        yield made
    finally:
        made.close()
        shutil.rmtree(folder, ignore_errors=True)


def absent() -> str:
    """Why these tests cannot run here, or ""."""
    return "" if shutil.which("tmux") else "tmux is not installed"
