"""File locks that the kernel drops with the process: who owns a daemon's address, and who is starting one.

flock and not a pid file: a number in a file outlives its process and may name a stranger.
"""

from __future__ import annotations

import fcntl
import os


class Lock:
    """A held flock. Closing it, or the death of the process, sets it free; the file itself stays."""

    __slots__ = ("fd", "path")

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self.fd = fd

    def write(self, text: str) -> None:
        """Replace what the file says about its holder (people read it; nothing is decided by it)."""
        os.ftruncate(self.fd, 0)
        os.pwrite(self.fd, text.encode(), 0)

    def release(self) -> None:
        """Let the next one in. Twice is once."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def try_lock(path: str) -> Lock | None:
    """The lock on `path` (made with mode 0600 where missing), or None when someone else holds it."""
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        except BaseException:
            os.close(fd)
            raise
        if _still_there(path, fd):
            return Lock(path, fd)
        os.close(fd)  # the file was removed and made anew between open and lock: lock the new one


def is_locked(path: str) -> bool:
    """Whether someone holds the lock on `path`; a missing file is free and stays missing."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        # A shared try does not disturb others who only look, and shows an exclusive holder all the same.
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def _still_there(path: str, fd: int) -> bool:
    ours = os.fstat(fd)
    try:
        named = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return (ours.st_ino, ours.st_dev) == (named.st_ino, named.st_dev)
