"""The daemon's log file: one line an entry, rotated by size.

Not logging.handlers: importing it (pickle, queue, struct) costs a tenth of the whole cold start.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable
from typing import TextIO

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class LogFile(logging.StreamHandler):  # type: ignore[type-arg]  # generic in the stubs only
    """Appends to `path`; past `max_bytes` it becomes `path.1`, that one `path.2`, up to `backups`. Mode 0600.

    When standard error is the same file, it follows to the new one, so that a crash's traceback is never in a file
    that nobody reads any more. `redact` takes secrets out of what is written.
    """

    def __init__(self, path: str, max_bytes: int = 5_242_880, backups: int = 3) -> None:
        self.path = path
        self.max_bytes = max_bytes
        self.backups = backups
        self.redact: Callable[[str], str] = str
        super().__init__(_open(path))
        formatter = logging.Formatter(FORMAT)
        formatter.default_time_format = "%Y-%m-%dT%H:%M:%S"
        formatter.converter = time.gmtime
        formatter.default_msec_format = "%s.%03dZ"
        self.setFormatter(formatter)

    def format(self, record: logging.LogRecord) -> str:
        """The entry, traceback included, without credentials."""
        return self.redact(super().format(record))

    def emit(self, record: logging.LogRecord) -> None:
        """Write one entry, rotating first when the file is full."""
        try:
            if self.stream.tell() >= self.max_bytes:
                self._rotate()
        except OSError:
            self.handleError(record)  # a full disk must not stop what is being logged
        super().emit(record)

    def close(self) -> None:
        """Close the file."""
        super().close()
        self.stream.close()

    def _rotate(self) -> None:
        if _same(self.path, self.stream.fileno()):  # else somebody has moved or removed it: only follow
            for number in range(self.backups - 1, 0, -1):
                if os.path.exists(f"{self.path}.{number}"):
                    os.replace(f"{self.path}.{number}", f"{self.path}.{number + 1}")
            if self.backups > 0:
                os.replace(self.path, f"{self.path}.1")
            else:
                os.unlink(self.path)
        old, self.stream = self.stream, _open(self.path)
        for fd in (1, 2):
            if _same(fd, old.fileno()):
                os.dup2(self.stream.fileno(), fd)
        old.close()


def setup(path: str, level: str, *, foreground: bool) -> LogFile:
    """Send everything that is logged to the file at `path`, in the foreground to standard error as well."""
    root = logging.getLogger()
    log_file = LogFile(path)
    root.addHandler(log_file)
    if foreground:
        screen = logging.StreamHandler(sys.stderr)
        screen.setFormatter(log_file.formatter)
        root.addHandler(screen)
    root.setLevel(level)
    return log_file


def _open(path: str) -> TextIO:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    return open(fd, "a", encoding="utf-8", errors="backslashreplace")


def _same(one: int | str, other: int) -> bool:
    try:
        return os.path.samestat(os.stat(one), os.fstat(other))
    except OSError:
        return False
