"""What the delivered events of a session say: the open turn, the open questions and the queue.

A snapshot is made from this, never from what the engine already knows beyond it: an event that was delivered before
the snapshot is in it, one that comes after it is not lost (protocol section 5).
"""

from __future__ import annotations

import msgspec

from hermes_protocol.events import (
    CompactionEnded,
    CompactionStarted,
    EventData,
    QuestionStatus,
    QueueChanged,
    QueueEntry,
    RequestAnswered,
    RequestClock,
    RequestOpened,
    RequestResolved,
    TurnEnded,
    TurnStarted,
)
from hermes_protocol.methods import OpenTurn


class Told:
    """Folded by the feed, event by event; deltas and items are the feed's own."""

    def __init__(self) -> None:
        self.turn: OpenTurn | None = None
        self.requests: dict[str, RequestOpened] = {}
        self.queue: tuple[QueueEntry, ...] = ()
        self.queue_rev = 0
        self.paused = False
        self.compacting = False

    def take(self, data: EventData, at: str) -> None:
        """Fold one event that was delivered `at`."""
        match data:
            case TurnStarted():
                self.turn = OpenTurn(data.turn_id, at, data.input)
            case TurnEnded():
                self.turn = None
            case RequestOpened():
                self.requests[data.request_id] = data
            case RequestClock():
                row = self.requests.get(data.request_id)
                if row is not None:
                    running, left = data.running, data.remaining_ms
                    self.requests[data.request_id] = msgspec.structs.replace(row, running=running, remaining_ms=left)
            case RequestAnswered():
                self._answered(data)
            case RequestResolved():
                self.requests.pop(data.request_id, None)
            case QueueChanged():
                self.queue, self.queue_rev, self.paused = data.queue, data.queue_rev, data.paused
            case CompactionStarted():
                self.compacting = True
            case CompactionEnded():
                self.compacting = False

    def _answered(self, data: RequestAnswered) -> None:
        """One question of a clarify request is settled: those that come later see how."""
        row = self.requests.get(data.request_id)
        if row is not None:
            status = QuestionStatus(data.question_id, data.status, data.answer, data.by)
            others = tuple(one for one in row.answered if one.id != data.question_id)
            self.requests[data.request_id] = msgspec.structs.replace(row, answered=(*others, status))
