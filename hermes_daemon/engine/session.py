"""A live session: its options, queue, questions, events and the turn that runs.

Everything that changes a session is admitted under one lock, in arrival order; the effect, its receipt and its events
are one transaction (decisions 9).
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar

import msgspec

from hermes_daemon.core import history as laws
from hermes_daemon.core.ports import StorageError
from hermes_daemon.core.records import (
    AddMessage,
    Op,
    PutItem,
    PutQueue,
    PutReceipt,
    PutSession,
    PutTurn,
    QueueRow,
    ReceiptRow,
    SessionRow,
    TurnRow,
)
from hermes_daemon.core.window import Calibration, message_tokens
from hermes_daemon.engine.emitted import Draft
from hermes_daemon.engine.feed import Feed, Sink
from hermes_daemon.engine.identity import new_id
from hermes_daemon.engine.parts import Parts
from hermes_daemon.engine.questions import Questions
from hermes_daemon.engine.runner import Runner
from hermes_daemon.middleware.registry import Link, Registry
from hermes_daemon.middleware.styles import Report, transform
from hermes_protocol.content import By, InputBlock, Message, Usage, input_parts, input_text
from hermes_protocol.errors import ProtocolError
from hermes_protocol.events import (
    EventData,
    ItemCompleted,
    ItemStarted,
    QueueChanged,
    QueueEntry,
    SessionOption,
    SessionState,
    SessionSummary,
    SessionUpdated,
    TurnQueued,
    TurnStarted,
    UserMessage,
)
from hermes_protocol.methods import (
    GetResult,
    InterruptParams,
    InterruptResult,
    QueueResult,
    RenameParams,
    SessionOptions,
    SetOptionParams,
    SetOptionResult,
    SubmitParams,
    SubmitResult,
    TurnOptions,
)

R = TypeVar("R", bound=msgspec.Struct)
V = TypeVar("V")
log = logging.getLogger(__name__)
TOLD_REPAIRS = 20
SUBMIT_PATIENCE = 2.0
"""Seconds a request waits for a disk that cannot be written; a lock of another process is waited for longer."""
MAILBOX = 1024


class Subscriber(Sink, Protocol):
    """A subscription of one connection."""

    @property
    def connection_id(self) -> str: ...
    @property
    def can_answer(self) -> frozenset[str]:
        """The kinds of questions this subscriber may answer: none for observers."""
        ...


class Session:
    """One conversation. Made by Sessions; lives until the daemon stops or the session is deleted."""

    def __init__(self, row: SessionRow, parts: Parts, *, head: int, queue: QueueRow | None,
                 changed: Callable[[Session], None]) -> None:  # fmt: skip
        self.row = row
        self.parts = parts
        self.feed = Feed(row.session_id, row.epoch, parts.store, parts.clock, ceiling=row.ceiling, head=head)
        self.middleware = Registry(parts.middleware)
        self.grants: set[str] = set()
        self.told: set[str] = set()
        self.lock = asyncio.Lock()
        self.runner: Runner | None = None
        self.queue: list[QueueEntry] = list(queue.entries) if queue else []
        self.queue_rev = queue.rev if queue else 0
        self.paused = queue.paused if queue else False
        self.subscribers: dict[str, Subscriber] = {}
        self.deleted = False
        self.closing = False
        self.compacting = False
        self._changed = changed
        self._history: list[Message] | None = None
        self._begun = False
        self._shut_down = False
        self._calibrations: dict[str, Calibration] = {}
        self._sizes: dict[Message, int] = {}
        self._starting: asyncio.Task[None] | None = None
        self._waiting = 0
        self._idle = asyncio.Event()
        self._note_idle()
        told = self.feed.told
        told.queue, told.queue_rev, told.paused = tuple(self.queue), self.queue_rev, self.paused
        self.questions = Questions(
            self.feed, parts.clock, self._audience, unattended_deny=row.options.unattended == "deny"
        )

    # --- reading ---

    @property
    def session_id(self) -> str:
        """The id."""
        return self.row.session_id

    @property
    def busy(self) -> bool:
        """True while a turn runs."""
        return self.runner is not None

    @property
    def state(self) -> SessionState:
        """idle, running, waiting (for people) or compacting."""
        if self.runner is None:
            return "compacting" if self.compacting else "idle"
        return "waiting" if self.questions.rows else "running"

    @property
    def model(self) -> str:
        """The model id that the next turn will use."""
        return self.row.options.model or self.parts.models.default()

    @property
    def history(self) -> list[Message]:
        """The live history, read from the store when first needed. Its faults stay and are told; what is sent is
        repaired."""
        if self._history is None:
            self._history = list(self.parts.store.messages(self.session_id))
            _, notes = laws.repair(self._history)
            if notes:
                told = self.parts.redact("; ".join(notes[:TOLD_REPAIRS]))
                log.warning("%s: the stored history is repaired when it is sent: %s", self.session_id, told)
        return self._history

    def forget_history(self) -> None:
        """Read the history from the store again when it is next needed."""
        self._history = None

    def describe(self, row: SessionRow | None = None, head: int | None = None) -> GetResult:
        """What hermes/session/get answers; of `row` and at `head` where those are about to be."""
        summary = self.summary(row)
        options = (row or self.row).options
        return GetResult(summary, options, self.state, self.row.epoch, self.feed.head if head is None else head)

    def summary(self, row: SessionRow | None = None) -> SessionSummary:
        """The row that lists show (this one, or what it is about to become), with what only a live session knows."""
        return msgspec.structs.replace(
            summary_of(row or self.row, self.model),
            state=self.state,
            open_requests=len(self.questions.rows),
            clients=len(self.subscribers),
        )

    def _audience(self, kind: str) -> set[str]:
        return {one.connection_id for one in self.subscribers.values() if kind in one.can_answer}

    # --- middleware ---

    async def begin(self, report: Report) -> None:
        """Pass `session_start`, once for a live session, before its first model call."""
        if not self._begun:
            self._begun = True
            await self._pass("session_start", report)

    async def shut_down(self, report: Report) -> None:
        """Pass `session_shutdown`, once, when the session leaves memory."""
        if not self._shut_down:
            self._shut_down = True
            await self._pass("session_shutdown", report)

    async def _pass(self, point: str, report: Report) -> None:
        links = self.middleware.snapshot(point)
        if links:
            await transform(links, self.session_id, self, report)

    # --- estimates ---

    def calibration(self, model: str) -> Calibration:
        """The learned factor between our token estimate and this model's count."""
        return self._calibrations.get(model, Calibration())

    def calibrate(self, model: str, estimated: int, reported: int) -> None:
        """Learn from a provider's report."""
        self._calibrations[model] = self.calibration(model).update(estimated, reported)

    def size_of(self, message: Message) -> int:
        """The raw estimate of a message, kept: a long history is measured once."""
        size = self._sizes.get(message)
        if size is None:
            size = self._sizes[message] = message_tokens(message)
        return size

    # --- receipts ---

    async def once(self, method: str, params: msgspec.Struct, key: str | None, result: type[R],
                   work: Callable[[Callable[[R], tuple[Op, ...]]], Coroutine[Any, Any, R]]) -> R:  # fmt: skip
        """Do `work` once for this key. A repeat gets the first result with `duplicate` set where the result has it.

        `work` gets a function that turns its result into the receipt op, to be written with the effect.
        """

        async def admitted() -> R:
            if key is None:
                return await work(lambda _: ())
            body = digest(params)
            known = self.parts.store.receipt(self.session_id, method, key)
            if known is not None:
                return repeat(known, body, result)
            at = self.parts.clock.now()
            return await work(lambda value: (receipt_op(self.session_id, method, key, body, value, at),))

        return await self.exclusively(admitted)

    async def exclusively(self, work: Callable[[], Coroutine[Any, Any, V]]) -> V:
        """Do `work` alone on this session. Cancelling the caller stops the waiting, never the work once begun."""
        if self._waiting >= MAILBOX:
            text = f"{MAILBOX} requests wait for session {self.session_id}"
            raise ProtocolError("overloaded", text, scope="session", retryAfterMs=200)
        self._waiting += 1
        try:
            await self.lock.acquire()
        finally:
            self._waiting -= 1
        if self.deleted:
            self.lock.release()
            raise ProtocolError("session_deleted", f"session {self.session_id} was deleted")
        task = asyncio.create_task(work())
        task.add_done_callback(self._released)
        return await asyncio.shield(task)

    def _released(self, task: asyncio.Task[Any]) -> None:
        self.lock.release()
        if not task.cancelled():
            task.exception()  # the caller may be gone; it is not an unhandled one

    # --- turns ---

    async def submit(self, params: SubmitParams, by: By) -> SubmitResult:
        """Admit a user turn: start it, or queue it, or steer the running one. Never runs anything unrecorded."""

        async def work(receipt: Callable[[SubmitResult], tuple[Op, ...]]) -> SubmitResult:
            self._expect_rev(params.expect_rev)
            if self.closing:
                raise ProtocolError("draining", "the session is being closed", retryAfterMs=500)
            self._expect_settings()
            if not params.input:
                raise ProtocolError("invalid_params", "$.input: expected at least one block", path="$.input")
            if params.options.model is not None:
                self.parts.models.resolve(params.options.model)
            runner = self.runner
            if runner is None and not (self.queue and not self.paused):
                return await self._start(new_id("turn"), params, by, receipt)
            if params.when_busy == "reject":
                active = runner.turn_id if runner else None
                raise ProtocolError("turn_in_progress", "a turn is running", activeTurnId=active)
            if params.when_busy == "steer" and runner is not None and not runner.over:
                return await self._steer(runner, params, by, receipt)
            position = params.position if params.when_busy == "queue" else 0
            queued = await self._enqueue(params, by, position, receipt)
            if params.when_busy == "interrupt" and runner is not None:
                runner.interrupt("superseded")
            return queued

        return await self.once("hermes/turn/submit", params, params.key, SubmitResult, work)

    async def _start(self, turn_id: str, params: SubmitParams, by: By,
                     receipt: Callable[[SubmitResult], tuple[Op, ...]]) -> SubmitResult:  # fmt: skip
        item, message = self._user_item(turn_id, params.input, by)
        row = self._touched(title=self.row.title or _title(item.text))

        def ops(seq: int) -> Sequence[Op]:
            result = SubmitResult("started", turn_id, seq, item.item_id)
            return (*self._begin_ops(turn_id, item, message, row), *receipt(result))

        seq = await self.feed.commit(self._begin_drafts(turn_id, item, by, row), ops, patience=SUBMIT_PATIENCE)
        self.row = row
        self._run(turn_id, params.input, message, params.options)
        return SubmitResult("started", turn_id, seq, item.item_id)

    def _begin_drafts(self, turn_id: str, item: UserMessage, by: By, row: SessionRow) -> list[Draft]:
        started = msgspec.structs.replace(item, status="inProgress", completed_at=None)
        titled = [Draft(SessionUpdated(self.summary(row)))] if row.title != self.row.title else []
        return [
            Draft(TurnStarted(turn_id, item.input, by, self.model), turn_id),
            Draft(ItemStarted(started), turn_id, item.item_id),
            Draft(ItemCompleted(item), turn_id, item.item_id),
            *titled,
        ]

    def _begin_ops(self, turn_id: str, item: UserMessage, message: Message, row: SessionRow) -> tuple[Op, ...]:
        turn = TurnRow(
            turn_id=turn_id,
            session_id=self.session_id,
            status="running",
            started_at=item.created_at,
            model=self.model,
        )
        return (
            PutTurn(row=turn),
            PutItem(session_id=self.session_id, item=item),
            AddMessage(session_id=self.session_id, message=message, turn_id=turn_id),
            PutSession(row=row),
        )

    def _run(self, turn_id: str, input: tuple[InputBlock, ...], message: Message, options: TurnOptions) -> None:
        if self._history is not None:  # else it is read when it is needed, with this message in it
            self._history.append(message)
        self.runner = Runner(self, turn_id, input, options)
        self._note_idle()
        self.runner.start(self._ended)
        self._changed(self)

    def _ended(self) -> None:
        """The runner is done: its turn.ended was committed. The next queued turn may start."""
        self.runner = None
        self._note_idle()
        self.start_soon()
        self._changed(self)

    def start_soon(self) -> None:
        """Start the turn at the head of the queue as soon as that is possible."""
        if self._starting is None or self._starting.done():
            self._starting = asyncio.create_task(self._start_queued())
            self._starting.add_done_callback(self._started)

    def _started(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("session %s: the next queued turn cannot start: %s", self.session_id, error, exc_info=error)
            self._idle.set()

    async def _start_queued(self) -> None:
        """Start the next turn, when there is one and nothing runs. While the disk cannot be written it is tried again
        and again, with room in between for those who want to look at the queue."""
        while True:
            async with self.lock:
                if self.runner is not None or self.paused or self.closing or not self.queue or self.parts.fault():
                    return None
                try:
                    return await self._start_head()
                except StorageError as error:
                    if not error.retryable:
                        raise
            await asyncio.sleep(0)

    async def _start_head(self) -> None:
        entry, *rest = self.queue
        item, message = self._user_item(entry.turn_id, entry.input, entry.by)
        row = self._touched(title=self.row.title or _title(item.text))
        drafts = [*self._begin_drafts(entry.turn_id, item, entry.by, row), self._queue_draft(rest)]
        ops = (*self._begin_ops(entry.turn_id, item, message, row), self._queue_op(rest))
        await self.feed.commit(drafts, ops, patience=SUBMIT_PATIENCE)
        self.row = row
        self._take_queue(rest)
        self._run(entry.turn_id, entry.input, message, entry.options)

    async def _steer(self, runner: Runner, params: SubmitParams, by: By,
                     receipt: Callable[[SubmitResult], tuple[Op, ...]]) -> SubmitResult:  # fmt: skip
        self._expect_room()
        now = self.parts.clock.now()
        entry = QueueEntry(new_id("queue"), runner.turn_id, params.input, by, "steer", now, params.options)
        queue = [*self.queue, entry]
        result = SubmitResult("steered", runner.turn_id, 0, queue_id=entry.queue_id)
        seq = await self.feed.commit(
            [self._queue_draft(queue)],
            lambda seq: (self._queue_op(queue), *receipt(msgspec.structs.replace(result, seq=seq))),
            patience=SUBMIT_PATIENCE,
        )
        self._take_queue(queue)
        runner.steer(entry)
        return msgspec.structs.replace(result, seq=seq)

    async def _enqueue(self, params: SubmitParams, by: By, position: int | None,
                       receipt: Callable[[SubmitResult], tuple[Op, ...]]) -> SubmitResult:  # fmt: skip
        self._expect_room()
        at = len(self.queue) if position is None else max(0, min(position, len(self.queue)))
        now = self.parts.clock.now()
        entry = QueueEntry(new_id("queue"), new_id("turn"), params.input, by, "turn", now, params.options)
        queue = [*self.queue[:at], entry, *self.queue[at:]]
        result = SubmitResult("queued", entry.turn_id, 0, queue_id=entry.queue_id)
        seq = await self.feed.commit(
            [Draft(TurnQueued(entry.turn_id, entry.queue_id, at), entry.turn_id), self._queue_draft(queue)],
            lambda seq: (self._queue_op(queue), *receipt(msgspec.structs.replace(result, seq=seq))),
            patience=SUBMIT_PATIENCE,
        )
        self._take_queue(queue)
        if self.runner is None:
            self.start_soon()
        return msgspec.structs.replace(result, seq=seq)

    async def interrupt(self, params: InterruptParams) -> InterruptResult:
        """Stop the running turn, if it is the one that is meant. Stale or idle is a success with notActive."""
        if self.runner is not None and params.queue == "keep" and params.key is None:
            return self._interrupted(params)  # waits for nothing, not even for a disk that is full

        async def work(receipt: Callable[[InterruptResult], tuple[Op, ...]]) -> InterruptResult:
            result = self._interrupted(params)
            runner = self.runner
            # A turn that is over can no longer tell what was dropped: the queue goes on as behind one that was missed.
            if params.queue != "keep" and runner is not None and self._is_meant(params) and not runner.over:
                await self._leave_queue(runner, params.queue)
                result = msgspec.structs.replace(result, seq=self.feed.head)
            with contextlib.suppress(StorageError):  # what is stopped stays stopped without a receipt
                await self.parts.store.write(*receipt(result), patience=SUBMIT_PATIENCE)
            return result

        # Behind the submits that came before it: the turn it means may be about to start.
        return await self.once("hermes/turn/interrupt", params, params.key, InterruptResult, work)

    def _is_meant(self, params: InterruptParams) -> bool:
        return self.runner is not None and params.turn_id in (None, self.runner.turn_id)

    def _interrupted(self, params: InterruptParams) -> InterruptResult:
        runner = self.runner
        if runner is None or not self._is_meant(params):
            return InterruptResult("notActive", self.feed.head, params.turn_id)
        begun = runner.interrupt(params.reason or "interrupted")
        return InterruptResult("interrupting" if begun else "alreadyEnding", self.feed.head, runner.turn_id)

    async def close(self, reason: str) -> None:
        """Stop the turn and wait for its end; one that is just being started too. No other one starts."""
        self.closing = True
        self._note_idle()
        if self.runner is not None:
            self.runner.interrupt(reason)
        async with self.lock:
            runner = self.runner
        if runner is not None:
            runner.interrupt(reason)
            await runner.wait()

    async def _leave_queue(self, runner: Runner, policy: str) -> None:
        """Pause or clear the queue behind a turn that is interrupted. The turn's end waits for the lock, and so for
        the policy; when that cannot be written the queue stands still all the same."""
        paused, self.paused = self.paused, True
        self._note_idle()
        if policy == "pause":
            await self._put_queue(self.queue, paused=True)
            return
        dropped = tuple(input_text(entry.input) for entry in self.queue)
        await self._put_queue([], paused=paused)
        runner.drop(dropped)

    async def _put_queue(self, queue: list[QueueEntry], *, paused: bool) -> None:
        await self.feed.commit(
            [self._queue_draft(queue, paused)], [self._queue_op(queue, paused)], patience=SUBMIT_PATIENCE
        )
        self.paused = paused
        self._take_queue(queue)

    # --- the queue ---

    def queue_result(self) -> QueueResult:
        """What hermes/queue/list answers."""
        return QueueResult(tuple(self.queue), self.queue_rev, self.paused)

    async def remove_queued(self, queue_id: str, expect_rev: int | None, params: msgspec.Struct,
                            key: str | None) -> QueueResult:  # fmt: skip
        """Take an entry out of the queue."""

        async def work(receipt: Callable[[QueueResult], tuple[Op, ...]]) -> QueueResult:
            if expect_rev is not None and expect_rev != self.queue_rev:
                raise ProtocolError("stale_revision", "the queue has changed", queueRev=self.queue_rev)
            queue = [entry for entry in self.queue if entry.queue_id != queue_id or entry.kind == "steer"]
            if len(queue) == len(self.queue):
                raise ProtocolError("queue_not_found", f"no queued turn {queue_id}")
            result = QueueResult(tuple(queue), self.queue_rev + 1, self.paused)
            ops = [self._queue_op(queue), *receipt(result)]
            await self.feed.commit([self._queue_draft(queue)], ops, patience=SUBMIT_PATIENCE)
            self._take_queue(queue)
            return result

        return await self.once("hermes/queue/remove", params, key, QueueResult, work)

    async def resume_queue(self) -> QueueResult:
        """Let a paused queue go on."""

        async def resume() -> None:
            if self.closing:
                raise ProtocolError("draining", "the session is being closed", retryAfterMs=500)
            self._expect_settings()
            await self._put_queue(self.queue, paused=False)

        await self.exclusively(resume)
        self.start_soon()
        return self.queue_result()

    def change_queue(self, queue: list[QueueEntry]) -> tuple[Draft, Op]:
        """Take this for the queue, now; the event and the op must be posted before the lock is let go."""
        draft, op = self._queue_draft(queue), self._queue_op(queue)
        self._take_queue(queue)
        return draft, op

    def _expect_room(self) -> None:
        if len(self.queue) >= MAILBOX:
            raise ProtocolError("overloaded", f"{MAILBOX} messages are queued", scope="session", retryAfterMs=1000)

    def _queue_draft(self, queue: list[QueueEntry], paused: bool | None = None) -> Draft:
        return Draft(QueueChanged(tuple(queue), self.queue_rev + 1, self.paused if paused is None else paused))

    def _queue_op(self, queue: list[QueueEntry], paused: bool | None = None) -> Op:
        row = QueueRow(
            session_id=self.session_id,
            entries=tuple(queue),
            rev=self.queue_rev + 1,
            paused=self.paused if paused is None else paused,
        )
        return PutQueue(row=row)

    def _take_queue(self, queue: list[QueueEntry]) -> None:
        self.queue = queue
        self.queue_rev += 1
        self._note_idle()

    # --- the row ---

    async def set_option(self, params: SetOptionParams, by: By) -> SetOptionResult:
        """Change one option for the turns that follow."""

        async def work(receipt: Callable[[SetOptionResult], tuple[Op, ...]]) -> SetOptionResult:
            self._expect_rev(params.expect_rev)
            options = _with_option(self.row.options, params.id, params.value)
            if params.id == "model" and options.model is not None:
                self.parts.models.resolve(options.model)
            row = self._touched(options=options, rev=self.row.rev + 1, model=options.model or "")
            seq = await self._put_row(
                row,
                SessionOption(params.id, params.value, by),
                lambda seq: receipt(SetOptionResult(options, row.rev, seq)),
            )
            self.questions.unattended_deny = options.unattended == "deny"
            self._changed(self)
            return SetOptionResult(options, row.rev, seq)

        return await self.once("hermes/session/setOption", params, params.key, SetOptionResult, work)

    async def rename(self, params: RenameParams) -> GetResult:
        """Give the session another title."""

        async def work(receipt: Callable[[GetResult], tuple[Op, ...]]) -> GetResult:
            self._expect_rev(params.expect_rev)
            row = self._touched(title=params.title.strip(), rev=self.row.rev + 1)
            updated = SessionUpdated(self.summary(row))
            await self._put_row(row, updated, lambda seq: receipt(self.describe(row, seq)))
            self._changed(self)
            return self.describe()

        return await self.once("hermes/session/rename", params, params.key, GetResult, work)

    async def _put_row(self, row: SessionRow, event: EventData, ops: Callable[[int], tuple[Op, ...]]) -> int:
        """Change the row and tell everybody. The caller holds the lock.

        The row is taken before its event is delivered: a snapshot may know more than the events before it, never less.
        """
        before, self.row = self.row, row
        try:
            return await self.feed.commit(
                [Draft(event)], lambda seq: (PutSession(row=row), *ops(seq)), patience=SUBMIT_PATIENCE
            )
        except StorageError:
            self.row = before
            raise

    def add_usage(self, usage: Usage, occupancy_pct: float | None) -> SessionRow:
        """The row after a turn that used so much. The caller holds the lock."""
        full = self.row.occupancy_pct if occupancy_pct is None else occupancy_pct
        self.row = self._touched(usage=self.row.usage + usage, occupancy_pct=full)
        return self.row

    def _touched(self, **fields: Any) -> SessionRow:
        return msgspec.structs.replace(self.row, updated_at=self.parts.clock.now(), **fields)

    def _expect_rev(self, rev: int | None) -> None:
        if rev is not None and rev != self.row.rev:
            raise ProtocolError("stale_revision", f"the session is at revision {self.row.rev}", rev=self.row.rev)

    def _expect_settings(self) -> None:
        fault = self.parts.fault()
        if fault:
            raise ProtocolError("failed", fault)

    def _user_item(self, turn_id: str, blocks: tuple[InputBlock, ...], by: By) -> tuple[UserMessage, Message]:
        now = self.parts.clock.now()
        item_id = new_id("item")
        item = UserMessage(
            item_id=item_id,
            status="completed",
            turn_id=turn_id,
            created_at=now,
            completed_at=now,
            input=blocks,
            text=input_text(blocks),
            by=by,
        )
        return item, Message("user", input_parts(blocks), item_id=item_id)

    # --- subscribers ---

    def attach(self, subscriber: Subscriber) -> None:
        """Events after `feed.head` go to this subscriber from now on."""
        self.detach(subscriber.connection_id)
        self.feed.flush_tick()
        self.subscribers[subscriber.connection_id] = subscriber
        self.feed.sinks.append(subscriber)
        self.questions.audience_changed()
        self._changed(self)

    def detach(self, connection_id: str) -> None:
        """The connection does not want this session's events any more, or is gone."""
        gone = self.subscribers.pop(connection_id, None)
        if gone is not None:
            self.feed.sinks = [sink for sink in self.feed.sinks if sink is not gone]
            self.questions.audience_changed()
            self._changed(self)

    def _note_idle(self) -> None:
        about_to = bool(self.queue) and not self.paused and not self.closing
        if self.runner is None and not about_to:
            self._idle.set()
        else:
            self._idle.clear()

    async def idle(self) -> None:
        """Return when no turn runs and none is about to, those that were asked for before among them."""
        async with self.lock:
            pass
        while not self._idle.is_set():  # it may have been idle for less than a turn of the loop
            await self._idle.wait()

    async def turn_over(self, turn_id: str | None) -> None:
        """Return when this turn, running or queued, is over; without an id the one that runs."""
        while True:
            async with self.lock:
                runner, head = self.runner, self.feed.head
                queued = any(entry.turn_id == turn_id and entry.kind == "turn" for entry in self.queue)
            if runner is not None and turn_id in (None, runner.turn_id):
                await runner.wait()
                return
            if not queued:
                return
            await self.feed.reached(head + 1)


def report_failure(link: Link, error: BaseException) -> None:
    """A middleware failed: into the log."""
    log.warning("%s at %s: %s", link.owner, link.point, error)


def summary_of(row: SessionRow, model: str) -> SessionSummary:
    """The list row of a session that is not live."""
    return SessionSummary(
        session_id=row.session_id,
        title=row.title,
        cwd=row.cwd,
        model=row.options.model or model,
        state="idle",
        created_at=row.created_at,
        updated_at=row.updated_at,
        rev=row.rev,
        usage=row.usage,
        occupancy_pct=row.occupancy_pct,
        archived=row.archived,
        parent=row.parent,
    )


def digest(params: msgspec.Struct) -> str:
    """Hash of the canonical params without the key: two requests with one key must ask for the same."""
    fields = msgspec.to_builtins(params)
    fields.pop("key", None)
    return hashlib.sha256(msgspec.json.encode(fields, order="sorted")).hexdigest()


def receipt_op(scope: str, method: str, key: str, body: str, value: msgspec.Struct, at: str) -> PutReceipt:
    """The op that remembers what was answered."""
    row = ReceiptRow(scope=scope, method=method, key=key, body=body, receipt=msgspec.json.encode(value), at=at)
    return PutReceipt(row=row)


def repeat(known: ReceiptRow, body: str, result: type[R]) -> R:
    """The first answer again; idempotency_conflict when the request is not the same."""
    if known.body != body:
        raise ProtocolError(
            "idempotency_conflict",
            f"the key {known.key!r} was used for another request",
            receipt=msgspec.json.decode(known.receipt),
        )
    value = msgspec.json.decode(known.receipt, type=result)
    return msgspec.structs.replace(value, duplicate=True) if "duplicate" in result.__struct_fields__ else value


def _title(text: str) -> str:
    line = text.strip().partition("\n")[0]
    return line if len(line) <= 60 else line[:59].rstrip() + "…"


def _with_option(options: SessionOptions, id: str, value: Any) -> SessionOptions:
    names = dict(zip(SessionOptions.__struct_encode_fields__, SessionOptions.__struct_fields__, strict=True))
    if id not in names:
        raise ProtocolError("invalid_params", f"$.id: expected one of {', '.join(names)}, got {id!r}", path="$.id")
    fields = msgspec.to_builtins(options) | {id: value}
    if value is None:
        fields.pop(id)
    try:
        return msgspec.convert(fields, SessionOptions)
    except msgspec.ValidationError as error:
        raise ProtocolError("invalid_params", f"$.value: {error}", path="$.value") from error
