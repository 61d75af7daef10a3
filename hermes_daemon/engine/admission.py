"""Which turn runs next: user messages are admitted, queued, handed to the running turn, or begun.

Admission is one durable write: the message, its item, its receipt and its events. Only then does anything run.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from hermes_daemon.core.ports import StorageError
from hermes_daemon.core.records import AddMessage, Op, PutItem, PutSession, PutTurn, QueueRow, SessionRow, TurnRow
from hermes_daemon.engine import titling
from hermes_daemon.engine.emitted import Draft
from hermes_daemon.engine.identity import new_id
from hermes_daemon.engine.mailbox import PATIENCE
from hermes_daemon.engine.meter import seconds_between
from hermes_daemon.engine.runner import Runner
from hermes_daemon.engine.session_row import title_of
from hermes_daemon.engine.turn_queue import TurnQueue
from hermes_protocol.content import By, InputBlock, Message, input_text
from hermes_protocol.errors import ProtocolError
from hermes_protocol.events import (
    ItemCompleted,
    ItemStarted,
    QueueEntry,
    SessionUpdated,
    TurnQueued,
    TurnStarted,
    UserMessage,
)
from hermes_protocol.methods import (
    InterruptParams,
    InterruptResult,
    QueueParams,
    QueueRemoveParams,
    QueueReorderParams,
    QueueResult,
    QueueUpdateParams,
    SteerParams,
    SteerResult,
    SubmitParams,
    SubmitResult,
    TurnOptions,
)

if TYPE_CHECKING:
    from hermes_daemon.engine.session import Session

log = logging.getLogger(__name__)
Receipt: TypeAlias = Callable[[SubmitResult], tuple[Op, ...]]
QueueEdit: TypeAlias = QueueRemoveParams | QueueUpdateParams | QueueReorderParams
MOST_DEPTH: Final = 3
"""Agents that may stand between a person and an input: so that sessions do not set each other going for ever."""


class Admission:
    """The turns of one session: at most one runs, the others wait in `queue`."""

    def __init__(self, session: Session, queue: QueueRow | None) -> None:
        self.queue = TurnQueue(session.session_id, queue)
        self.runner: Runner | None = None
        self.last: Runner | None = None
        self.closing = False
        self._session = session
        self._mailbox = session.mailbox
        self._starting: asyncio.Task[None] | None = None
        self._idle = asyncio.Event()
        self.note_idle()

    # --- submitting ---

    async def submit(self, params: SubmitParams, by: By) -> SubmitResult:
        """Admit a user turn: start it, or queue it, or steer the running one. Never runs anything unrecorded."""

        async def work(receipt: Receipt) -> SubmitResult:
            self._expect_welcome(params, by)
            runner = self.runner
            if runner is None and not (self.queue and not self.queue.paused):
                return await self._start(params, by, receipt)
            if params.when_busy == "reject":
                active = runner.turn_id if runner else None
                raise ProtocolError("turn_in_progress", "a turn is running", activeTurnId=active)
            if params.when_busy == "steer" and runner is not None and not runner.over:
                turn_id = runner.turn_id
                steered = await self._steer(
                    runner, params.input, params.options, by,
                    lambda queue_id, seq: receipt(SubmitResult("steered", turn_id, seq, queue_id=queue_id)),
                )  # fmt: skip
                return SubmitResult("steered", turn_id, steered[1], queue_id=steered[0])
            position = params.position if params.when_busy == "queue" else 0
            queued = await self._enqueue(params, by, position, receipt)
            if params.when_busy == "interrupt" and runner is not None:
                runner.interrupt("superseded")
            return queued

        return await self._mailbox.once("hermes/turn/submit", params, params.key, SubmitResult, work)

    async def steer(self, params: SteerParams, by: By) -> SteerResult:
        """Input for the turn that is named, if that is the one that runs: turn_mismatch otherwise."""

        async def work(receipt: Callable[[SteerResult], tuple[Op, ...]]) -> SteerResult:
            self._expect_input(params.input, by)
            runner = self.runner if self.runner is not None and not self.runner.over else None
            if runner is None or runner.turn_id != params.turn_id:
                active = runner.turn_id if runner is not None else None
                text = f"turn {params.turn_id} is not the one that runs"
                raise ProtocolError("turn_mismatch", text, activeTurnId=active)
            steered = await self._steer(
                runner, params.input, TurnOptions(), by, lambda queue_id, seq: receipt(_accepted(queue_id, seq))
            )
            return _accepted(*steered)

        return await self._mailbox.once("hermes/turn/steer", params, params.key, SteerResult, work)

    def _expect_welcome(self, params: SubmitParams, by: By) -> None:
        self._session.expect_rev(params.expect_rev)
        self._expect_input(params.input, by)
        if params.options.model is not None:
            self._session.parts.models.resolve(params.options.model)

    def _expect_input(self, blocks: tuple[InputBlock, ...], by: By) -> None:
        self._expect_open()
        if not blocks:
            raise ProtocolError("invalid_params", "$.input: expected at least one block", path="$.input")
        self._session.expect_blobs(blocks)
        if not 0 <= by.depth <= MOST_DEPTH:
            text = f"$.depth: {by.depth} agents stand between a person and this input; at most {MOST_DEPTH} may"
            raise ProtocolError("permission_denied", text, depth=by.depth, limit=MOST_DEPTH)

    def _expect_open(self) -> None:
        if self.closing:
            raise ProtocolError("draining", "the session is being closed", retryAfterMs=500)
        fault = self._session.parts.fault()
        if fault:
            raise ProtocolError("failed", fault)

    async def _steer(
        self, runner: Runner, blocks: tuple[InputBlock, ...], options: TurnOptions, by: By,
        receipt: Callable[[str, int], tuple[Op, ...]],
    ) -> tuple[str, int]:  # fmt: skip
        """Hand the running turn what the user added: (queue id, number of the event)."""
        self.queue.expect_room()
        now = self._session.parts.clock.now()
        entry = QueueEntry(new_id("queue"), runner.turn_id, blocks, by, "steer", now, options)
        seq = await self._put_queue((*self.queue.entries, entry), lambda seq: receipt(entry.queue_id, seq))
        runner.steer(entry)
        return entry.queue_id, seq

    async def _enqueue(self, params: SubmitParams, by: By, position: int | None, receipt: Receipt) -> SubmitResult:
        self.queue.expect_room()
        entries = self.queue.entries
        at = len(entries) if position is None else max(0, min(position, len(entries)))
        now = self._session.parts.clock.now()
        entry = QueueEntry(new_id("queue"), new_id("turn"), params.input, by, "turn", now, params.options)
        result = SubmitResult("queued", entry.turn_id, 0, queue_id=entry.queue_id)
        queued = Draft(TurnQueued(entry.turn_id, entry.queue_id, at), entry.turn_id)
        ops = lambda seq: receipt(msgspec.structs.replace(result, seq=seq))  # noqa: E731
        seq = await self._put_queue((*entries[:at], entry, *entries[at:]), ops, queued)
        if self.runner is None:
            self.start_soon()
        return msgspec.structs.replace(result, seq=seq)

    async def _put_queue(
        self, entries: tuple[QueueEntry, ...], receipt: Callable[[int], tuple[Op, ...]], *drafts: Draft
    ) -> int:
        draft, op = self.queue.planned(entries)
        seq = await self._session.feed.commit([*drafts, draft], lambda seq: (op, *receipt(seq)), patience=PATIENCE)
        self._take(entries)
        return seq

    # --- starting ---

    async def _start(self, params: SubmitParams, by: By, receipt: Receipt) -> SubmitResult:
        beginning = self._beginning(new_id("turn"), params.input, by)
        turn_id, item = beginning.turn_id, beginning.item

        def ops(seq: int) -> Sequence[Op]:
            return (*beginning.ops, *receipt(SubmitResult("started", turn_id, seq, item.item_id)))

        seq = await self._session.feed.commit(beginning.drafts, ops, patience=PATIENCE)
        self._run(beginning, params.options)
        return SubmitResult("started", turn_id, seq, item.item_id)

    def _beginning(self, turn_id: str, blocks: tuple[InputBlock, ...], by: By) -> Beginning:
        session = self._session
        now = session.parts.clock.now()
        item = UserMessage(
            item_id=new_id("item"),
            status="completed",
            turn_id=turn_id,
            created_at=now,
            completed_at=now,
            input=blocks,
            text=input_text(blocks),
            by=by,
        )
        message = Message("user", session.parts_of(blocks), item_id=item.item_id)
        row = session.touched(title=session.row.title or title_of(item.text))
        # The text comes with the end: a message of megabytes is not sent twice in one breath.
        started = msgspec.structs.replace(item, status="inProgress", completed_at=None, input=(), text="")
        drafts = [
            Draft(TurnStarted(turn_id, blocks, by, session.model), turn_id),
            Draft(ItemStarted(started), turn_id, item.item_id),
            Draft(ItemCompleted(item), turn_id, item.item_id),
        ]
        if row.title != session.row.title:
            drafts.append(Draft(SessionUpdated(session.summary(row))))
        turn = TurnRow(
            turn_id=turn_id, session_id=row.session_id, status="running", started_at=now, model=session.model
        )
        ops = (
            PutTurn(row=turn),
            PutItem(session_id=row.session_id, item=item),
            AddMessage(session_id=row.session_id, message=message, turn_id=turn_id),
            PutSession(row=row),
        )
        return Beginning(turn_id, item, message, row, drafts, ops)

    def _run(self, beginning: Beginning, options: TurnOptions, queued_s: float = 0.0) -> None:
        session = self._session
        untitled = not session.row.title
        session.row = beginning.row
        if untitled and titling.wanted(session):
            session.run_beside(titling.give_title(session, beginning.item.text, beginning.turn_id))
        session.remember(beginning.message)
        depth = beginning.item.by.depth if beginning.item.by is not None else 0
        self.runner = Runner(session, beginning.turn_id, beginning.item.input, options, depth, queued_s)
        self.last = self.runner
        self.runner.platform = beginning.item.by.name if beginning.item.by is not None else ""
        self.note_idle()
        self.runner.start(self._ended)
        session.tell_changed()

    def _ended(self) -> None:
        """The runner is done: its turn.ended was committed. The next queued turn may start."""
        self.runner = None
        self.note_idle()
        self.start_soon()
        self._session.tell_changed()

    def start_soon(self) -> None:
        """Start the turn at the head of the queue as soon as that is possible."""
        if self._starting is None or self._starting.done():
            self._starting = asyncio.create_task(self._start_queued())
            self._starting.add_done_callback(self._started)

    def _started(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            session_id = self._session.session_id
            log.error("session %s: the next queued turn cannot start: %s", session_id, error, exc_info=error)
            self._idle.set()

    async def _start_queued(self) -> None:
        """Start the next turn, when there is one and nothing runs. While the disk cannot be written it is tried again
        and again, with room in between for those who want to look at the queue."""
        while True:
            async with self._mailbox.lock:
                waits = self.queue.paused or self.closing or not self.queue or self._session.parts.fault()
                if self.runner is not None or waits:
                    return None
                try:
                    return await self._start_head()
                except StorageError as error:
                    if not error.retryable:
                        raise
            await asyncio.sleep(0)

    async def _start_head(self) -> None:
        entry, *rest = self.queue.entries
        beginning = self._beginning(entry.turn_id, entry.input, entry.by)
        draft, op = self.queue.planned(tuple(rest))
        await self._session.feed.commit([*beginning.drafts, draft], [*beginning.ops, op], patience=PATIENCE)
        self._take(tuple(rest))
        self._run(beginning, entry.options, seconds_between(entry.created_at, beginning.item.created_at))

    # --- stopping ---

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
                result = msgspec.structs.replace(result, seq=self._session.feed.head)
            with contextlib.suppress(StorageError):  # what is stopped stays stopped without a receipt
                await self._session.parts.store.write(*receipt(result), patience=PATIENCE)
            return result

        # Behind the submits that came before it: the turn it means may be about to start.
        return await self._mailbox.once("hermes/turn/interrupt", params, params.key, InterruptResult, work)

    def _is_meant(self, params: InterruptParams) -> bool:
        return self.runner is not None and params.turn_id in (None, self.runner.turn_id)

    def _interrupted(self, params: InterruptParams) -> InterruptResult:
        runner, head = self.runner, self._session.feed.head
        if runner is None or not self._is_meant(params):
            return InterruptResult("notActive", head, params.turn_id)
        begun = runner.interrupt(params.reason or "interrupted")
        return InterruptResult("interrupting" if begun else "alreadyEnding", head, runner.turn_id)

    async def _leave_queue(self, runner: Runner, policy: str) -> None:
        """Pause or clear the queue behind a turn that is interrupted. The turn's end waits for the lock, and so for
        the policy; when that cannot be written the queue stands still all the same."""
        paused, self.queue.paused = self.queue.paused, True
        self.note_idle()
        if policy == "pause":
            await self._set_queue(self.queue.entries, paused=True)
            return
        dropped = tuple(input_text(entry.input) for entry in self.queue.entries)
        await self._set_queue((), paused=paused)
        runner.drop(dropped)

    async def _set_queue(self, entries: tuple[QueueEntry, ...], *, paused: bool, ops: tuple[Op, ...] = ()) -> None:
        draft, op = self.queue.planned(entries, paused)
        await self._session.feed.commit([draft], [op, *ops], patience=PATIENCE)
        self.queue.paused = paused
        self._take(entries)

    async def close(self, reason: str) -> None:
        """Start nothing any more, and return when what ran has ended."""
        self.closing = True
        self.note_idle()
        if self.runner is not None:
            self.runner.interrupt(reason)
        async with self._mailbox.lock:  # what is being admitted has begun then, or failed
            runner = self.runner
        if runner is not None:
            runner.interrupt(reason)
            await runner.wait()

    # --- the queue ---

    async def edit(self, method: str, params: QueueEdit, change: Callable[[], tuple[QueueEntry, ...]]) -> QueueResult:
        """Make the queue what `change` gives. stale_revision, and what `change` raises."""

        async def work(receipt: Callable[[QueueResult], tuple[Op, ...]]) -> QueueResult:
            self.queue.expect_rev(params.expect_queue_rev)
            entries = change()
            result = QueueResult(entries, self.queue.rev + 1, self.queue.paused)
            draft, op = self.queue.planned(entries)
            await self._session.feed.commit([draft], [op, *receipt(result)], patience=PATIENCE)
            self._take(entries)
            return result

        return await self._mailbox.once(method, params, params.key, QueueResult, work)

    async def resume(self, params: QueueParams) -> QueueResult:
        """Let a paused queue go on."""

        async def work(receipt: Callable[[QueueResult], tuple[Op, ...]]) -> QueueResult:
            self._expect_open()
            result = QueueResult(self.queue.entries, self.queue.rev + 1, paused=False)
            await self._set_queue(self.queue.entries, paused=False, ops=receipt(result))
            self.start_soon()  # here: whoever asked may be gone by now
            return result

        return await self._mailbox.once("hermes/queue/resume", params, params.key, QueueResult, work)

    def change_queue(self, entries: Sequence[QueueEntry]) -> tuple[Draft, Op]:
        """Take this for the queue, now; the event and the op must be posted before the lock is let go."""
        draft, op = self.queue.planned(tuple(entries))
        self._take(tuple(entries))
        return draft, op

    def _take(self, entries: tuple[QueueEntry, ...]) -> None:
        self.queue.take(entries)
        self.note_idle()

    # --- waiting ---

    def note_idle(self) -> None:
        """Let those go on who wait for the session to be idle, when it is."""
        about_to = bool(self.queue) and not self.queue.paused and not self.closing
        if self.runner is None and not about_to:
            self._idle.set()
        else:
            self._idle.clear()

    async def idle(self) -> None:
        """Return when no turn runs and none is about to, those that were asked for before among them."""
        async with self._mailbox.lock:
            pass
        while not self._idle.is_set():  # it may have been idle for less than a turn of the loop
            await self._idle.wait()

    async def turn_over(self, turn_id: str | None) -> None:
        """Return when this turn, running or queued, is over; without an id the one that runs."""
        while True:
            async with self._mailbox.lock:
                runner, head = self.runner, self._session.feed.head
                queued = any(entry.turn_id == turn_id and entry.kind == "turn" for entry in self.queue.entries)
            if runner is not None and turn_id in (None, runner.turn_id):
                await runner.wait()
                return
            if not queued:
                return
            await self._session.feed.reached(head + 1)


def _accepted(queue_id: str, seq: int) -> SteerResult:
    return SteerResult("accepted", queue_id, seq)


class Beginning(msgspec.Struct, frozen=True):
    """Everything that makes a turn begin: what is announced and what is written, in one transaction."""

    turn_id: str
    item: UserMessage
    message: Message
    row: SessionRow
    drafts: list[Draft]
    ops: tuple[Op, ...]
