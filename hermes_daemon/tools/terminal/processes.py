"""Which processes belong to a command, and how they end.

A command's shell leads a session and a process group of its own and carries HERMES_PROCESS=<marker>, which all its
descendants inherit. A daemon that left session and group is still found by the marker. What gave itself a clean
environment as well is not found; nothing short of a container would.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable

import msgspec

from hermes_daemon.core.records import ProcessRow

MARKER = "HERMES_PROCESS"
KNOWS_PROCESSES = os.path.isdir("/proc/self")
"""Whether the system shows its processes as files, as Linux does. Else only process groups can be signalled."""

_PASSES = 5
_POLL_S = 0.02


class Stray(msgspec.Struct, frozen=True):
    """A process of a command, found alive. `started` guards against a reused pid."""

    pid: int
    started: str
    command: str


def start_time(pid: int) -> str:
    """When the process was started, as the kernel tells it; empty when there is no such process.

    On Linux: the boot's id and field 22 of /proc/<pid>/stat (clock ticks since boot), elsewhere what `ps` prints.
    """
    fields = _stat(pid)
    if fields is not None:
        return f"{_boot_id()}:{fields[19]}"
    if KNOWS_PROCESSES:
        return ""
    answer = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return answer.stdout.strip()


def strays(marker: str, session: int = 0) -> list[Stray]:
    """Living processes with the marker, or of the process session or group `session`. Without /proc, none.

    A process may fork and be gone between being listed and being read: what is new is read until nothing is.
    """
    wanted = f"{MARKER}={marker}".encode()
    found: list[Stray] = []
    seen = {os.getpid()}
    for _ in range(_PASSES):
        fresh = [pid for pid in _pids() if pid not in seen]
        if not fresh:
            break
        seen.update(fresh)
        for pid in fresh:
            fields = _stat(pid)
            if fields is None or fields[0] == "Z":
                continue
            ours = session > 0 and session in (int(fields[2]), int(fields[3]))
            if ours or (marker and wanted in _environment(pid)):
                found.append(Stray(pid, f"{_boot_id()}:{fields[19]}", _command(pid)))
    return found


def send(found: Iterable[Stray], number: signal.Signals) -> None:
    """Signal those that are still the process that was found."""
    for stray in found:
        if start_time(stray.pid) == stray.started:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(stray.pid, number)


def stop(look: Callable[[], list[Stray]], grace_s: float) -> list[Stray]:
    """TERM, grace, KILL for what `look` finds, until it finds nothing; those that were stopped. Blocks."""
    stopped: dict[int, Stray] = {}
    found = look()
    send(found, signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while found:
        stopped |= {stray.pid: stray for stray in found}
        late = time.monotonic() >= deadline
        if late:
            send(found, signal.SIGKILL)
            if time.monotonic() >= deadline + 2.0:  # a process in uninterruptible sleep dies when it wakes
                break
        time.sleep(_POLL_S)
        known = {stray.pid for stray in found}
        found = look()
        if not late:
            send([stray for stray in found if stray.pid not in known], signal.SIGTERM)
    return list(stopped.values())


def reap(rows: tuple[ProcessRow, ...], grace_s: float = 1.0) -> list[str]:
    """Stop what a daemon that died left running; one sentence for each command something was left of.

    For each row: its process group when the recorded pid is still the recorded process, and whatever carries the
    marker. A pid that was given to another process since then is left alone. Blocks up to the grace: use a thread.
    """
    sentences: list[str] = []
    for row in rows:

        def look(row: ProcessRow = row) -> list[Stray]:
            alive = bool(row.started) and start_time(row.pid) == row.started
            return _all_of(row, alive)

        stopped = stop(look, grace_s)
        if stopped:
            pids = ", ".join(str(stray.pid) for stray in stopped)
            sentences.append(
                f"stopped {len(stopped)} process(es) left by an earlier run of `{row.command[:200]}`: {pids}"
            )
    return sentences


def _all_of(row: ProcessRow, alive: bool) -> list[Stray]:
    found = strays(row.marker, row.pid if alive else 0)
    if alive and all(stray.pid != row.pid for stray in found) and not KNOWS_PROCESSES:
        found.append(Stray(row.pid, row.started, row.command))
    return found


def _pids() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except FileNotFoundError:
        return []


def _stat(pid: int) -> list[str] | None:
    """Fields 3… of /proc/<pid>/stat (state first); the command name before them may hold blanks and brackets."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None


def _environment(pid: int) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []


def _command(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ").decode("utf-8", "replace").strip()[:200]
    except OSError:
        return ""


def _boot_id() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()[:8]
    except OSError:
        return ""
