"""Who is at the other end of a unix socket: the kernel says, the client cannot lie."""

from __future__ import annotations

import os
import select
import socket
import struct
from typing import Any


def peer_uid(connected: Any) -> int | None:
    """The user id of the process that connected, or None where the system does not tell."""
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    try:
        raw = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    except (OSError, AttributeError):
        return None
    uid: int = struct.unpack("3i", raw)[1]
    return uid


def is_ours(connected: Any) -> bool:
    """True unless another user is there. The socket's mode keeps others out too; this holds when a mode is wrong."""
    uid = peer_uid(connected)
    return uid is None or uid == os.geteuid()


def hung_up(connected: Any) -> bool:
    """True when the other end is closed both ways: there is nobody who could still read. False where it only said
    that it will send no more, and where the system does not tell."""
    if not hasattr(select, "poll"):
        return False
    poller = select.poll()
    try:
        poller.register(connected.fileno(), 0)  # a hang-up is told unasked
        return any(state & select.POLLHUP for _, state in poller.poll(0))
    except (OSError, ValueError, AttributeError):
        return False
