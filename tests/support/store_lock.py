"""Another process that holds the write lock of a database until it is told to let go."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
connection.execute("ROLLBACK")
connection.close()
"""


class HeldLock:
    """`release` returns when the lock is free."""

    def __init__(self, process: subprocess.Popen[Any]) -> None:
        self._process = process

    def release(self) -> None:
        self._process.stdin.close()
        self._process.wait()


@contextmanager
def locked_by_another_process(path: Path) -> Iterator[HeldLock]:
    process = subprocess.Popen([sys.executable, "-c", _HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"held\n"
        yield HeldLock(process)
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()
