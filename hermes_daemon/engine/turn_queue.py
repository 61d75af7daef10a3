"""The messages that wait: for the next turn, or (steering) for the next round of the running one."""

from __future__ import annotations

import msgspec

from hermes_daemon.core.records import PutQueue, QueueRow
from hermes_daemon.engine.emitted import Draft
from hermes_daemon.engine.mailbox import MAILBOX
from hermes_protocol.errors import ProtocolError
from hermes_protocol.events import QueueChanged, QueueEntry
from hermes_protocol.methods import QueueRemoveParams, QueueReorderParams, QueueResult, QueueUpdateParams


class TurnQueue:
    """Entries in order, a revision that grows with every change, and whether they wait for somebody to say go."""

    def __init__(self, session_id: str, row: QueueRow | None) -> None:
        self.entries = row.entries if row else ()
        self.rev = row.rev if row else 0
        self.paused = row.paused if row else False
        self._session_id = session_id

    def __bool__(self) -> bool:
        return bool(self.entries)

    def result(self) -> QueueResult:
        """What hermes/queue/list answers."""
        return QueueResult(self.entries, self.rev, self.paused)

    def planned(self, entries: tuple[QueueEntry, ...], paused: bool | None = None) -> tuple[Draft, PutQueue]:
        """The event and the operation of a change that is not taken yet."""
        waits = self.paused if paused is None else paused
        row = QueueRow(session_id=self._session_id, entries=entries, rev=self.rev + 1, paused=waits)
        return Draft(QueueChanged(row.entries, row.rev, row.paused)), PutQueue(row=row)

    def take(self, entries: tuple[QueueEntry, ...]) -> None:
        """The change is made."""
        self.entries = entries
        self.rev += 1

    def expect_room(self) -> None:
        """overloaded when too many wait already."""
        if len(self.entries) >= MAILBOX:
            raise ProtocolError("overloaded", f"{MAILBOX} messages are queued", scope="session", retryAfterMs=1000)

    def expect_rev(self, rev: int | None) -> None:
        """stale_revision unless the queue is at this revision (None: at any)."""
        if rev is not None and rev != self.rev:
            raise ProtocolError("stale_revision", f"the queue is at revision {self.rev}", queueRev=self.rev)

    def without(self, params: QueueRemoveParams) -> tuple[QueueEntry, ...]:
        """The entries less one. queue_not_found."""
        gone = self._turn(params.queue_id)
        return tuple(entry for entry in self.entries if entry is not gone)

    def updated(self, params: QueueUpdateParams) -> tuple[QueueEntry, ...]:
        """The entries with another input for one. queue_not_found, invalid_params."""
        if not params.input:
            raise ProtocolError("invalid_params", "$.input: expected at least one block", path="$.input")
        old = self._turn(params.queue_id)
        new = msgspec.structs.replace(old, input=params.input)
        return tuple(new if entry is old else entry for entry in self.entries)

    def reordered(self, params: QueueReorderParams) -> tuple[QueueEntry, ...]:
        """The named entries in that order, the others behind them as they were. queue_not_found, invalid_params."""
        named: list[QueueEntry] = []
        for index, queue_id in enumerate(params.order):
            entry = self._turn(queue_id)
            if entry in named:
                path = f"$.order[{index}]"
                raise ProtocolError("invalid_params", f"{path}: {queue_id} is named twice", path=path)
            named.append(entry)
        return (*named, *(entry for entry in self.entries if entry not in named))

    def _turn(self, queue_id: str) -> QueueEntry:
        """A steer is no longer the queue's to change: the running turn has it in hand."""
        for entry in self.entries:
            if entry.queue_id == queue_id:
                if entry.kind == "turn":
                    return entry
                text = f"{queue_id} steers the running turn and cannot be changed any more"
                raise ProtocolError("queue_not_found", text, queueId=queue_id)
        raise ProtocolError("queue_not_found", f"no queued turn {queue_id}", queueId=queue_id)
