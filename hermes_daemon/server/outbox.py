"""What a connection still has to send: bounded in bytes, merged while it waits, dropped last.

Stages (protocol section 9): neighbouring deltas of one item are merged for `latency` seconds; above the soft limit
they are merged until the socket can take more, and progress is dropped; above half of the hard limit the client gets
whole items only (hermes/lag); above the hard limit a subscription's queued events are dropped and the client is told
to subscribe again. Answers and control messages are never dropped.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, Literal, TypeAlias

import msgspec

from hermes_daemon.engine.emitted import Batch, Emitted, tail
from hermes_daemon.engine.feed import Feed
from hermes_daemon.server.fitting import fitted
from hermes_protocol import envelope
from hermes_protocol.events import SessionDeleted
from hermes_protocol.framing import Framing, encode
from hermes_protocol.methods import DesyncParams, Detail, LagParams

Stage: TypeAlias = Literal["lag", "desync", "recovered"]
CHUNK: Final = 262_144
PAGE: Final = 131_072
SHORTEST_WAIT: Final = 0.001
LEAST_PATIENCE: Final = 0.004
DROPPABLE: Final = -1
"""In the place of `prev`: what may be dropped before anything else, and is owed to nobody."""
STATUS_KINDS: Final = ("turn.", "session.", "request.", "queue.", "notice")


class Subscription:
    """One session as one connection sees it: an engine Sink. `last` is the number of the last event handed on.

    It begins behind: until `release` it takes nothing, so that no event is sent before the answer that announces it,
    and then it reads what it missed from the journal, page by page as the socket drains. It holds a number meanwhile,
    never events. At the head it goes on live.
    """

    def __init__(self, outbox: Outbox, connection_id: str, feed: Feed, detail: Detail,
                 can_answer: frozenset[str], last: int, features: frozenset[str] = frozenset()) -> None:  # fmt: skip
        self.connection_id = connection_id
        self.session_id = feed.session_id
        self.can_answer = can_answer
        self.tells_seen = False
        self.detail = detail
        self.features = features
        self.last = last
        self.queued = 0
        self.run: list[Emitted] = []
        self.run_bytes = 0
        self.dead = False
        self.thinned = False
        self.behind: int | None = last
        """While it catches up: the number of the last event that was read for it."""
        self._outbox = outbox
        self._feed = feed

    @property
    def patience(self) -> float:
        """See feed.Sink."""
        return self._outbox.patience

    def events(self, batch: Batch) -> None:
        """Take a batch. In step with the others the bytes are the ones they get too. Never blocks."""
        if self.dead:
            return
        if self.behind is not None:
            if batch.events[-1].kind == SessionDeleted.KIND:
                self.behind = None  # there is nothing left to catch up with
                self._put(batch.events[-1])
            return
        outbox = self._outbox
        merges = outbox.lagging or outbox.latency > batch.waited
        if merges and self.detail == "full" and not self.thinned and batch.deltas == len(batch.events):
            self._grow(batch.events, batch.size, batch.waited)
            return
        in_step = self.last == batch.prev and self.detail == "full" and not self.run and not self.thinned
        if in_step and batch.features <= self.features and not outbox.lagging and not (batch.deltas and merges):
            frames = batch.joined(outbox.framing)
            if len(frames) <= outbox.frame_limit:
                outbox.put_events(self, batch.prev, frames)
                self.last = batch.last
                return
        for event in batch.events:
            self._event(event, batch.waited)

    def told(self) -> None:
        """Take what the session has delivered and not yet handed on."""
        self._feed.flush_tick()

    def release(self) -> None:
        """The answer is on its way: send what was missed, then live."""
        if not self.dead and not self.catch_up():
            self._outbox.wait_for_room(self)

    def catch_up(self) -> bool:
        """Queue a page of what was missed. True when this subscription is live now, or dead."""
        if self.dead or self.behind is None:
            return True
        self._feed.flush_tick()  # what is delivered now is in the page; the others get it first, in their order
        if not self._feed.retains(self.behind):
            self._outbox.desync(self, "journal")
            return True
        page = self._feed.page(self.behind, self._outbox.page_bytes)
        for event in page:
            if self._wanted(event):
                self._put(event)
        # An empty page: what is missing was deltas, and was folded meanwhile.
        self.behind = page[-1].seq if page and page[-1].seq < self._feed.head else None
        return self.behind is None

    def when_sent(self, then: Callable[[], None]) -> None:
        """Call `then` when what this subscription was told so far has left for the socket."""

        def sent() -> None:
            if self.behind is not None and not self.dead:
                self._outbox.when_sent(sent)  # it still catches up
            else:
                then()

        self._outbox.when_sent(sent)

    def flush(self) -> None:
        """Hand the merged run on."""
        run = self._taken_run()
        for event in self._feed.merged(run) if run else ():
            self._put(event)

    def thin(self) -> None:
        """From here on only whole items, until the outbox has room again."""
        self.thinned = True
        self._taken_run()

    def drop(self) -> None:
        """Nothing of this subscription is wanted any more."""
        self.dead = True
        self._taken_run()

    def _event(self, event: Emitted, waited: float) -> None:
        if self.dead or not self._wanted(event):
            return
        outbox = self._outbox
        if event.delta is not None and (outbox.lagging or outbox.latency > waited):
            self._grow([event], len(event.tail), waited)
            return
        if self.run:
            self.flush()
        self._put(event)

    def _grow(self, deltas: list[Emitted], size: int, waited: float) -> None:
        """Keep deltas back until their neighbours are there."""
        outbox = self._outbox
        if self.run and self.run_bytes + size > outbox.frame_limit // 2:
            self.flush()
        if not self.dead and not self.thinned:
            self.run += deltas
            self.run_bytes += size
            outbox.run_grew(self, size, waited)

    def _put(self, event: Emitted) -> None:
        if self.dead:
            return
        outbox = self._outbox
        body = b"%b%d,%b" % (self._feed.prefix, self.last, event.tail)
        if len(body) > outbox.frame_limit:
            if event.delta is not None:
                return  # item.completed brings the text, or the id under which it is read
            tail = cut_tail(event, outbox.frame_limit - 512, self.session_id)
            body = b"%b%d,%b" % (self._feed.prefix, self.last, tail)
        outbox.put_events(self, self.last, encode(outbox.framing, body))
        self.last = event.seq

    def _taken_run(self) -> list[Emitted]:
        run, self.run = self.run, []
        self._outbox.bytes -= self.run_bytes
        self.run_bytes = 0
        return run

    def _wanted(self, event: Emitted) -> bool:
        if event.data.FEATURE and event.data.FEATURE not in self.features:
            return False
        if self.detail == "status":
            return event.kind.startswith(STATUS_KINDS)
        if self.detail == "final" or self.thinned:
            return event.kind not in ("item.delta", "item.progress")
        return event.kind != "item.progress" or not self._outbox.lagging


def cut_tail(event: Emitted, limit: int, session_id: str) -> bytes:
    """The shared part of the frame of an event that is too long for this reader, with its longest texts cut."""
    data = msgspec.json.encode(fitted(event.data, limit, session_id))
    return tail(event.seq, event.ts, event.kind, event.turn_id, event.item_id, data)


class Outbox:
    """The queue of one connection. `write` puts bytes on the transport; `pause`/`resume` come from it.

    `bytes` counts everything that waits, `owed` the answers and control messages among it, which are never dropped.
    `relieved` is called when the socket has taken something, `stalled` when the client falls behind or catches up.
    `peak`, `lags`, `desyncs` and `dropped` say how it went.
    """

    def __init__(self, write: Callable[[bytes], None], *, soft: int, hard: int,
                 relieved: Callable[[], None] = lambda: None,
                 stalled: Callable[[Stage], None] = lambda stage: None,
                 ) -> None:  # fmt: skip
        self.framing = Framing.NEWLINE
        self.latency = 0.033
        self.frame_limit = 1_048_576
        self.bytes = 0
        self.owed = 0
        self.peak = self.lags = self.desyncs = self.dropped = 0
        self._stalled = stalled
        self._loose = 0
        self._write = write
        self._relieved = relieved
        self._soft = soft
        self._hard = hard
        self._queue: deque[tuple[Subscription | None, int, bytes]] = deque()
        self._paused = False
        self._scheduled = False
        self._sent: list[Callable[[], None]] = []
        self._growing: dict[int, Subscription] = {}
        self._thinned: dict[int, Subscription] = {}
        self._behind: dict[int, Subscription] = {}
        self._merge_timer: asyncio.TimerHandle | None = None

    def take_frames(self, limit: int) -> None:
        """No frame of events or answers has more bytes. A reader of long frames must have room for a few of them: a
        long message is told three times in one breath (turn.started, item.started, item.completed)."""
        self.frame_limit = limit
        self._hard = max(self._hard, 2 * limit)

    @property
    def patience(self) -> float:
        """Seconds that deltas may have waited for each other before they come here."""
        return self.latency if self.latency >= LEAST_PATIENCE else 0.0

    @property
    def lagging(self) -> bool:
        """True while more is queued than the soft limit."""
        return self.bytes > self._soft

    @property
    def full(self) -> bool:
        """True while the answers alone are over the hard limit: who does not read them should not ask for more."""
        return self.owed > self._hard

    @property
    def page_bytes(self) -> int:
        """Bytes of missed events that are read at a time; so many may wait for who catches up."""
        return min(PAGE, self._hard // 4)

    @property
    def paused(self) -> bool:
        """True while the socket does not take more."""
        return self._paused

    def put(self, body: bytes) -> None:
        """Queue an answer or a control message."""
        self.put_framed(encode(self.framing, body))

    def put_framed(self, frame: bytes) -> None:
        """The same for what stands in its frame already."""
        self.owed += len(frame)
        self._append(None, 0, frame)

    def put_droppable(self, body: bytes) -> None:
        """Queue what nobody misses. Above the soft limit it is dropped, with what of its kind still waits."""
        frame = encode(self.framing, body)
        if self.bytes + len(frame) > self._soft:
            self.dropped += 1
            self._drop_loose()
            return
        self._loose += 1
        self._append(None, DROPPABLE, frame)

    def _drop_loose(self) -> None:
        if self._loose:
            kept = deque(entry for entry in self._queue if entry[1] != DROPPABLE)
            self.dropped += len(self._queue) - len(kept)
            self.bytes -= sum(len(frames) for _, prev, frames in self._queue if prev == DROPPABLE)
            self._queue, self._loose = kept, 0

    def put_events(self, subscription: Subscription, prev: int, frames: bytes) -> None:
        """Queue framed events of a subscription; over the hard limit the subscription is desynced instead."""
        if self._loose and self.bytes + len(frames) > self._soft:
            self._drop_loose()
        waiting = self.bytes + len(frames)
        if waiting > self._hard:
            self.desync(subscription)
            return
        subscription.queued += len(frames)
        self._append(subscription, prev, frames)
        if waiting > self._hard // 2:
            self._thin(subscription)

    def wait_for_room(self, subscription: Subscription) -> None:
        """Let a subscription go on catching up as the socket drains."""
        self._behind[id(subscription)] = subscription
        self._schedule()

    def run_grew(self, subscription: Subscription, size: int, waited: float) -> None:
        """A subscription holds events back that have `waited` already: they are handed on when `latency` is over, or
        when the socket drains."""
        self.bytes += size
        self.peak = max(self.peak, self.bytes)
        if self._loose and self.bytes > self._soft:
            self._drop_loose()
        self._growing[id(subscription)] = subscription
        if self.bytes > self._hard:
            self.desync(subscription)
        elif self.bytes > self._hard // 2:
            self._thin(subscription)
        elif self._merge_timer is None:
            # On a grid that all connections share: who waits for the same run hands on the same merged bytes.
            loop = asyncio.get_running_loop()
            grid = max(self.latency - waited, SHORTEST_WAIT)
            self._merge_timer = loop.call_at((loop.time() // grid + 1) * grid, self._merged)

    def when_sent(self, then: Callable[[], None]) -> None:
        """Call `then` once, when everything that is queued has been handed to the socket."""
        self._sent.append(then)
        self._schedule()

    def forget(self, subscription: Subscription) -> int:
        """Drop what a subscription has queued: its events are not wanted any more. The last number it was sent."""
        sent = subscription.last
        subscription.drop()
        self._growing.pop(id(subscription), None)
        self._thinned.pop(id(subscription), None)
        self._behind.pop(id(subscription), None)
        if subscription.queued:
            sent = next(prev for owner, prev, _ in self._queue if owner is subscription)
            self._queue = deque(entry for entry in self._queue if entry[0] is not subscription)
            self.bytes -= subscription.queued
            subscription.queued = 0
        return sent

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

    def _append(self, subscription: Subscription | None, prev: int, frames: bytes) -> None:
        self._queue.append((subscription, prev, frames))
        self.bytes += len(frames)
        self.peak = max(self.peak, self.bytes)
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
                subscription, prev, frames = self._queue.popleft()
                if subscription is not None:
                    subscription.queued -= len(frames)
                elif prev == DROPPABLE:
                    self._loose -= 1
                else:
                    self.owed -= len(frames)
                size += len(frames)
                pieces.append(frames)
            self.bytes -= size
            self._write(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        if not self._paused and self._growing and self._merge_timer is None:
            self._merged()
        if self._sent and not self._paused and not self._queue:
            sent, self._sent = self._sent, []
            for then in sent:
                then()
        if self._thinned and self.bytes <= self._soft // 2:
            self._restore()
        if self._behind and not self._paused:
            self._catch_up()
        self._relieved()

    def _catch_up(self) -> None:
        """A page for each that is behind, as long as there is room: the rest comes with the next turn of the loop."""
        for key, subscription in list(self._behind.items()):
            if self.bytes >= self.page_bytes:
                break
            if subscription.catch_up():
                self._behind.pop(key, None)
        if self._behind:
            self._schedule()

    def _thin(self, subscription: Subscription) -> None:
        """Half of the hard limit is waiting: whole items only, and say so in reserved room."""
        if subscription.thinned or subscription.dead or subscription.detail != "full":
            return
        if subscription.behind is not None:
            return  # it takes no more than there is room for
        self._thinned[id(subscription)] = subscription
        self._growing.pop(id(subscription), None)
        subscription.thin()
        self.put(envelope.note("hermes/lag", LagParams(subscription.session_id, "final")))
        self.lags += 1
        self._stalled("lag")

    def _restore(self) -> None:
        thinned, self._thinned = self._thinned, {}
        for subscription in thinned.values():
            subscription.thinned = False
            self.put(envelope.note("hermes/lag", LagParams(subscription.session_id, "full")))
        self._stalled("recovered")

    def desync(self, subscription: Subscription, reason: Literal["lag", "journal"] = "lag") -> None:
        """Too much is waiting, or the journal no longer has what comes next: drop this subscription's events and say
        so in reserved room."""
        sent = self.forget(subscription)
        self.put(envelope.note("hermes/desync", DesyncParams(subscription.session_id, sent, reason)))
        self.desyncs += 1
        self._stalled("desync")
