"""What a running daemon says of itself in a file beside its socket: for people, scripts and error messages.

Nothing is decided by it (the lock decides), so a missing, torn or old file is no error.
"""

from __future__ import annotations

import os
import time

from hermes_local import codec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def write(path: str, state: Mapping[str, Any]) -> None:
    """Put `state` at `path` in one step, mode 0600: a reader sees the old file or the new one."""
    temporary = f"{path}.{os.getpid()}"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        os.write(fd, (codec.encode(state) + "\n").encode())
    finally:
        os.close(fd)
    os.replace(temporary, path)


def read(path: str) -> dict[str, Any]:
    """What the file says, or {} where there is none that can be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            state = codec.decode(os.read(fd, 65_536))
        finally:
            os.close(fd)
    except (OSError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}


def describe(path: str, log_path: str) -> str:
    """Who holds the address, in a sentence for an error message: pid, age, and the last lines of the log."""
    state = read(path)
    started = state.get("startTime")
    who = f"pid {state['pid']}" if "pid" in state else "a process that has not written its state file yet"
    age = f", up for {duration(time.time() - started)}" if isinstance(started, (int, float)) else ""
    return f"{who}{age}{log_tail(log_path)}"


def log_tail(path: str, lines: int = 5) -> str:
    """The last lines of the log, set off for an error message; empty where there is no log."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            size = os.fstat(fd).st_size
            text = os.pread(fd, 16_384, max(0, size - 16_384)).decode(errors="replace")
        finally:
            os.close(fd)
    except OSError:
        return ""
    last = [line for line in text.splitlines() if line.strip()][-lines:]
    return "".join(f"\n  | {line}" for line in (f"last lines of {path}:", *last)) if last else ""


def duration(seconds: float) -> str:
    """A length of time as people say it: `12 s`, `3 min`, `2 h 5 min`, `4 d`."""
    whole = max(0, int(seconds))
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min"
    if whole < 172_800:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86_400} d"
