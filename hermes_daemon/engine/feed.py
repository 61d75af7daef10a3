"""A session's events: numbered, journaled, then given to every subscriber, in one order for all.

An event is numbered when it is posted and delivered when it is committed, never before an earlier one. Deltas are
delivered at once and journaled in runs (protocol G8); nothing that follows them overtakes their run.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from itertools import takewhile
from typing import Final, Protocol

import msgspec

from hermes_daemon.core.ports import Clock, Store
from hermes_daemon.core.records import AddEvents, EventRow, Op, RaiseCeiling
from hermes_daemon.engine.emitted import Batch, Draft, Emitted, OpenItem, merge, replayed, tail
from hermes_daemon.engine.told import Told
from hermes_protocol.events import EventData, ItemCompleted, ItemDelta, ItemDiscarded, ItemProgress, ItemStarted

LEASE: Final = 1024
ENVELOPE: Final = 256  # bytes of a frame around the data of its event, about
RUN_SECONDS: Final = 0.05
RUN_CHARS: Final = 32_768
HELD_BYTES: Final = 16_384
"""Deltas that wait for each other become one frame, which must fit everybody's."""
MERGED_KEPT: Final = 8
PAGE_ROWS: Final = 500
READ_ROWS: Final = 16
_encode = msgspec.json.Encoder().encode


class Sink(Protocol):
    """Where a subscriber's events go. Must return at once."""

    @property
    def patience(self) -> float:
        """Seconds that deltas alone may wait for each other before this one is told."""
        ...

    def events(self, batch: Batch) -> None: ...


class _Slot:
    """Events waiting for their commit, which makes the numbers up to `ceiling` ours; 0 for events that wait for nothing
    but those before them. A dropped slot gives its numbers up."""

    __slots__ = ("ceiling", "dropped", "events", "ready")

    def __init__(self, events: list[Emitted], ceiling: int = 0) -> None:
        self.events = events
        self.ceiling = ceiling
        self.ready = not ceiling
        self.dropped = False


