"""A session kept the plain way, with mutable lists: what a daemon would announce, and the snapshot it would give.

It shares no code with the fold it is compared with.
"""

from __future__ import annotations

from typing import Any

import msgspec

from hermes_protocol import events as e
from hermes_protocol.content import By, TextBlock, Usage
from hermes_protocol.methods import InFlight, OpenTurn, SessionOptions, Snapshot

ME = By("client-1", "chat", "chat")


class Journal:
    """Events in order, and the state they add up to. Time is a counter: every event is a millisecond later."""

    def __init__(self, session_id: str = "s1", cwd: str = "/w", model: str = "scripted/echo") -> None:
        self.session = e.SessionSummary(session_id, "", cwd, model, "idle", stamp(0), stamp(0), 0, Usage())
        self.options = SessionOptions()
        self.epoch = "e1"
        self.events: list[e.Event] = []
        self.items: list[e.AnyItem] = []
        self.open: dict[str, tuple[str, str]] = {}
        self.turn: OpenTurn | None = None
        self.requests: list[e.RequestOpened] = []
        self.queue: list[e.QueueEntry] = []
        self.queue_rev = 0
        self.paused = False
        self.compacting = False
        self.author = ME
        self._count = 0
        self.emit(e.SessionCreated(self.session))

    def emit(self, payload: e.EventData, *, turn_id: str | None = None, item_id: str | None = None) -> e.Event:
        """Number an event. `prev` is right for a subscriber who gets every event."""
        seq = len(self.events) + 1
        event = e.Event(
            session_id=self.session.session_id,
            epoch=self.epoch,
            seq=seq,
            prev=seq - 1,
            ts=stamp(seq),
            kind=payload.KIND,
            data=msgspec.Raw(msgspec.json.encode(payload)),
            turn_id=turn_id,
            item_id=item_id,
        )
        self.events.append(event)
        return event

    def new_id(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    @property
    def turn_id(self) -> str | None:
        return self.turn.turn_id if self.turn else None

    def now(self) -> str:
        return stamp(len(self.events) + 1)

    # --- what happens -------------------------------------------------------------------------------------------------

    def start_turn(self, text: str, turn_id: str = "", by: By | None = None) -> str:
        by = by or self.author
        turn_id = turn_id or self.new_id("t")
        blocks = (TextBlock(text),)
        self.turn = OpenTurn(turn_id, self.now(), blocks)
        self.emit(e.TurnStarted(turn_id, blocks, by), turn_id=turn_id)
        item = e.UserMessage(
            item_id=self.new_id("i"),
            status="completed",
            turn_id=turn_id,
            created_at=self.now(),
            input=blocks,
            text=text,
            by=by,
        )
        self.items.append(item)
        self.emit(e.ItemCompleted(item), turn_id=turn_id, item_id=item.item_id)
        return turn_id

    def end_turn(self, status: e.TurnStatus = "completed", **more: Any) -> None:
        assert self.turn is not None
        for item_id in list(self.open):
            self.complete(item_id, status="partial")
        for request in list(self.requests):
            self.resolve(request.request_id, "interrupted")
        turn_id, self.turn = self.turn.turn_id, None
        self.emit(e.TurnEnded(status, **more), turn_id=turn_id)

    def start_message(self, kind: type[e.AgentMessage] | type[e.Reasoning] = e.AgentMessage) -> str:
        item = kind(item_id=self.new_id("i"), turn_id=self.turn_id, status="inProgress", created_at=self.now(),
                    text="", model="")  # fmt: skip
        return self._start(item, "text")

    def start_call(self, name: str = "terminal", args: str = "{}", title: str = "") -> str:
        item = e.ToolCallItem(
            item_id=self.new_id("i"),
            turn_id=self.turn_id,
            status="inProgress",
            created_at=self.now(),
            call_id=self.new_id("c"),
            name=name,
            title=title or name,
            args=args,
        )
        return self._start(item, "output")

    def _start(self, item: e.AnyItem, field: str) -> str:
        self.items.append(item)
        self.open[item.item_id] = (field, "")
        self.emit(e.ItemStarted(item), turn_id=item.turn_id, item_id=item.item_id)
        return item.item_id

    def delta(self, item_id: str, text: str) -> None:
        field, so_far = self.open[item_id]
        self.open[item_id] = (field, so_far + text)
        self.emit(e.ItemDelta(field, text, len(so_far)), turn_id=self.turn_id, item_id=item_id)

    def complete(
        self, item_id: str, *, text: str | None = None, status: e.ItemStatus = "completed", **more: Any
    ) -> None:
        """`text` is the final text when it differs from what the deltas said."""
        _, so_far = self.open.pop(item_id)
        final = so_far if text is None else text
        place = next(n for n, item in enumerate(self.items) if item.item_id == item_id)
        old = self.items[place]
        said: dict[str, Any] = {"output": e.Output(final)} if isinstance(old, e.ToolCallItem) else {"text": final}
        item = msgspec.structs.replace(old, status=status, completed_at=self.now(), **said, **more)
        self.items[place] = item
        self.emit(e.ItemCompleted(item), turn_id=self.turn_id, item_id=item_id)

    def discard(self, item_id: str) -> None:
        del self.open[item_id]
        self.items = [item for item in self.items if item.item_id != item_id]
        self.emit(e.ItemDiscarded("retried"), turn_id=self.turn_id, item_id=item_id)

    def ask(self, item_id: str, *, always: bool = True) -> str:
        item = next(item for item in self.items if item.item_id == item_id)
        assert isinstance(item, e.ToolCallItem)
        options = [
            e.PermissionOption("once", "allow_once", "Allow once"),
            e.PermissionOption("session", "allow_session", "Allow for this session"),
            *([e.PermissionOption("always", "allow_always", "Always allow")] if always else []),
            e.PermissionOption("deny", "deny", "Deny"),
        ]
        request = e.RequestOpened(
            self.new_id("r"),
            self.session.session_id,
            "permission",
            turn_id=self.turn_id,
            item_id=item_id,
            tool_call=e.ToolCallAsk(item.call_id, item.name, item.title, item.args),
            options=tuple(options),
            reason="it changes files",
            timeout_ms=300_000,
            opened_at=self.now(),
        )
        self.requests.append(request)
        self.emit(request, turn_id=self.turn_id, item_id=item_id)
        return request.request_id

    def ask_people(self, kind: e.RequestKind, **fields: Any) -> str:
        """A question that is no permission: clarify {questions}, secret {prompt, name}, form {prompt, form_schema}."""
        opened = self.now()
        request = e.RequestOpened(
            self.new_id("r"), self.session.session_id, kind, turn_id=self.turn_id, opened_at=opened, **fields
        )
        self.requests.append(request)
        self.emit(request, turn_id=self.turn_id)
        return request.request_id

    def answer_one(self, request_id: str, question_id: str, answer: e.ClarifyAnswer, by: By | None = ME) -> None:
        """One question of a clarify request; the last one resolves it."""
        place = next(n for n, row in enumerate(self.requests) if row.request_id == request_id)
        row = self.requests[place]
        status: Any = "skipped" if answer.skip else "answered"
        answered = [one for one in row.answered if one.id != question_id]
        answered.append(e.QuestionStatus(question_id, status, answer, by))
        self.requests[place] = msgspec.structs.replace(row, answered=tuple(answered))
        self.emit(e.RequestAnswered(request_id, question_id, status, by, answer), turn_id=self.turn_id)
        if {one.id for one in answered} >= {question.id for question in row.questions}:
            self.resolve(request_id, "answered", by)

    def rewind(self, item_id: str) -> int:
        """Back to an item: how many went. A user message goes too."""
        place = next(n for n, item in enumerate(self.items) if item.item_id == item_id)
        left = place if isinstance(self.items[place], e.UserMessage) else place + 1
        removed = len(self.items) - left
        self.items = self.items[:left]
        self.session = msgspec.structs.replace(self.session, rev=self.session.rev + 1)
        last = self.items[-1].item_id if self.items else None
        self.emit(e.SessionRewound(item_id, removed, self.session.rev, last))
        return removed

    def clock(self, request_id: str, running: bool, remaining_ms: int) -> None:
        for place, row in enumerate(self.requests):
            if row.request_id == request_id:
                self.requests[place] = msgspec.structs.replace(row, running=running, remaining_ms=remaining_ms)
        self.emit(e.RequestClock(request_id, running, remaining_ms))

    def resolve(self, request_id: str, outcome: e.Outcome, by: By | None = ME, feedback: str | None = None) -> None:
        self.requests = [row for row in self.requests if row.request_id != request_id]
        self.emit(e.RequestResolved(request_id, outcome, by, self.now(), feedback), turn_id=self.turn_id)

    def enqueue(self, text: str, by: By = ME) -> e.QueueEntry:
        entry = e.QueueEntry(self.new_id("q"), self.new_id("t"), (TextBlock(text),), by, created_at=self.now())
        self.queue.append(entry)
        self._queue_changed()
        return entry

    def edit(self, queue_id: str, text: str) -> None:
        self.queue = [
            msgspec.structs.replace(entry, input=(TextBlock(text),)) if entry.queue_id == queue_id else entry
            for entry in self.queue
        ]
        self._queue_changed()

    def reorder(self, order: list[str]) -> None:
        """Those named first, in that order; the others behind them."""
        rank = {queue_id: place for place, queue_id in enumerate(order)}
        self.queue.sort(key=lambda entry: rank.get(entry.queue_id, len(order)))
        self._queue_changed()

    def drop(self, queue_id: str) -> None:
        self.queue = [entry for entry in self.queue if entry.queue_id != queue_id]
        self._queue_changed()

    def dequeue(self) -> e.QueueEntry:
        entry = self.queue.pop(0)
        self._queue_changed()
        return entry

    def pause(self, paused: bool) -> None:
        self.paused = paused
        self._queue_changed()

    def _queue_changed(self) -> None:
        self.queue_rev += 1
        self.emit(e.QueueChanged(tuple(self.queue), self.queue_rev, self.paused))

    def update(self, **fields: Any) -> None:
        self.session = msgspec.structs.replace(self.session, rev=self.session.rev + 1, **fields)
        self.emit(e.SessionUpdated(self.session))

    def set_option(self, name: str, value: Any) -> None:
        self.options = msgspec.structs.replace(self.options, **{name: value})
        if name == "model" and value:
            self.session = msgspec.structs.replace(self.session, model=value)
        self.emit(e.SessionOption(name, value, ME))

    def start_compaction(self) -> None:
        self.compacting = True
        self.emit(e.CompactionStarted("k1", "manual"))

    def end_compaction(self) -> None:
        self.compacting = False
        self.emit(e.CompactionEnded("k1", 100, 50))

    # --- the snapshot -------------------------------------------------------------------------------------------------

    def state(self) -> e.SessionState:
        if self.compacting:
            return "compacting"
        if self.turn is None:
            return "idle"
        return "waiting" if self.requests else "running"

    def snapshot(self, tail: int | None = None) -> Snapshot:
        completed = [item for item in self.items if item.item_id not in self.open]
        kept = completed if tail is None else completed[max(0, len(completed) - tail) :]
        return Snapshot(
            summary=self.session,
            options=self.options,
            rev=self.session.rev,
            state=self.state(),
            items=tuple(kept),
            inflight=tuple(
                InFlight(item, field, text, len(text), next((n.item_id for n in self.items[place:] if n in kept), None))
                for place, item in enumerate(self.items)
                if item.item_id in self.open
                for field, text in [self.open[item.item_id]]
            ),
            open_requests=tuple(self.requests),
            queue=tuple(self.queue),
            queue_rev=self.queue_rev,
            paused=self.paused,
            usage=self.session.usage,
            turn=self.turn,
            older_cursor=kept[0].item_id if kept and len(kept) < len(completed) else None,
        )


def stamp(milliseconds: int) -> str:
    """RFC 3339 in UTC, `milliseconds` after an arbitrary start."""
    seconds, rest = divmod(milliseconds, 1000)
    return f"2026-01-01T{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{rest:03}Z"
