"""The engine as the server uses it: sessions and parts, subscriptions of connections, and what they hold open."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from hermes_daemon.core.ports import Configuration, Reload
from hermes_daemon.engine.answers import OF_CLIENTS
from hermes_daemon.engine.emitted import Emitted, OpenItem
from hermes_daemon.engine.parts import Parts
from hermes_daemon.engine.session import Session
from hermes_daemon.engine.sessions import Sessions
from hermes_daemon.server.connection import Connection
from hermes_daemon.server.fitting import fitted
from hermes_daemon.server.guests import Guests
from hermes_daemon.server.outbox import Subscription
from hermes_daemon.tools.terminal.processes import reap
from hermes_protocol.errors import ProtocolError
from hermes_protocol.events import AnyItem, Event, SessionState
from hermes_protocol.methods import (
    EventsParams,
    EventsResult,
    InFlight,
    Snapshot,
    SubscribeParams,
    SubscribeResult,
)

log = logging.getLogger(__name__)
REPLAY_BYTES: Final = 4 * 1_048_576
PULLED_EVENTS: Final = 5000
WRITE_SECONDS: Final = 2.0
NO_SESSION: Final = "local model"
"""Where processes are on record that belong to the daemon itself: they end with it and keep nothing alive."""


class EngineRoom:
    """Made by assemble; lives as long as the daemon."""

    def __init__(
        self,
        sessions: Sessions,
        parts: Parts,
        configuration: Configuration,
        read_log: Callable[[int, str | None], tuple[str, ...]],
        apply_settings: Callable[[], None],
        close_rooms: Callable[[], Awaitable[None]],
        guests: Guests,
        notes: tuple[str, ...] = (),
    ) -> None:
        self.sessions = sessions
        self.parts = parts
        self.configuration = configuration
        self.read_log = read_log
        self._apply_settings = apply_settings
        self._close_rooms = close_rooms
        self.guests = guests
        self._notes = notes

    def reload(self) -> Reload:
        """Read the configuration again; a broken one changes nothing."""
        return self._taken(self.configuration.reload())

    def set_setting(self, path: str, value: Any) -> Reload:
        """Write one setting into config.yaml and go by it. Refused with nothing written."""
        return self._taken(self.configuration.set(path, value))

    def set_secret(self, name: str, value: str | None) -> str:
        """Write a credential into .env and go by it; where it was written. Refused with nothing written."""
        self._taken(self.configuration.put_secret(name, value))
        return self.configuration.secrets_path

    def freshen(self) -> None:
        """Take over what was changed in the configuration's files, before something is done by it."""
        reloaded = self.configuration.freshen()
        if reloaded is not None:
            self._taken(reloaded)

    def _taken(self, reloaded: Reload) -> Reload:
        if not reloaded.errors:
            self._apply_settings()
        for problem in (*reloaded.errors, *reloaded.warnings):
            log.warning("%s", self.parts.redact(str(problem)))
        return reloaded

    # --- what is going on ---

    @property
    def live(self) -> int:
        """Sessions in memory."""
        return len(self.sessions.live)

    @property
    def busy(self) -> int:
        """Turns that run."""
        return sum(session.busy for session in self.sessions.live)

    @property
    def open_requests(self) -> int:
        """Questions that wait for people."""
        return sum(len(session.questions.rows) for session in self.sessions.live)

    @property
    def children(self) -> int:
        """Processes of tools on record."""
        return len(self.parts.store.processes())

    @property
    def storage(self) -> str:
        """ "ok", or what is wrong with the journal."""
        return self.parts.store.health

    async def storage_other_than(self, seen: str) -> str:
        """Wait until `storage` says something else. StorageError when the store was closed."""
        return await self.parts.store.health_other_than(seen)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What people should know: of the database, the configuration, the last start."""
        errors = tuple(str(error) for error in self.configuration.errors)
        return (
            *self._notes, *self.parts.store.warnings, *errors, *self.configuration.warnings, *self.guests.problems,
        )  # fmt: skip

    def holders(self) -> list[str]:
        """What keeps the daemon alive, by name."""
        names: list[str] = []
        for session in self.sessions.live:
            if session.busy:
                names.append(f"turn of {session.session_id}")
            elif session.admission.queue and not session.admission.queue.paused:
                names.append(f"queue of {session.session_id}")
            if session.feed.told.compacting:
                names.append(f"compaction of {session.session_id}")
            names += [f"request {row.request_id}" for row in session.questions.rows]
        rows = self.parts.store.processes()
        return names + [f"process {row.pid} of {row.session_id}" for row in rows if row.session_id != NO_SESSION]

    async def kill_children(self) -> None:
        """Kill what runs of the tools' processes and of the embedded model, without grace."""
        await asyncio.to_thread(reap, self.parts.store.processes(), 0.0)

    async def drained(self) -> None:
        """Return when no turn runs and no queued one may start."""
        await asyncio.gather(*(session.admission.idle() for session in self.sessions.live))

    async def close(self, reason: str) -> None:
        """Interrupt what runs, write what is to be written, close the rooms. Bounded in time: what cannot be written
        meanwhile is closed at the next start."""
        limit_s = self.parts.settings().agent.interrupt_grace_s + WRITE_SECONDS
        try:
            await self.sessions.interrupt_all(reason, limit_s)
        finally:
            await self._close_rooms()

    # --- subscriptions ---

    def subscribe(self, connection: Connection, params: SubscribeParams) -> SubscribeResult:
        """Snapshot or replay, and registration, in one step that waits for nothing (protocol section 5)."""
        session = self.sessions.get(params.session_id)
        before = connection.subscriptions.pop(params.session_id, None)  # not a leave: its tools stay
        if before is not None:
            connection.outbox.forget(before)
        hello = connection.hello
        detail = params.detail or (hello.capabilities.events.detail if hello else "full")
        feed = session.feed
        since = params.since
        last = feed.head
        replayed = False
        if since is not None and since.epoch == feed.epoch and feed.retains(since.seq):
            replayed = feed.size_after(since.seq) <= REPLAY_BYTES
            last = since.seq if replayed else last
        subscription = Subscription(
            connection.outbox, connection.id, feed, detail, connection.can_answer, last, connection.gate.features
        )
        subscription.tells_seen = connection.tells_seen
        connection.subscriptions[session.session_id] = subscription
        session.attach(subscription)
        connection.after_reply(subscription.release)
        if not replayed:
            snapshot = snapshot_of(session, params.tail, connection.outbox.frame_limit // 2)
            return SubscribeResult("snapshot", feed.epoch, feed.head, feed.head, snapshot)
        return SubscribeResult("replay", feed.epoch, last, feed.head)

    def events(self, connection: Connection, params: EventsParams) -> EventsResult:
        """A page of the journal: as much of it as fits into a frame. replay_truncated when the events behind `after`
        are not kept any more, or were never numbered like that."""
        feed = self.sessions.get(params.session_id).feed
        if params.epoch != feed.epoch or not feed.retains(params.after):
            oldest, _ = self.parts.store.event_range(params.session_id)
            text = f"the events behind {params.after} cannot be told; subscribe for a snapshot"
            raise ProtocolError("replay_truncated", text, epoch=feed.epoch, oldest=oldest, head=feed.head)
        budget = connection.outbox.frame_limit // 2
        found: list[Event] = []
        last = params.after
        for event in feed.page(params.after, budget, max(1, min(params.limit, PULLED_EVENTS))):
            found.append(pulled(event, feed.session_id, feed.epoch, last, budget))
            last = event.seq
        return EventsResult(tuple(found), feed.head, truncated=last < feed.head and bool(found))

    def unsubscribe(self, connection: Connection, session_id: str) -> None:
        """End the subscription, if there is one; what it had queued is dropped."""
        subscription = connection.subscriptions.pop(session_id, None)
        if subscription is None:
            self.sessions.get(session_id)
            return
        connection.outbox.forget(subscription)
        for session in self.sessions.live:
            if session.session_id == session_id:
                session.detach(connection.id)

    def seen(self, connection: Connection, request_id: str) -> None:
        """A question is on somebody's screen. From the first time on the clocks of questions wait for this client to
        say so."""
        if not connection.controller:
            return
        connection.tells_seen = True
        for subscription in connection.subscriptions.values():
            subscription.tells_seen = True
        session = self.session_of_request(request_id)
        if session is not None and session.session_id in connection.subscriptions:
            session.questions.seen(request_id, connection.id, connection.by())

    def session_of_request(self, request_id: str) -> Session | None:
        """The session of an open question, None when there is none."""
        return next((session for session in self.sessions.live if session.questions.is_open(request_id)), None)


def pulled(event: Emitted, session_id: str, epoch: str, prev: int, budget: int) -> Event:
    """An event as hermes/event carries it. One that is longer than a frame alone has its longest texts cut."""
    data = msgspec.json.encode(event.data)
    if len(data) > budget:
        data = msgspec.json.encode(fitted(event.data, budget, session_id))
    raw = msgspec.Raw(data)
    return Event(session_id, epoch, event.seq, prev, event.ts, event.kind, raw, event.turn_id, event.item_id)


def snapshot_of(session: Session, tail: int, budget: int) -> Snapshot:
    """The session as it is at `feed.head`: completed items from the end, at most `tail` and `budget` bytes of them."""
    told, opened = session.feed.told, session.feed.open
    store = session.parts.store
    wanted = max(0, min(tail, 1000))
    page = store.items(session.session_id, limit=wanted, order="desc") if wanted else None
    hidden = opened.keys() | session.feed.ahead
    done = [row.item for row in page.rows if row.item.item_id not in hidden] if page else []
    items = within([item for item in done if item.status != "inProgress"], budget, session.session_id)
    more = page is not None and (page.next_cursor is not None or len(items) < len(done))
    items.reverse()
    inflight = tuple(_in_flight(item, items) for item in opened.values())
    state: SessionState = "compacting" if told.compacting else "idle"
    if told.turn is not None and not told.compacting:
        state = "waiting" if any(row.kind not in OF_CLIENTS for row in told.requests.values()) else "running"
    return Snapshot(
        summary=session.summary(),
        options=session.row.options,
        rev=session.row.rev,
        state=state,
        items=tuple(items),
        inflight=inflight,
        open_requests=session.questions.clocked(told.requests.values()),
        queue=told.queue,
        queue_rev=told.queue_rev,
        paused=told.paused,
        usage=session.row.usage,
        turn=told.turn,
        older_cursor=items[0].item_id if items and more else None,
    )


def _in_flight(open_item: OpenItem, items: list[AnyItem]) -> InFlight:
    before = next((item.item_id for item in items if item.item_id in open_item.overtaken), None)
    return InFlight(open_item.item, open_item.field, open_item.text, open_item.length, before)


def within(items: list[AnyItem], budget: int, session_id: str) -> list[AnyItem]:
    """The first of these that have at most `budget` bytes together, at least one. One that is longer alone is cut."""
    taken: list[AnyItem] = []
    for item in items:
        size = len(msgspec.json.encode(item))
        if size > budget:
            item = msgspec.convert(fitted(item, budget, session_id), AnyItem)
            size = len(msgspec.json.encode(item))
        budget -= size
        if budget < 0 and taken:
            break
        taken.append(item)
    return taken
