"""An event on its way: without a number, numbered, in a batch, merged with its neighbours, read from the journal."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hermes_daemon.core.records import EventRow
from hermes_protocol.events import KINDS, AnyItem, EventData, ItemDelta
from hermes_protocol.framing import Framing, encode

_encode = msgspec.json.Encoder().encode


class Draft(msgspec.Struct, frozen=True):
    """An event that has no number yet."""

    data: EventData
    turn_id: str | None = None
    item_id: str | None = None


class Emitted(msgspec.Struct, frozen=True):
    """A numbered event. `tail` is its JSON from "seq" to the end of the frame, shared by all subscribers.

    `delta` is set for item.delta, where neighbours of one item may be merged; `first` is the number of the first.
    """

    seq: int
    first: int
    kind: str
    tail: bytes
    data: EventData
    turn_id: str | None
    item_id: str | None
    ts: str

    @property
    def delta(self) -> ItemDelta | None:
        """The delta, when this is one."""
        return self.data if isinstance(self.data, ItemDelta) else None


class Batch:
    """The events of one turn of the event loop. Subscribers that are in step share the very same bytes.

    `prev` is the number of the event before the first; `deltas` counts the deltas, `size` the bytes of all; `features`
    are the experimental ones that a reader of all must have asked for; `waited` is how many seconds its deltas may
    have waited for each other.
    """

    def __init__(self, prefix: bytes, prev: int, events: list[Emitted], waited: float = 0.0) -> None:
        self.prev = prev
        self.waited = waited
        self.events = events
        self.last = events[-1].seq
        self.deltas = sum(isinstance(event.data, ItemDelta) for event in events)
        self.size = sum(len(event.tail) for event in events)
        self.features = frozenset(event.data.FEATURE for event in events if event.data.FEATURE)
        self._prefix = prefix
        self._joined: dict[Framing, bytes] = {}

    def joined(self, framing: Framing) -> bytes:
        """All frames for a subscriber whose last event was `prev`."""
        known = self._joined.get(framing)
        if known is None:
            frames = []
            prev = self.prev
            for event in self.events:
                frames.append(encode(framing, b"%b%d,%b" % (self._prefix, prev, event.tail)))
                prev = event.seq
            known = self._joined[framing] = b"".join(frames)
        return known


class OpenItem:
    """An item begun and not completed: what has been said so far of its one growing field."""

    def __init__(self, item: AnyItem) -> None:
        self.item = item
        self.field = "output" if item.__struct_config__.tag == "toolCall" else "text"
        self._pieces: list[str] = []
        self.length = 0
        self.overtaken: set[str] = set()
        """Completed items that began after this one."""

    @property
    def text(self) -> str:
        """Everything said so far."""
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    def add(self, text: str) -> None:
        """Append a delta's text."""
        self._pieces.append(text)
        self.length += len(text)


def tail(seq: int, ts: str, kind: str, turn_id: str | None, item_id: str | None, data: bytes) -> bytes:
    """The shared part of a hermes/event frame."""
    turn = b',"turnId":' + _encode(turn_id) if turn_id else b""
    item = b',"itemId":' + _encode(item_id) if item_id else b""
    head = f'"seq":{seq},"ts":"{ts}","kind":"{kind}"'.encode()
    return b"".join((head, turn, item, b',"data":', data, b"}}"))


def replayed(row: EventRow) -> Emitted:
    """A journal row as an event to send again."""
    data = msgspec.json.decode(row.data, type=KINDS[row.kind])
    frame = tail(row.seq, row.ts, row.kind, row.turn_id, row.item_id, bytes(row.data))
    return Emitted(row.seq, row.first or row.seq, row.kind, frame, data, row.turn_id, row.item_id, row.ts)


def merge(events: Sequence[Emitted]) -> list[Emitted]:
    """Neighbouring deltas of one item and field as one: the last number, the first offset, all of the text."""
    merged: list[Emitted] = []
    start = 0
    for index in range(1, len(events) + 1):
        if index < len(events) and _same_run(events[start], events[index]):
            continue
        merged.append(_joined(events[start:index]) if index - start > 1 else events[start])
        start = index
    return merged


def _same_run(one: Emitted, other: Emitted) -> bool:
    first, second = one.delta, other.delta
    return first is not None and second is not None and one.item_id == other.item_id and first.field == second.field


def _joined(run: Sequence[Emitted]) -> Emitted:
    first, last = run[0], run[-1]
    lead = first.delta
    assert lead is not None
    text = "".join(event.data.text for event in run if isinstance(event.data, ItemDelta))
    data = ItemDelta(lead.field, text, lead.offset)
    frame = tail(last.seq, last.ts, last.kind, last.turn_id, last.item_id, _encode(data))
    return Emitted(last.seq, first.first, last.kind, frame, data, last.turn_id, last.item_id, last.ts)
