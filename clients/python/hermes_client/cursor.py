"""Where a client stands in a session's stream, and the rule that tells it that something is missing.

The rule of protocol section 5, complete: an event follows when its epoch is ours and its `prev` is the last number we
saw. Everything else that thins a stream (merged deltas, folded history, detail filters) keeps `prev` valid.
"""

from __future__ import annotations

from hermes_protocol.events import Event
from hermes_protocol.methods import Cursor


def advance(cursor: Cursor, event: Event) -> Cursor | None:
    """The cursor after `event`, or None when it does not follow: then subscribe again with `since` = `cursor`."""
    if event.epoch != cursor.epoch or event.prev != cursor.seq:
        return None
    return Cursor(event.epoch, event.seq)
