"""Rows for tests of the store, a clock the test owns, and a store on a temporary file."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from hermes_daemon.core.records import AddEvents, EventRow, PutItem, PutSession, SessionRow
from hermes_daemon.core.settings import DatabaseSettings
from hermes_daemon.store.sqlite import SqliteStore
from hermes_protocol.content import Message, TextBlock, TextPart
from hermes_protocol.events import AgentMessage, ItemDelta, UserMessage

T = TypeVar("T")
NOON = "2026-03-01T12:00:00.000Z"


class HandClock:
    """Stands still until the test moves it."""

    def __init__(self, now: str = NOON) -> None:
        self.time, self.seconds = now, 0.0

    def now(self) -> str:
        return self.time

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds


def open_store(path: Path, clock: HandClock | None = None, **settings: Any) -> SqliteStore:
    return SqliteStore.open(str(path), DatabaseSettings(**settings), clock or HandClock())


def with_store(path: Path, work: Callable[[SqliteStore], Awaitable[T]], clock: HandClock | None = None, **kw: Any) -> T:
    """Run `work` in a new event loop with a store that is closed afterwards."""

    async def run() -> T:
        store = open_store(path, clock, **kw)
        try:
            return await work(store)
        finally:
            await store.close()

    return asyncio.run(run())


def session_row(session_id: str = "s1", at: str = NOON, **fields: Any) -> SessionRow:
    return SessionRow(
        **{"session_id": session_id, "epoch": "e1", "cwd": "/w", "created_at": at, "updated_at": at} | fields
    )


def put_session(session_id: str = "s1", at: str = NOON, **fields: Any) -> PutSession:
    return PutSession(row=session_row(session_id, at, **fields))


def message(text: str, role: Any = "user") -> Message:
    return Message(role, (TextPart(text),))


def said(session_id: str, item_id: str, text: str) -> PutItem:
    """A completed message of the user."""
    item = UserMessage(item_id=item_id, status="completed", created_at=NOON, input=(TextBlock(text),), text=text)
    return PutItem(session_id=session_id, item=item)


def answered(session_id: str, item_id: str, text: str, status: Any = "completed") -> PutItem:
    """A message of the agent."""
    item = AgentMessage(item_id=item_id, status=status, created_at=NOON, text=text, model="m")
    return PutItem(session_id=session_id, item=item)


def event(session_id: str, seq: int, kind: str = "notice", ts: str = NOON, **fields: Any) -> EventRow:
    return EventRow(**{"session_id": session_id, "seq": seq, "ts": ts, "kind": kind, "data": b"{}"} | fields)


def delta(session_id: str, seq: int, item_id: str, text: str, offset: int, first: int = 0) -> EventRow:
    data = msgspec.json.encode(ItemDelta("text", text, offset))
    return event(session_id, seq, "item.delta", item_id=item_id, delta=True, data=data, first=first)


def events(*rows: EventRow) -> AddEvents:
    return AddEvents(rows=rows)
