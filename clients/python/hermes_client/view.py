"""A session as a client sees it: a value, and the pure fold that carries it from event to event.

The law (protocol section 5): `from_snapshot` at any point, then `apply` of the events after it, gives the same View as
applying every event from the start. A View therefore holds exactly what a snapshot can tell, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from hermes_protocol import events as e
from hermes_protocol.content import InputBlock, Usage
from hermes_protocol.methods import OpenTurn, SessionOptions, Snapshot


class Streaming(msgspec.Struct, frozen=True):
    """What an open item has said so far: `field` is "text" for messages and "output" for tools."""

    field: str
    text: str


class View(msgspec.Struct, frozen=True):
    """`items` are in the order they began, open ones included; `streaming` holds the text so far of open ones.

    `older_cursor` is the item before which hermes/session/items continues, or None when `items` is everything.
    """

    session: e.SessionSummary
    options: SessionOptions = SessionOptions()
    items: tuple[e.AnyItem, ...] = ()
    streaming: Mapping[str, Streaming] = {}
    turn: OpenTurn | None = None
    requests: tuple[e.RequestOpened, ...] = ()
    queue: tuple[e.QueueEntry, ...] = ()
    queue_rev: int = 0
    paused: bool = False
    compacting: bool = False
    older_cursor: str | None = None

    @property
    def state(self) -> e.SessionState:
        """idle, running, waiting for an answer of people, or compacting."""
        if self.compacting:
            return "compacting"
        if self.turn is None:
            return "idle"
        return "waiting" if self.requests else "running"

    def item(self, item_id: str) -> e.AnyItem | None:
        """The item with this id, newest first."""
        return next((item for item in reversed(self.items) if item.item_id == item_id), None)

    def text(self, item: e.AnyItem) -> str:
        """What an item says now: the text so far while it is open, else its final text or output."""
        live = self.streaming.get(item.item_id)
        if live is not None:
            return live.text
        if isinstance(item, e.ToolCallItem):
            return shown_output(item.output)
        return str(getattr(item, "text", ""))


def shown_output(output: e.Output | None) -> str:
    """A tool's output as one text; a line says how much a blob holds between head and tail."""
    if output is None:
        return ""
    if output.text is not None:
        return output.text
    head, tail = output.head or "", output.tail or ""
    if output.blob is None:
        return head + tail
    left_out = max(0, output.blob.bytes - len(head.encode()) - len(tail.encode()))
    return f"{head}\n… {left_out:,} bytes left out, all of it in blob {output.blob.id} …\n{tail}"


def empty(session_id: str) -> View:
    """A session nothing is known of yet: the start of a fold over all events."""
    return View(e.SessionSummary(session_id, "", "", "", "idle", "", "", 0, Usage()))


def from_snapshot(snapshot: Snapshot) -> View:
    """The View at the moment the snapshot was made.

    A snapshot lists open items apart, in the order they began, and says before which completed item each belongs.
    """
    items = list(snapshot.items)
    streaming: dict[str, Streaming] = {}
    for open_item in snapshot.inflight:
        following = (place for place, item in enumerate(items) if item.item_id == open_item.before)
        items.insert(next(following, len(items)), open_item.item)
        streaming[open_item.item.item_id] = Streaming(open_item.field, open_item.text)
    return View(
        session=snapshot.summary,
        options=snapshot.options,
        items=tuple(items),
        streaming=streaming,
        turn=snapshot.turn,
        requests=snapshot.open_requests,
        queue=snapshot.queue,
        queue_rev=snapshot.queue_rev,
        paused=snapshot.paused,
        compacting=snapshot.state == "compacting",
        older_cursor=snapshot.older_cursor,
    )


def apply(view: View, event: e.Event) -> View:
    """The View after `event`. A kind this version does not know, or cannot read, changes nothing."""
    try:
        payload = event.payload()
    except msgspec.DecodeError:
        return view
    return view if payload is None else apply_payload(view, event, payload)


def apply_payload(view: View, event: e.Event, payload: e.EventData) -> View:
    """As `apply`, for a payload that was decoded already."""
    step = _STEPS.get(payload.KIND)
    return view if step is None else step(view, event, payload)


# --- one step a kind --------------------------------------------------------------------------------------------------

Step: TypeAlias = Callable[[View, e.Event, Any], View]


def _summary(view: View, _: e.Event, data: e.SessionCreated | e.SessionUpdated) -> View:
    return msgspec.structs.replace(view, session=data.session)


def _option(view: View, _: e.Event, data: e.SessionOption) -> View:
    known = msgspec.to_builtins(view.options)
    try:
        options = msgspec.convert({**known, data.id: data.value}, SessionOptions)
    except msgspec.ValidationError:
        return view
    session = view.session
    if data.id == "model" and options.model:  # without one of its own it has the default's, which only a summary tells
        session = msgspec.structs.replace(session, model=options.model)
    return msgspec.structs.replace(view, options=options, session=session)


def _compaction_started(view: View, _: e.Event, __: e.CompactionStarted) -> View:
    return msgspec.structs.replace(view, compacting=True)


