"""Copies bytes between two descriptors of ours and a daemon's connection, both ways, until either side ends."""

from __future__ import annotations

import os
import select
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hermes_local.connection import Connection

CHUNK = 65_536
# A side whose reader is slower than this is not read further, so that a pump never grows without bound.
HELD_BYTES = 1_048_576
# What the daemon still has to say when our input has ended must come within this time.
LAST_WORDS_S = 2.0
SHUTDOWN = b'"shutdown"'


class _Flow:
    """One direction: what was read from `source` and waits for `sink`."""

    __slots__ = ("ended", "held", "sink", "source")

    def __init__(self, source: int, sink: int) -> None:
        self.source = source
        self.sink = sink
        self.held = bytearray()
        self.ended = False

    @property
    def done(self) -> bool:
        return self.ended and not self.held

    def wants(self) -> tuple[bool, bool]:
        """Whether it would read and whether it would write now."""
        return not self.ended and len(self.held) < HELD_BYTES, bool(self.held)

    def read(self) -> bytes:
        chunk = os.read(self.source, CHUNK)
        self.held += chunk
        self.ended = not chunk
        return chunk

    def write(self) -> None:
        # PIPE_BUF is what a descriptor that polls writable takes without blocking. Ours stay in blocking mode,
        # because the mode is shared with the process that started us.
        del self.held[: os.write(self.sink, self.held[: select.PIPE_BUF])]


def pump(reading: int, writing: int, connection: Connection) -> bool:
    """Copy `reading` to the daemon and the daemon to `writing`.

    Ends when the daemon closes, when `writing` is broken, or soon after `reading` has ended (what was read is still
    sent, what the daemon answers within 2 s still written). True when the client said `shutdown` before: as a JSON
    string of its own, which the same word inside a text never is, its quotes being escaped.
    """
    sock = connection.fileno()
    up, down = _Flow(reading, sock), _Flow(sock, writing)
    said, tail = False, b""
    deadline = None
    try:
        while not down.done:
            if up.done and deadline is None:
                deadline = time.monotonic() + LAST_WORDS_S
                connection.half_close()
            readable, writable = _poll((up, down), deadline)
            if not readable and not writable and deadline is not None and time.monotonic() >= deadline:
                break
            for flow in (up, down):
                if flow.sink in writable and flow.held:
                    flow.write()
                if flow.source in readable and flow.wants()[0]:
                    chunk = flow.read()
                    if flow is up:
                        said = said or SHUTDOWN in tail + chunk
                        tail = chunk[1 - len(SHUTDOWN) :]
    except OSError:
        pass  # a broken pipe or a reset socket is that side's end
    return said


def _poll(flows: tuple[_Flow, ...], deadline: float | None) -> tuple[set[int], set[int]]:
    masks: dict[int, int] = {}
    for flow in flows:
        reads, writes = flow.wants()
        if reads:
            masks[flow.source] = masks.get(flow.source, 0) | select.POLLIN
        if writes:
            masks[flow.sink] = masks.get(flow.sink, 0) | select.POLLOUT
    poll = select.poll()
    for fd, mask in masks.items():
        poll.register(fd, mask)
    left = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000
    readable, writable = set(), set()
    for fd, event in poll.poll(left):
        # An end or an error is found by doing what was wanted, so it counts as ready for it.
        over = event & (select.POLLHUP | select.POLLERR | select.POLLNVAL)
        if masks[fd] & select.POLLIN and (event & select.POLLIN or over):
            readable.add(fd)
        if masks[fd] & select.POLLOUT and (event & select.POLLOUT or over):
            writable.add(fd)
    return readable, writable
