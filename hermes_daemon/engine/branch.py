"""Taking a session back to an item, and beginning another session from one.

Both cut items and messages at the same place, in one transaction with events and receipt. Files are not touched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from hermes_daemon.core.branching import Cut, cut
from hermes_daemon.core.ports import StorageError, Store
from hermes_daemon.core.records import CopySession, Op, PutSession, SessionRow, TruncateSession
from hermes_daemon.engine.emitted import Draft
from hermes_daemon.engine.mailbox import PATIENCE
from hermes_protocol.content import InputBlock
from hermes_protocol.errors import ProtocolError
from hermes_protocol.events import AnyItem, SessionRewound, SessionUpdated, UserMessage
from hermes_protocol.methods import RewindParams, RewindResult

if TYPE_CHECKING:
    from hermes_daemon.engine.session import Session

STEP = 64


def copy_of(session: Session, at_item_id: str | None, row: SessionRow) -> CopySession:
    """The operation that makes `row` a copy of `session` up to and with an item, or of everything that is completed.

    item_not_found; turn_in_progress for an item that is still open. While a turn runs, the copy ends behind the last
    call that has its result.
    """
    store = session.parts.store
    if at_item_id is None:
        page = store.items(session.session_id, limit=1, order="desc").rows
        last: AnyItem | None = page[0].item if page else None
    else:
        last = _closed_item(session, at_item_id)
    found = _cut(session, last)
    return CopySession(
        source=session.session_id,
        row=row,
        last_item=last.item_id if last is not None else None,
        messages=found.messages,
        tail=found.tail,
    )


async def rewind(session: Session, params: RewindParams) -> RewindResult:
    """Take back what is behind an item; a user message that is named goes too. stale_revision, turn_in_progress,
    item_not_found."""

    async def work(receipt: Callable[[RewindResult], tuple[Op, ...]]) -> RewindResult:
        session.expect_rev(params.expect_rev)
        _expect_idle(session)
        named = _closed_item(session, params.to_item_id)
        taken_back: tuple[InputBlock, ...] = ()
        last: AnyItem | None = named
        if isinstance(named, UserMessage):
            taken_back = named.input
            before = session.parts.store.items(session.session_id, limit=1, before=named.item_id).rows
            last = before[0].item if before else None
        return await _take_back(session, params, last, taken_back, receipt)

    return await session.mailbox.once("hermes/session/rewind", params, params.key, RewindResult, work)


async def _take_back(
    session: Session,
    params: RewindParams,
    last: AnyItem | None,
    taken_back: tuple[InputBlock, ...],
    receipt: Callable[[RewindResult], tuple[Op, ...]],
) -> RewindResult:
    last_id = last.item_id if last is not None else None
    removed = session.parts.store.items_behind(session.session_id, last_id)
    found = _cut(session, last)
    before = session.row
    row = session.touched(rev=before.rev + 1, occupancy_pct=None)
    result = RewindResult(row.rev, removed, 0, taken_back)
    truncate = TruncateSession(
        session_id=session.session_id, last_item=last_id, messages=found.messages, tail=found.tail
    )
    drafts = [
        Draft(SessionRewound(params.to_item_id, removed, row.rev, last_id)),
        Draft(SessionUpdated(session.summary(row))),
    ]
    session.row = row  # before its events are delivered: a snapshot may know more than they, never less
    session.forget_history()
    try:
        seq = await session.feed.commit(
            drafts,
            lambda seq: (truncate, PutSession(row=row), *receipt(msgspec.structs.replace(result, seq=seq))),
            patience=PATIENCE,
        )
    except StorageError:
        session.row = before
        raise
    finally:
        session.forget_history()
    session.tell_changed()
    return msgspec.structs.replace(result, seq=seq)


def _expect_idle(session: Session) -> None:
    admission = session.admission
    if session.busy or session.compacting:
        active = session.runner.turn_id if session.runner is not None else None
        raise ProtocolError("turn_in_progress", "a turn is running: interrupt it first", activeTurnId=active)
    if admission.queue and not admission.queue.paused:
        following = admission.queue.entries[0].turn_id
        raise ProtocolError("turn_in_progress", "a queued turn is about to start", activeTurnId=following)


def _closed_item(session: Session, item_id: str) -> AnyItem:
    row = session.parts.store.item(session.session_id, item_id)
    if row is None:
        raise ProtocolError("item_not_found", f"no item {item_id} in this session")
    if row.item.status == "inProgress":
        raise ProtocolError("turn_in_progress", f"item {item_id} is still open", activeTurnId=row.item.turn_id)
    return row.item


def _cut(session: Session, last: AnyItem | None) -> Cut:
    """The messages that everything up to and with `last` stands for."""
    if last is None:
        return Cut(0)
    segment, kept = _segment(session.parts.store, session.session_id, last)
    # Read behind the items: a message is written together with the items that it completes, never after them.
    messages = session.parts.store.messages(session.session_id)
    try:
        return cut(messages, segment, kept)
    except LookupError:
        text = "what was said there is not in the conversation any more as it was: take an item that came later"
        raise ProtocolError("failed", f"item {last.item_id}: {text}") from None


def _segment(store: Store, session_id: str, last: AnyItem) -> tuple[list[AnyItem], int]:
    """The completed items from the user message at or before `last` to the one before the next user message, and how
    many of them are kept."""
    front: list[AnyItem] = [last]
    while not isinstance(front[-1], UserMessage):
        rows = store.items(session_id, limit=STEP, before=front[-1].item_id, order="desc").rows
        for row in rows:
            front.append(row.item)
            if isinstance(row.item, UserMessage):
                break
        if len(rows) < STEP:
            break
    segment = front[::-1]
    kept = len(segment)
    while True:
        rows = store.items(session_id, limit=STEP, after=segment[-1].item_id).rows
        for row in rows:
            if isinstance(row.item, UserMessage):
                return segment, kept
            segment.append(row.item)
        if len(rows) < STEP:
            return segment, kept
