"""A small file system of its own, to fill or to make read-only. Needs the right to mount."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class SmallDisk:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._filler = path / "filler"

    def fill(self, leave: int = 0) -> None:
        """Use up all space but `leave` bytes."""
        with self._filler.open("wb", buffering=0) as file:
            try:
                while file.write(bytes(4096)):
                    pass
            except OSError:
                file.truncate(max(file.tell() - leave, 0))

    def free(self) -> None:
        self._filler.unlink()


@contextmanager
def small_disk(path: Path, size: str = "4m") -> Iterator[SmallDisk]:
    path.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)], capture_output=True)
    if made.returncode:
        pytest.skip(f"cannot mount a file system here: {os.fsdecode(made.stderr).strip()}")
    try:
        yield SmallDisk(path)
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


def make_read_only(path: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(path)], check=True)
