"""Rows the store keeps, and the operations that change them. Values only; the store decides how they lie on disk.

A write is a tuple of operations applied in one transaction, so that an effect, its receipt and its events stand or
fall together.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from hermes_protocol.content import Message, Usage
from hermes_protocol.events import AnyItem, QueueEntry, RequestOpened
from hermes_protocol.methods import SessionOptions


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """Base of rows."""


class SessionRow(Row, frozen=True, kw_only=True):
    """`ceiling` is the highest sequence number leased; after a restart numbering continues above it."""

    session_id: str
    epoch: str
    cwd: str
    created_at: str
    updated_at: str
    title: str = ""
    model: str = ""
    options: SessionOptions = SessionOptions()
    env: dict[str, str] = {}
    rev: int = 0
    usage: Usage = Usage()
    occupancy_pct: float | None = None
    archived: bool = False
    parent: str | None = None
    ceiling: int = 0
    deleted_at: str | None = None


class ItemRow(Row, frozen=True, kw_only=True):
    """`text` is what the journaled deltas of an open item add up to (field `text` or `output`)."""

    session_id: str
    item: AnyItem
    text: str = ""


class EventRow(Row, frozen=True, kw_only=True):
    """One journal row. `data` is the JSON of the payload; `delta` marks rows folded when their item completes.

    A row may stand for a run of merged deltas: then `first` is the number of the run's first event.
    """

    session_id: str
    seq: int
    ts: str
    kind: str
    data: bytes
    turn_id: str | None = None
    item_id: str | None = None
    delta: bool = False
    first: int = 0


class TurnRow(Row, frozen=True, kw_only=True):
    """status "running" until it ends."""

    turn_id: str
    session_id: str
    status: str
    started_at: str
    ended_at: str | None = None
    model: str = ""
    rounds: int = 0
    usage: Usage = Usage()


class QueueRow(Row, frozen=True, kw_only=True):
    session_id: str
    entries: tuple[QueueEntry, ...]
    rev: int
    paused: bool


class ReceiptRow(Row, frozen=True, kw_only=True):
    """`receipt` is the JSON of the result that was given; `body` the hash of the params without the key."""

    scope: str
    method: str
    key: str
    body: str
    receipt: bytes
    at: str


class BlobRow(Row, frozen=True, kw_only=True):
    """What is known of a blob. `session_id` made it; while `growing` more bytes may come."""

    blob_id: str
    session_id: str
    mime: str
    bytes: int
    growing: bool = False


class RequestRow(Row, frozen=True, kw_only=True):
    request: RequestOpened


class ProcessRow(Row, frozen=True, kw_only=True):
    """A child's process group. `started` is the kernel's start time, so that a reused pid is not mistaken for it."""

    pid: int
    started: str
    marker: str
    session_id: str
    command: str


# --- operations -------------------------------------------------------------------------------------------------------


class PutSession(Row, frozen=True, kw_only=True):
    """Insert or replace the row."""

    row: SessionRow


class DeleteSession(Row, frozen=True, kw_only=True):
    """Leave a tombstone; messages, items, events, queue, requests and blobs of the session go."""

    session_id: str
    at: str


class CopySession(Row, frozen=True, kw_only=True):
    """A new session, `row`, with what another one has up to a point.

    It gets the completed items up to and with `last_item` (none when None), the first `messages` messages and behind
    them `tail`. Items keep their ids, and the blobs they speak of are kept as long as either session is there.
    """

    source: str
    row: SessionRow
    last_item: str | None
    messages: int
    tail: tuple[Message, ...] = ()


class TruncateSession(Row, frozen=True, kw_only=True):
    """Leave the items up to and with `last_item` (none when None), the first `messages` messages and behind them
    `tail`. The journal stays: it tells what there was."""

    session_id: str
    last_item: str | None
    messages: int
    tail: tuple[Message, ...] = ()


class AddMessage(Row, frozen=True, kw_only=True):
    """Append to the live history."""

    session_id: str
    message: Message
    turn_id: str | None = None


class PutItem(Row, frozen=True, kw_only=True):
    """Insert at the end, or replace the item with the same id in its place. Completing folds its deltas away."""

    session_id: str
    item: AnyItem


class DropItem(Row, frozen=True, kw_only=True):
    session_id: str
    item_id: str


class AddEvents(Row, frozen=True, kw_only=True):
    rows: tuple[EventRow, ...]


class RaiseCeiling(Row, frozen=True, kw_only=True):
    session_id: str
    ceiling: int


class PutTurn(Row, frozen=True, kw_only=True):
    row: TurnRow


class PutQueue(Row, frozen=True, kw_only=True):
    row: QueueRow


class PutReceipt(Row, frozen=True, kw_only=True):
    row: ReceiptRow


class PutRequest(Row, frozen=True, kw_only=True):
    row: RequestRow


class CloseRequest(Row, frozen=True, kw_only=True):
    request_id: str


class PutProcess(Row, frozen=True, kw_only=True):
    row: ProcessRow


class DropProcess(Row, frozen=True, kw_only=True):
    pid: int


class PutGrant(Row, frozen=True, kw_only=True):
    """A permanent approval ("always")."""

    grant: str


class PutBlob(Row, frozen=True, kw_only=True):
    """Append `data` to the blob, which is made when absent. Content is redacted before it comes here.

    `growing` says that more will be appended; `at` is when the blob was made. One that no item and no queue speaks of
    is removed a day later.
    """

    blob_id: str
    session_id: str
    data: bytes
    mime: str = "text/plain; charset=utf-8"
    growing: bool = False
    at: str = ""


class AddUsage(Row, frozen=True, kw_only=True):
    """What one model call used; `usage` None: the endpoint did not tell. `task` is main for the conversation itself,
    else what the call was for (compression, title, judge); `round` counts the rounds of the turn from 1, 0 beside
    them."""

    session_id: str
    model: str
    at: str
    usage: Usage | None
    task: str = "main"
    turn_id: str | None = None
    round: int = 0


Op: TypeAlias = (
    PutSession
    | DeleteSession
    | CopySession
    | TruncateSession
    | AddMessage
    | PutItem
    | DropItem
    | AddEvents
    | RaiseCeiling
    | PutTurn
    | PutQueue
    | PutReceipt
    | PutRequest
    | CloseRequest
    | PutProcess
    | DropProcess
    | PutGrant
    | PutBlob
    | AddUsage
)
