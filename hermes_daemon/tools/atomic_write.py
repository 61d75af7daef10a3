"""A file's new content, all of it or none: written beside it, made durable, then moved into its place."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Iterator

from hermes_daemon.core.ports import Refused

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def replace_content(path: str, data: bytes, before: os.stat_result | None) -> os.stat_result:
    """Give the file this content; the state it is in afterwards. `before` is its state, None for a new file.

    Mode, owner and extended attributes are kept. A file with several names (hard links), or one whose folder or owner
    cannot be had, is written in place instead. Refused when the disk is full: then nothing was changed.
    """
    try:
        with _disk_full_means(f"{path} was not changed"):
            if before is None or before.st_nlink == 1:
                try:
                    return _beside(path, data, before)
                except PermissionError:
                    if before is None:
                        raise
            return _in_place(path, data)
    except FileNotFoundError as error:
        raise Refused(f"{error.filename or path} is gone.") from None


def make_folders(path: str) -> list[str]:
    """Make the missing folders above a file; those that were made."""
    missing: list[str] = []
    folder = os.path.dirname(path)
    while folder and not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    with _disk_full_means("no folder was made"):
        for folder in reversed(missing):
            os.mkdir(folder)
    return missing[::-1]


def _beside(path: str, data: bytes, before: os.stat_result | None) -> os.stat_result:
    folder = os.path.dirname(path)
    temporary = os.path.join(folder, f".{os.path.basename(path)[:100]}.{secrets.token_hex(4)}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    try:
        try:
            _write_all(descriptor, data)
            if before is not None:
                _dress(descriptor, path, before)
            os.fsync(descriptor)
            status = os.fstat(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_folder(folder)
    return status


def _dress(descriptor: int, path: str, before: os.stat_result) -> None:
    """Give the new file the old one's owner (PermissionError if that is not ours to give), mode and attributes."""
    mine = os.fstat(descriptor)
    if (mine.st_uid, mine.st_gid) != (before.st_uid, before.st_gid):
        os.fchown(descriptor, before.st_uid, before.st_gid)
    os.fchmod(descriptor, before.st_mode & 0o7777)
    if hasattr(os, "listxattr"):
        with contextlib.suppress(OSError):  # a file system without them, or one that keeps some for itself
            for name in os.listxattr(path):
                os.setxattr(descriptor, name, os.getxattr(path, name))


def _in_place(path: str, data: bytes) -> os.stat_result:
    """Not atomic; the space is taken first, so that a full disk shows before the old content is touched."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        if data and hasattr(os, "posix_fallocate"):
            old = os.fstat(descriptor).st_size
            if len(data) > old:
                os.posix_fallocate(descriptor, old, len(data) - old)
        _write_all(descriptor, data)
        os.ftruncate(descriptor, len(data))
        os.fsync(descriptor)
        return os.fstat(descriptor)
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _sync_folder(folder: str) -> None:
    with contextlib.suppress(OSError):  # some file systems refuse it; the content is safe already
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def _disk_full_means(consequence: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise Refused(f"The disk is full ({error.strerror}); {consequence}.", "Free space and try again.") from None
        raise