def _compaction_ended(view: View, _: e.Event, __: e.CompactionEnded) -> View:
    return msgspec.structs.replace(view, compacting=False)


def _rewound(view: View, _: e.Event, data: e.SessionRewound) -> View:
    """What stood behind the last item is gone. Where that one is older than what the view holds, all of it is."""
    kept = next((n + 1 for n, item in enumerate(view.items) if item.item_id == data.last_item_id), 0)
    gone = {item.item_id for item in view.items[kept:]}
    streaming = {key: live for key, live in view.streaming.items() if key not in gone}
    session = msgspec.structs.replace(view.session, rev=data.rev)
    older = view.older_cursor if kept else data.last_item_id
    return msgspec.structs.replace(
        view, session=session, items=view.items[:kept], streaming=streaming, older_cursor=older
    )


def _turn_started(view: View, event: e.Event, data: e.TurnStarted) -> View:
    blocks: tuple[InputBlock, ...] = data.input
    return msgspec.structs.replace(view, turn=OpenTurn(data.turn_id, event.ts, blocks))


def _turn_ended(view: View, _: e.Event, __: e.TurnEnded) -> View:
    return msgspec.structs.replace(view, turn=None)


def _queue(view: View, _: e.Event, data: e.QueueChanged) -> View:
    return msgspec.structs.replace(view, queue=data.queue, queue_rev=data.queue_rev, paused=data.paused)


def _item_started(view: View, _: e.Event, data: e.ItemStarted) -> View:
    item = data.item
    if isinstance(item, e.ToolCallItem):
        live = Streaming("output", shown_output(item.output))
    else:
        live = Streaming("text", str(getattr(item, "text", "")))
    streaming = {**view.streaming, item.item_id: live}
    return msgspec.structs.replace(view, items=_placed(view.items, item), streaming=streaming)


def _item_delta(view: View, event: e.Event, data: e.ItemDelta) -> View:
    live = view.streaming.get(event.item_id or "")
    if live is None or data.offset > len(live.text):
        # Text before this delta is missing (it was thinned out for us): item.completed brings all of it.
        return view
    whole = live.text + data.text if data.offset == len(live.text) else live.text[: data.offset] + data.text
    streaming = {**view.streaming, event.item_id or "": Streaming(data.field, whole)}
    return msgspec.structs.replace(view, streaming=streaming)


def _item_completed(view: View, _: e.Event, data: e.ItemCompleted) -> View:
    streaming = {key: live for key, live in view.streaming.items() if key != data.item.item_id}
    return msgspec.structs.replace(view, items=_placed(view.items, data.item), streaming=streaming)


def _item_discarded(view: View, event: e.Event, _: e.ItemDiscarded) -> View:
    items = tuple(item for item in view.items if item.item_id != event.item_id)
    streaming = {key: live for key, live in view.streaming.items() if key != event.item_id}
    return msgspec.structs.replace(view, items=items, streaming=streaming)


def _request_opened(view: View, _: e.Event, data: e.RequestOpened) -> View:
    others = tuple(row for row in view.requests if row.request_id != data.request_id)
    return msgspec.structs.replace(view, requests=(*others, data))


def _request_clock(view: View, _: e.Event, data: e.RequestClock) -> View:
    rows = tuple(
        msgspec.structs.replace(row, running=data.running, remaining_ms=data.remaining_ms)
        if row.request_id == data.request_id
        else row
        for row in view.requests
    )
    return msgspec.structs.replace(view, requests=rows)


def _request_resolved(view: View, _: e.Event, data: e.RequestResolved) -> View:
    rows = tuple(row for row in view.requests if row.request_id != data.request_id)
    return msgspec.structs.replace(view, requests=rows)


def _placed(items: tuple[e.AnyItem, ...], item: e.AnyItem) -> tuple[e.AnyItem, ...]:
    """`item` in the place of the one with its id, else at the end. Looked for from the end, where it mostly is."""
    for place in range(len(items) - 1, -1, -1):
        if items[place].item_id == item.item_id:
            return (*items[:place], item, *items[place + 1 :])
    return (*items, item)


_STEPS: Mapping[str, Step] = {
    e.SessionCreated.KIND: _summary,
    e.SessionUpdated.KIND: _summary,
    e.SessionOption.KIND: _option,
    e.CompactionStarted.KIND: _compaction_started,
    e.CompactionEnded.KIND: _compaction_ended,
    e.SessionRewound.KIND: _rewound,
    e.TurnStarted.KIND: _turn_started,
    e.TurnEnded.KIND: _turn_ended,
    e.QueueChanged.KIND: _queue,
    e.ItemStarted.KIND: _item_started,
    e.ItemDelta.KIND: _item_delta,
    e.ItemCompleted.KIND: _item_completed,
    e.ItemDiscarded.KIND: _item_discarded,
    e.RequestOpened.KIND: _request_opened,
    e.RequestClock.KIND: _request_clock,
    e.RequestResolved.KIND: _request_resolved,
}
