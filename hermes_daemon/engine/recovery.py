"""What a killed daemon left: open turns are ended as lost, their calls answered, nothing that was accepted is missing.

Runs before a session is served for the first time after a start. Everything of one session is one transaction, so a
second crash in the middle starts it over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from hermes_daemon.core.ports import Clock, Store
from hermes_daemon.core.records import (
    AddMessage,
    CloseRequest,
    ItemRow,
    Op,
    PutItem,
    PutQueue,
    PutTurn,
    QueueRow,
    TurnRow,
)
from hermes_daemon.engine.emitted import Draft
from hermes_daemon.engine.identity import new_id
from hermes_protocol.content import Message, TextPart, ToolResult
from hermes_protocol.events import (
    AgentMessage,
    AnyItem,
    ItemCompleted,
    Notice,
    Output,
    QueueChanged,
    Reasoning,
    RequestOpened,
    RequestResolved,
    ToolCallItem,
    TurnEnded,
    TurnSteerRequeued,
)

LOST_CALL: Final = "The daemon stopped before this call finished. Whether it had any effect is unknown: check first."


class Recovery(msgspec.Struct, frozen=True):
    """Events and operations that close what one session left open."""

    drafts: list[Draft]
    ops: list[Op]


def plan(
    store: Store,
    clock: Clock,
    session_id: str,
    turns: Sequence[TurnRow],
    requests: Sequence[RequestOpened],
    *,
    pause_queue: bool,
) -> Recovery | None:
    """What must be written to close the open turns and questions of a session, or None when nothing is open."""
    now = clock.now()
    drafts: list[Draft] = []
    ops: list[Op] = []
    for request in requests:
        resolved = RequestResolved(request.request_id, "lost", None, now)
        drafts.append(Draft(resolved, request.turn_id, request.item_id))
        ops.append(CloseRequest(request_id=request.request_id))
    for row in store.open_items(session_id):
        item = _closed(row, now)
        drafts.append(Draft(ItemCompleted(item), item.turn_id, item.item_id))
        ops.append(PutItem(session_id=session_id, item=item))
        if isinstance(item, AgentMessage) and item.text:
            message = Message("assistant", (TextPart(item.text),), partial=True, item_id=item.item_id)
            ops.append(AddMessage(session_id=session_id, message=message, turn_id=item.turn_id))
    ops += _answers(store, session_id)
    _queue(store, session_id, drafts, ops, pause=pause_queue)
    for turn in turns:
        drafts.append(Draft(TurnEnded("lost", "daemon_stopped", turn.usage), turn.turn_id))
        ops.append(PutTurn(row=msgspec.structs.replace(turn, status="lost", ended_at=now)))
    return Recovery(drafts, ops) if drafts or ops else None


def _closed(row: ItemRow, now: str) -> AnyItem:
    """The open item with everything its journaled deltas hold."""
    item = row.item
    if isinstance(item, (AgentMessage, Reasoning)):
        return msgspec.structs.replace(item, text=row.text, status="partial", completed_at=now)
    if isinstance(item, ToolCallItem):
        output = Output(text=row.text) if row.text else None
        return msgspec.structs.replace(item, output=output, status="cancelled", error=LOST_CALL, completed_at=now)
    return msgspec.structs.replace(item, status="cancelled", completed_at=now)


def _answers(store: Store, session_id: str) -> list[Op]:
    """Results for calls that have none: the conversation stays one that every provider accepts."""
    waiting: dict[str, int] = {}
    for message in store.messages(session_id):
        for call in message.calls:
            waiting[call.call_id] = waiting.get(call.call_id, 0) + 1
        for result in message.results:
            waiting[result.call_id] = waiting.get(result.call_id, 0) - 1
    return [
        AddMessage(session_id=session_id, message=Message("tool", (ToolResult(call_id, LOST_CALL, True),)))
        for call_id, count in waiting.items()
        for _ in range(count)
    ]


def _queue(store: Store, session_id: str, drafts: list[Draft], ops: list[Op], *, pause: bool) -> None:
    """Queued turns survive; by default they wait for somebody to say go. Steering that no model call took becomes a
    turn of its own at the head, under a new id: its turn is over."""
    queue = store.queue(session_id)
    if queue is None or not queue.entries:
        return
    late = [entry for entry in queue.entries if entry.kind == "steer"]
    if not late and (queue.paused or not pause):
        return
    turned = [msgspec.structs.replace(entry, kind="turn", turn_id=new_id("turn")) for entry in late]
    for old, new in zip(late, turned, strict=True):
        drafts.append(Draft(TurnSteerRequeued(old.turn_id, new.queue_id, new.turn_id), old.turn_id))
    entries = (*turned, *(entry for entry in queue.entries if entry.kind != "steer"))
    row = QueueRow(session_id=session_id, entries=entries, rev=queue.rev + 1, paused=queue.paused or pause)
    drafts.append(Draft(QueueChanged(row.entries, row.rev, row.paused)))
    if row.paused:
        text = f"{len(entries)} queued message(s) wait since the daemon stopped; resume or remove them."
        drafts.append(Draft(Notice("warning", text, "queue.paused")))
    ops.append(PutQueue(row=row))