class Feed:
    """One session's event stream. `head` is the number of the last delivered event."""

    def __init__(self, session_id: str, epoch: str, store: Store, clock: Clock, *, ceiling: int, head: int) -> None:
        self.session_id = session_id
        self.epoch = epoch
        self.head = head
        self.open: dict[str, OpenItem] = {}
        self.told = Told()
        self.sinks: list[Sink] = []
        self._store = store
        self._clock = clock
        self._next = ceiling + 1
        self._ceiling = ceiling
        self._leasing: asyncio.Task[None] | None = None
        self._outgoing: deque[_Slot] = deque()
        self._run: list[Emitted] = []
        self._run_chars = 0
        self._run_timer: asyncio.TimerHandle | None = None
        self._tick: list[Emitted] = []
        self._tick_prev = head
        self._tick_timer: asyncio.TimerHandle | None = None
        self._tick_bytes = 0
        self._patience = 0.0
        self._merged: dict[tuple[int, int], list[Emitted]] = {}
        self._arrivals: list[asyncio.Future[None]] = []
        self._unconfirmed: deque[Emitted] = deque()
        self.prefix = (
            b'{"jsonrpc":"2.0","method":"hermes/event","params":{"sessionId":'
            + _encode(session_id)
            + b',"epoch":'
            + _encode(epoch)
            + b',"prev":'
        )

    # --- posting ---

    def adopt_lease(self, ceiling: int) -> None:
        """The numbers up to `ceiling` are durably ours (they were leased in the write that made the session)."""
        self._ceiling = ceiling

    async def room(self, count: int) -> None:
        """Return when `count` numbers may be used."""
        while self._next + count - 1 > self._ceiling:
            await asyncio.shield(self._lease())

    def _lease(self) -> asyncio.Task[None]:
        if self._leasing is None:
            self._leasing = asyncio.get_running_loop().create_task(self._raise_ceiling())
            self._leasing.add_done_callback(_seen)
        return self._leasing

    async def _raise_ceiling(self) -> None:
        """Own the next block of numbers before any of them is used."""
        ceiling = max(self._ceiling, self._next - 1) + LEASE
        try:
            await self._store.write(RaiseCeiling(session_id=self.session_id, ceiling=ceiling), patience=None)
            self._ceiling = max(self._ceiling, ceiling)
        finally:
            self._leasing = None

    async def post(
        self,
        drafts: Sequence[Draft],
        ops: Sequence[Op] | Callable[[int], Sequence[Op]] = (),
        *,
        durable: bool = False,
        patience: float | None = None,
    ) -> tuple[int, Awaitable[None]]:
        """Number the drafts and hand them to the store together with `ops`, in one transaction.

        Gives the last number and an awaitable for the commit (StorageError when it failed and nothing happened).
        Never waits: when numbers have run out, their lease is part of the transaction. `ops` may be a function of the
        last number (receipts carry it).
        """
        self.flush_run()
        ts = self._clock.now()
        events = [self._number(draft, ts) for draft in drafts]
        seq = events[-1].seq if events else self._next - 1
        rows = tuple(self._row(event) for event in events)
        made = tuple(ops(seq) if callable(ops) else ops)
        ceiling = self._ceiling
        if seq > ceiling:
            ceiling, durable = seq + LEASE, True
            made = (RaiseCeiling(session_id=self.session_id, ceiling=ceiling), *made)
        slot = _Slot(events, ceiling)
        self._outgoing.append(slot)
        written = asyncio.ensure_future(
            self._store.write(*made, AddEvents(rows=rows), durable=durable, patience=patience)
        )
        written.add_done_callback(lambda future: self._settled(slot, future))
        if self._ceiling - self._next < LEASE // 2:
            self._lease()
        return seq, written

    async def commit(
        self,
        drafts: Sequence[Draft],
        ops: Sequence[Op] | Callable[[int], Sequence[Op]] = (),
        *,
        durable: bool = True,
        patience: float | None = None,
    ) -> int:
        """As post, and wait until it is committed and delivered."""
        seq, written = await self.post(drafts, ops, durable=durable, patience=patience)
        await asyncio.shield(written)
        return seq

    def delta(self, turn_id: str | None, item_id: str, field: str, text: str, offset: int) -> bool:
        """Send a delta now. False when numbers have run out: await `room(1)` and try again."""
        if self._next > self._ceiling:
            return False
        self._send(Draft(ItemDelta(field, text, offset), turn_id, item_id), len(text))
        return True

    def progress(self, turn_id: str | None, item_id: str, data: ItemProgress) -> None:
        """Say how far an open item is, on the way of deltas. Left out when numbers have run out: the next one says
        it too."""
        if self._next <= self._ceiling:
            self._send(Draft(data, turn_id, item_id), 0)

    def _send(self, draft: Draft, chars: int) -> None:
        """Deliver now what is journaled a moment later, and gone when its item completes."""
        event = self._number(draft, self._clock.now())
        if self._outgoing:
            self._outgoing.append(_Slot([event]))
        else:
            self._deliver(event)
        self._run.append(event)
        self._run_chars += chars
        if self._run_chars > RUN_CHARS:
            self.flush_run()
        elif self._run_timer is None:
            self._run_timer = asyncio.get_running_loop().call_later(RUN_SECONDS, self.flush_run)
        if self._ceiling - self._next < LEASE // 2:
            self._lease()

    def flush_run(self) -> None:
        """Journal the deltas that were only sent so far."""
        if self._run_timer is not None:
            self._run_timer.cancel()
            self._run_timer = None
        if not self._run:
            return
        merged = merge(self._run)
        self._run = []
        self._run_chars = 0
        self._unconfirmed.extend(merged)
        rows = tuple(self._row(event) for event in merged)
        written = asyncio.ensure_future(self._store.write(AddEvents(rows=rows), durable=False, patience=None))
        written.add_done_callback(lambda future: self._confirmed(len(merged), future))

    def farewell(self, data: EventData) -> None:
        """Tell every subscriber now, in no journal: the last event of a session whose journal is gone."""
        self._outgoing.clear()
        self._deliver(self._number(Draft(data), self._clock.now()))
        self.flush_tick()

    # --- delivering ---

    def _number(self, draft: Draft, ts: str) -> Emitted:
        seq = self._next
        self._next += 1
        kind = draft.data.KIND
        frame = tail(seq, ts, kind, draft.turn_id, draft.item_id, _encode(draft.data))
        return Emitted(seq, seq, kind, frame, draft.data, draft.turn_id, draft.item_id, ts)

    def _row(self, event: Emitted) -> EventRow:
        return EventRow(
            session_id=self.session_id,
            seq=event.seq,
            first=event.first,
            ts=event.ts,
            kind=event.kind,
            data=_encode(event.data),
            turn_id=event.turn_id,
            item_id=event.item_id,
            delta=isinstance(event.data, ItemDelta | ItemProgress),
        )

    def _settled(self, slot: _Slot, future: asyncio.Future[None]) -> None:
        if future.cancelled() or future.exception() is not None:
            slot.dropped = True
        else:
            self._ceiling = max(self._ceiling, slot.ceiling)
        slot.ready = True
        while self._outgoing and self._outgoing[0].ready:
            done = self._outgoing.popleft()
            if not done.dropped:
                for event in done.events:
                    self._deliver(event)

    def _confirmed(self, count: int, future: asyncio.Future[None]) -> None:
        if not future.cancelled():
            future.exception()
        for _ in range(count):
            self._unconfirmed.popleft()

    def _deliver(self, event: Emitted) -> None:
        previous, self.head = self.head, event.seq
        data = event.data
        if isinstance(data, ItemDelta):
            item = self.open.get(event.item_id or "")
            if item is not None:
                item.add(data.text)
        elif isinstance(data, ItemStarted):
            self.open[data.item.item_id] = OpenItem(data.item)
        elif isinstance(data, (ItemCompleted, ItemDiscarded)):
            item_id = event.item_id or ""
            older = takewhile(lambda opened: opened != item_id, self.open)  # in the order they began
            for opened in older:
                self.open[opened].overtaken.add(item_id)
            self.open.pop(item_id, None)
        else:
            self.told.take(data, event.ts)
        if self.sinks:
            if not self._tick:
                self._tick_prev = previous
            self._hand_on_soon(event)
        if self._arrivals:
            arrivals, self._arrivals = self._arrivals, []
            for arrived in arrivals:
                if not arrived.done():
                    arrived.set_result(None)

    def _hand_on_soon(self, event: Emitted) -> None:
        """With the other events of this turn of the loop. Deltas alone wait for more where everybody waits for them
        anyway: telling a hundred subscribers of each would cost a hundred times as much."""
        loop = asyncio.get_running_loop()
        self._tick_bytes += len(event.tail)
        waits = self._patience and event.delta is not None and self._tick_bytes <= HELD_BYTES
        if waits and (not self._tick or self._tick_timer is not None):
            if not self._tick:
                when = (loop.time() // self._patience + 1) * self._patience
                self._tick_timer = loop.call_at(when, self.flush_tick)
        elif not self._tick or self._tick_timer is not None:
            if self._tick_timer is not None:
                self._tick_timer.cancel()
                self._tick_timer = None
            loop.call_soon(self.flush_tick)
        self._tick.append(event)

    def listen(self, sinks: list[Sink]) -> None:
        """These are told from now on."""
        self.sinks = sinks
        self._patience = min((sink.patience for sink in sinks), default=0.0)

    def flush_tick(self) -> None:
        """Hand the events of this turn of the loop to everybody. Call it before a subscriber joins."""
        if self._tick_timer is not None:
            self._tick_timer.cancel()
            self._tick_timer = None
        if self._tick:
            events = merge(self._tick) if self._patience else self._tick
            batch = Batch(self.prefix, self._tick_prev, events, self._patience)
            self._tick = []
            self._tick_bytes = 0
            for sink in self.sinks:
                sink.events(batch)

    def merged(self, run: list[Emitted]) -> list[Emitted]:
        """`merge`, made once for all subscribers that wait for the same run."""
        key = (run[0].first, run[-1].seq)
        known = self._merged.get(key)
        if known is None:
            if len(self._merged) >= MERGED_KEPT:
                del self._merged[next(iter(self._merged))]
            known = self._merged[key] = merge(run)
        return known

    # --- replay ---

    def page(self, after: int, budget: int, rows: int = PAGE_ROWS) -> list[Emitted]:
        """The first delivered events behind `after`, from the journal and what it does not hold yet: at most `rows`
        and about `budget` bytes of them, at least one. Empty: there are none.

        A run of merged deltas that ends behind `after` is given whole; folded numbers are skipped.
        """
        found: list[Emitted] = []
        size = 0
        last = after
        while size < budget and len(found) < rows:
            wanted = min(READ_ROWS, rows - len(found))
            stored = self._store.events(self.session_id, last, wanted)
            for row in stored:
                if row.seq > self.head:
                    break
                size += len(row.data) + ENVELOPE
                if size > budget and found:
                    return found
                found.append(replayed(row))
            else:
                if len(stored) == wanted:
                    last = stored[-1].seq
                    continue
            newest = found[-1].seq if found else after
            unjournaled = (*self._unconfirmed, *merge(self._run))
            found += [event for event in unjournaled if newest < event.seq <= self.head]
            return found[:rows]
        return found

    def retains(self, after: int) -> bool:
        """Whether every event behind this number can still be told."""
        oldest, _ = self._store.event_range(self.session_id)
        return 0 <= after <= self.head and (after + 1 >= oldest or not oldest)

    def size_after(self, after: int) -> int:
        """Bytes of the events behind this number, about."""
        return self._store.event_bytes(self.session_id, after)

    @property
    def ahead(self) -> set[str]:
        """Items that the store may hold as completed already, while nobody was told yet."""
        waiting = (event for slot in self._outgoing for event in slot.events)
        return {event.item_id for event in waiting if event.item_id and isinstance(event.data, ItemCompleted)}

    async def reached(self, seq: int) -> None:
        """Return when the event with this number was delivered."""
        while self.head < seq:
            arrived = asyncio.get_running_loop().create_future()
            self._arrivals.append(arrived)
            await arrived


def _seen(leasing: asyncio.Task[None]) -> None:
    """Whoever waits for numbers gets the error; a lease made ahead of need is tried again when there is need."""
    if not leasing.cancelled():
        leasing.exception()
