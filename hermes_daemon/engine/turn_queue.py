"""The messages that wait: for the next turn, or (steering) for the next round of the running one."""

from __future__ import annotations

from hermes_daemon.core.records import PutQueue, QueueRow
from hermes_daemon.engine.emitted import Draft
from hermes_daemon.engine.mailbox import MAILBOX
from hermes_protocol.errors import ProtocolError
from hermes_protocol.events import QueueChanged, QueueEntry
from hermes_protocol.methods import QueueResult


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
