"""What a connection still has to send: bounded in bytes, merged while it waits, dropped last.

Stages (protocol section 9): neighbouring deltas of one item are merged for `latency` seconds; above the soft limit
they are merged until the socket can take more; above the hard limit a subscription's queued events are dropped and
the client is told to subscribe again. Answers and control messages are never dropped.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from hermes_daemon.engine.emitted import Batch, Emitted
from hermes_daemon.engine.feed import Feed
from hermes_protocol import envelope
from hermes_protocol.framing import Framing, encode
from hermes_protocol.methods import DesyncParams, Detail

CHUNK: Final = 262_144
STATUS_KINDS: Final = ("turn.", "session.", "request.", "queue.", "notice")


class Subscription:
    """One session as one connection sees it: an engine Sink. `last` is the number of the last event handed on."""

    def __init__(self, outbox: Outbox, connection_id: str, feed: Feed, detail: Detail,
                 can_answer: frozenset[str], last: int) -> None:  # fmt: skip
        self.connection_id = connection_id
        self.session_id = feed.session_id
        self.can_answer = can_answer
        self.detail = detail
        self.last = last
        self.queued = 0
        self.run: list[Emitted] = []
        self.run_bytes = 0
        self.dead = False
        self._outbox = outbox
        self._feed = feed

    def events(self, batch: Batch) -> None:
        """Take a batch. In step with the others the bytes are the ones they get too. Never blocks."""
        if self.dead:
            return
        merges = batch.deltas and self._outbox.merges
        if self.detail == "full" and merges and batch.deltas == len(batch.events):
            self._hold(batch.events, batch.size)
        elif self.detail == "full" and not merges and not self.run and self.last == batch.prev:
            self.last = batch.last
            self._outbox.put_events(self, batch.joined(self._outbox.framing))
        else:
            for event in batch.events:
                self._event(event)

    def _hold(self, deltas: list[Emitted], size: int) -> None:
        """Keep deltas back until their neighbours are there."""
        self.run += deltas
        self.run_bytes += size
        self._outbox.run_grew(self)

    def _event(self, event: Emitted) -> None:
        if self.dead or not self._wanted(event):
            return
        if event.delta is not None and self._outbox.merges:
            self._hold([event], len(event.tail))
            return
        if self.run:
            self.flush()
        self._put(event)

    def replay(self, events: list[Emitted]) -> None:
        """Take what was missed, in order."""
        for event in events:
            self._event(event)

    def flush(self) -> None:
        """Hand the merged run on."""
        run, self.run, self.run_bytes = self.run, [], 0
        for event in self._feed.merged(run) if run else ():
            self._put(event)

    def _put(self, event: Emitted) -> None:
        body = b"%b%d,%b" % (self._feed.prefix, self.last, event.tail)
        self.last = event.seq
        self._outbox.put_events(self, encode(self._outbox.framing, body))

    def _wanted(self, event: Emitted) -> bool:
        if self.detail == "full":
            return True
        if self.detail == "final":
            return event.kind not in ("item.delta", "item.progress")
        return event.kind.startswith(STATUS_KINDS)


class Outbox:
    """The queue of one connection. `write` puts bytes on the transport; `pause`/`resume` come from it."""

    def __init__(self, write: Callable[[bytes], None], *, soft: int, hard: int) -> None:
        self.framing = Framing.NEWLINE
        self.latency = 0.033
        self.bytes = 0
        self._write = write
        self._soft = soft
        self._hard = hard
        self._queue: deque[tuple[Subscription | None, bytes]] = deque()
        self._paused = False
        self._scheduled = False
        self._growing: dict[int, Subscription] = {}
        self._merge_timer: asyncio.TimerHandle | None = None

    @property
    def merges(self) -> bool:
        """True when deltas may wait for their neighbours."""
        return self.latency > 0 or self.bytes > self._soft

    @property
    def lagging(self) -> bool:
        """True while more is queued than the soft limit."""
        return self.bytes > self._soft

    @property
    def paused(self) -> bool:
        """True while the socket does not take more."""
        return self._paused

    def put(self, body: bytes) -> None:
        """Queue an answer or a control message."""
        self._append(None, encode(self.framing, body))

    def put_events(self, subscription: Subscription, frames: bytes) -> None:
        """Queue framed events of a subscription; over the hard limit the subscription is desynced instead."""
        if self.bytes + len(frames) > self._hard:
            self._desync(subscription)
            return
        subscription.queued += len(frames)
        self._append(subscription, frames)

    def run_grew(self, subscription: Subscription) -> None:
        """A subscription holds back deltas: they are handed on after `latency`, or when the socket drains."""
        self._growing[id(subscription)] = subscription
        if subscription.run_bytes + self.bytes > self._hard:
            self._desync(subscription)
        elif self._merge_timer is None:
            self._merge_timer = asyncio.get_running_loop().call_later(self.latency, self._merged)

    def forget(self, subscription: Subscription) -> None:
        """Drop what a subscription has queued: its events are not wanted any more."""
        subscription.dead = True
        subscription.run = []
        self._growing.pop(id(subscription), None)
        if subscription.queued:
            self._queue = deque(entry for entry in self._queue if entry[0] is not subscription)
            self.bytes -= subscription.queued
            subscription.queued = 0

    def pause(self) -> None:
        """The transport's buffer is full."""
        self._paused = True

    def resume(self) -> None:
        """The transport takes more."""
        self._paused = False
        self._schedule()

    def flush(self) -> None:
        """Hand everything on that the transport takes now; used before closing."""
        for subscription in list(self._growing.values()):
            subscription.flush()
        self._growing.clear()
        self._drain()

    def _append(self, subscription: Subscription | None, frames: bytes) -> None:
        self._queue.append((subscription, frames))
        self.bytes += len(frames)
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled and not self._paused:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._drain)

    def _merged(self) -> None:
        self._merge_timer = None
        if self.lagging and self._paused:
            return  # above the soft limit runs go on growing until the socket drains
        growing, self._growing = self._growing, {}
        for subscription in growing.values():
            if not subscription.dead:
                subscription.flush()

    def _drain(self) -> None:
        """Join what is queued to a few big writes: the system call is the cost, not the bytes."""
        self._scheduled = False
        while self._queue and not self._paused:
            pieces: list[bytes] = []
            size = 0
            while self._queue and size < CHUNK:
                subscription, frames = self._queue.popleft()
                if subscription is not None:
                    subscription.queued -= len(frames)
                size += len(frames)
                pieces.append(frames)
            self.bytes -= size
            self._write(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        if not self._paused and self._growing and self._merge_timer is None:
            self._merged()

    def _desync(self, subscription: Subscription) -> None:
        """Too much is waiting: drop this subscription's events and say so in reserved room."""
        last = subscription.last
        self.forget(subscription)
        self.put(envelope.note("hermes/desync", DesyncParams(subscription.session_id, last, "lag")))
