"""What each process that runs plugins has loaded: one file a process, the only thing that this plugin writes."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable
from typing import Final

import msgspec

from hermes_daemon.api import LoadedPlugin

SUFFIX: Final = ".json"


class Record(msgspec.Struct, frozen=True):
    """`started` tells a process from a later one of the same id, "" where the system does not say."""

    pid: int
    started: str
    plugins: tuple[LoadedPlugin, ...]


class Records:
    """The records below a folder; the `keep` last written ones stay."""

    def __init__(self, folder: str, keep: int) -> None:
        self._folder, self._keep = folder, keep

    def write(self, plugins: Iterable[LoadedPlugin], pid: int | None = None) -> None:
        """Put down what this process runs, whole or not at all, and drop the oldest of too many records."""
        pid = os.getpid() if pid is None else pid
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        data = msgspec.json.encode(Record(pid, started_at(pid), tuple(plugins)))
        descriptor, made = tempfile.mkstemp(dir=self._folder, prefix=".record")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            os.replace(made, os.path.join(self._folder, f"{pid}{SUFFIX}"))
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(made)
            raise
        self._prune()

    def forget(self) -> None:
        """This process runs no plugins any more."""
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self._folder, f"{os.getpid()}{SUFFIX}"))

    def living(self) -> tuple[Record, ...]:
        """The records of processes that still run, by process id. Records that cannot be read are passed over."""
        records = []
        for name in self._names():
            try:
                with open(os.path.join(self._folder, name), "rb") as file:
                    record = msgspec.json.decode(file.read(), type=Record)
            except (OSError, msgspec.MsgspecError):
                continue
            if runs(record):
                records.append(record)
        return tuple(sorted(records, key=lambda record: record.pid))

    def _prune(self) -> None:
        """The last written stay; between two of the same time the higher process id."""
        ages = []
        for name in self._names():
            with contextlib.suppress(OSError):
                ages.append((os.stat(os.path.join(self._folder, name)).st_mtime_ns, int(name[: -len(SUFFIX)]), name))
        for _, _, name in sorted(ages)[: -self._keep]:
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(self._folder, name))

    def _names(self) -> list[str]:
        try:
            names = os.listdir(self._folder)
        except OSError:
            return []
        return [name for name in names if name.endswith(SUFFIX) and name[: -len(SUFFIX)].isdigit()]


def runs(record: Record) -> bool:
    """Whether the process of a record still runs; another one that was given its number is not it."""
    try:
        os.kill(record.pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # it is somebody else's, and runs
    return started_at(record.pid) == record.started


def started_at(pid: int) -> str:
    """When a process began, in clock ticks since the boot (proc_pid_stat(5), field 22); "" where nobody says."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return ""
    return fields[19] if len(fields) > 19 else ""
