"""hermes/session/* and hermes/usage/get."""

from __future__ import annotations

import asyncio
from typing import Final

from hermes_daemon.engine.branch import rewind as take_back
from hermes_daemon.server.connection import Connection
from hermes_daemon.server.engine_room import within
from hermes_protocol.errors import ProtocolError
from hermes_protocol.methods import (
    ArchiveParams,
    CreateParams,
    CreateResult,
    DeleteParams,
    Empty,
    EventsParams,
    EventsResult,
    ForkParams,
    GetResult,
    ItemsParams,
    ItemsResult,
    ListParams,
    ListResult,
    RenameParams,
    RewindParams,
    RewindResult,
    SearchParams,
    SearchResult,
    SessionParams,
    SetOptionParams,
    SetOptionResult,
    SubscribeParams,
    SubscribeResult,
    UsageParams,
    UsageResult,
    WaitParams,
    WaitResult,
)

LONGEST_WAIT_MS: Final = 86_400_000


async def create(connection: Connection, params: CreateParams) -> CreateResult:
    """Durable before the answer."""
    writable(connection)
    connection.daemon.engine.freshen()
    return await connection.daemon.engine.sessions.create(params, connection.by())


async def list_(connection: Connection, params: ListParams) -> ListResult:
    """A page of summaries."""
    return connection.daemon.engine.sessions.list(params)


async def get(connection: Connection, params: SessionParams) -> GetResult:
    """Summary, options and state."""
    sessions = connection.daemon.engine.sessions
    return sessions.describe(sessions.get(params.session_id))


async def subscribe(connection: Connection, params: SubscribeParams) -> SubscribeResult:
    """Snapshot or replay, then live."""
    return connection.daemon.engine.subscribe(connection, params)


async def unsubscribe(connection: Connection, params: SessionParams) -> Empty:
    """No more events of this session."""
    connection.daemon.engine.unsubscribe(connection, params.session_id)
    return Empty()


async def items(connection: Connection, params: ItemsParams) -> ItemsResult:
    """A page of completed items."""
    engine = connection.daemon.engine
    engine.sessions.get(params.session_id)
    limit = max(1, min(params.limit, 1000))
    try:
        page = engine.parts.store.items(
            params.session_id, limit=limit, before=params.before, after=params.after, order=params.order
        )
    except KeyError as error:
        raise ProtocolError("item_not_found", f"no item {error.args[0]} in this session") from error
    found = [row.item for row in page.rows]
    nearest_last = params.before is not None and params.after is None and params.order == "asc"
    nearest_last |= params.after is not None and params.before is None and params.order == "desc"
    if nearest_last:
        found.reverse()
    items = within(found, connection.outbox.frame_limit // 2, params.session_id)
    cursor = items[-1].item_id if len(items) < len(found) else page.next_cursor
    if nearest_last:
        items.reverse()
    return ItemsResult(tuple(items), cursor)


async def wait(connection: Connection, params: WaitParams) -> WaitResult:
    """Return when the session is idle, the turn is over or the number was reached; `reached` false after the time."""
    session = connection.daemon.engine.sessions.get(params.session_id)
    deadline = min(max(0, params.timeout_ms), LONGEST_WAIT_MS) / 1000

    async def reached() -> None:
        if params.until == "idle":
            await session.admission.idle()
        elif params.until == "turn":
            await session.admission.turn_over(params.turn_id)
        else:
            await session.feed.reached(params.seq or 0)

    try:
        async with asyncio.timeout(deadline):
            await reached()
    except TimeoutError:
        return WaitResult(session.state, session.feed.head, reached=False)
    return WaitResult(session.state, session.feed.head)


async def set_option(connection: Connection, params: SetOptionParams) -> SetOptionResult:
    """Change one option."""
    writable(connection)
    session = connection.daemon.engine.sessions.get(params.session_id)
    return await session.set_option(params, connection.by())


async def rename(connection: Connection, params: RenameParams) -> GetResult:
    """Another title."""
    writable(connection)
    return await connection.daemon.engine.sessions.rename(params)


async def archive(connection: Connection, params: ArchiveParams) -> GetResult:
    """Out of the lists, or into them again."""
    writable(connection)
    return await connection.daemon.engine.sessions.get(params.session_id).archive(params)


async def events(connection: Connection, params: EventsParams) -> EventsResult:
    """A page of the journal."""
    return connection.daemon.engine.events(connection, params)


async def fork(connection: Connection, params: ForkParams) -> CreateResult:
    """Durable before the answer."""
    writable(connection)
    return await connection.daemon.engine.sessions.fork(params)


async def rewind(connection: Connection, params: RewindParams) -> RewindResult:
    """What came after an item is taken back."""
    writable(connection)
    return await take_back(connection.daemon.engine.sessions.get(params.session_id), params)


async def delete(connection: Connection, params: DeleteParams) -> Empty:
    """A tombstone stays; the id is never reused."""
    writable(connection)
    return await connection.daemon.engine.sessions.delete(params, connection.by())


async def search(connection: Connection, params: SearchParams) -> SearchResult:
    """Full text over all sessions."""
    store = connection.daemon.engine.parts.store
    hits = store.search(params.query, limit=max(1, min(params.limit, 200)), cwd=params.cwd)
    return SearchResult(hits)


async def usage(connection: Connection, params: UsageParams) -> UsageResult:
    """Tokens and cost of a session, or of all."""
    engine = connection.daemon.engine
    if params.session_id is not None:
        engine.sessions.get(params.session_id)
    store = engine.parts.store
    spent, turns = store.usage(params.session_id)
    by_model, by_task = (store.spent(params.session_id, by) for by in ("model", "task"))
    return UsageResult(spent, turns, by_model, by_task)


def writable(connection: Connection) -> None:
    """permission_denied for observers, draining while the daemon is stopping."""
    if not connection.controller:
        raise ProtocolError("permission_denied", "this client is an observer: it may look, not change")
    daemon = connection.daemon
    if daemon.state != "ready":
        raise ProtocolError("draining", "the daemon is stopping", restart=daemon.restart, retryAfterMs=500)
