"""Which state of a file a session has seen, so that no edit overwrites what nobody read."""

from __future__ import annotations

import os
from collections import OrderedDict
from typing import TypeAlias

import msgspec

_MOST = 4096

Stamp: TypeAlias = tuple[int, int, int]
"""(modification time in ns, size, inode): another stamp is another content."""


class Seen(msgspec.Struct, frozen=True):
    """`whole` is false when only a part of the file was shown."""

    stamp: Stamp
    whole: bool


class Versions:
    """What each session saw of each file; the longest unused entries are forgotten, which only costs a second read."""

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[str, str], Seen] = OrderedDict()

    def saw(self, session_id: str, path: str, status: os.stat_result, *, whole: bool) -> None:
        """The session was shown this state. Parts of the same state do not make an earlier whole view partial."""
        key, stamp = (session_id, path), stamp_of(status)
        before = self._seen.get(key)
        whole = whole or (before is not None and before.stamp == stamp and before.whole)
        self._seen[key] = Seen(stamp, whole)
        self._seen.move_to_end(key)
        while len(self._seen) > _MOST:
            self._seen.popitem(last=False)

    def seen(self, session_id: str, path: str) -> Seen | None:
        """What the session last saw of the file, or None."""
        return self._seen.get((session_id, path))


def stamp_of(status: os.stat_result) -> Stamp:
    """The stamp of a state."""
    return (status.st_mtime_ns, status.st_size, status.st_ino)
