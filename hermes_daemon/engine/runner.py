"""Performs a turn's effects and feeds back what came of them: the only consumer of the turn machine.

`fact = await inbox.get(); for effect in turn.feed(fact): await perform(effect)`. Model and tool work happens in tasks
that put facts into the inbox; an interrupt is a message in the same inbox.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from hermes_daemon.core.effects import CallModel, Compact, Effect, End, Record, RunTools, Settle
from hermes_daemon.core.facts import Accepted, Began, Compacted, Fact, Interrupted, SentBack, Steered, ToolReturned
from hermes_daemon.core.ports import ModelInfo, StorageError, Tool
from hermes_daemon.core.records import AddMessage, Op, PutItem, PutSession, PutTurn, TurnRow
from hermes_daemon.core.turn import Turn
from hermes_daemon.engine.emitted import Draft
from hermes_daemon.engine.identity import new_id
from hermes_daemon.engine.meter import Meter
from hermes_daemon.engine.model_call import ModelCall
from hermes_daemon.engine.passage import Passage
from hermes_daemon.engine.shown import without_secrets
from hermes_daemon.engine.spending import Spending
from hermes_daemon.engine.tool_call import run_call
from hermes_daemon.middleware.payloads import Draft as FinalDraft
from hermes_daemon.middleware.payloads import PointContext, SessionPhase, TurnContext, TurnOver, TurnSaid
from hermes_daemon.middleware.styles import MiddlewareError
from hermes_protocol.content import InputBlock, Message, TextPart, ToolCall, ToolResult, Usage, input_text
from hermes_protocol.events import (
    AnyItem,
    Failure,
    ItemCompleted,
    ItemStarted,
    Notice,
    QueueEntry,
    SessionUpdated,
    ToolCallItem,
    TurnCount,
    TurnEnded,
    TurnSteered,
    TurnSteerRequeued,
    UserMessage,
)
from hermes_protocol.methods import TurnOptions

if TYPE_CHECKING:
    from hermes_daemon.engine.session import Session

log = logging.getLogger(__name__)
T = TypeVar("T")


class Stop(msgspec.Struct, frozen=True):
    """Somebody wants the turn to end."""

    reason: str


class Runner:
    """One running turn of a session."""

    def __init__(self, session: Session, turn_id: str, input: tuple[InputBlock, ...], options: TurnOptions,
                 depth: int = 0, queued_s: float = 0.0) -> None:  # fmt: skip
        self.session = session
        self.turn_id = turn_id
        self.input = input
        self.options = options
        self.meter = Meter(session.parts.clock, queued_s)
        self.depth = depth
        self.spending = Spending()
        self.rounds = TurnCount()
        self.model_id = session.model
        self.model: ModelInfo | None = None
        self.platform = ""
        self.changed_paths: dict[str, None] = {}
        self.response_bytes = self._nudges = 0
        self._said = ""
        self.occupancy: float | None = None
        self.thinking: str | None = None
        self.stand_in: str | None = None
        self.room: int | None = None
        self.shortened: set[str] = set()
        self.failed_models: set[str] = set()
        self.dropped: tuple[str, ...] = ()
        self.forced = False
        self._ending = False
        self.stopping = False
        self.started_at = session.parts.clock.now()
        settings = session.parts.settings().agent
        self.turn = Turn(options.max_rounds or settings.max_rounds)
        self._grace = settings.interrupt_grace_s
        self._inbox: asyncio.Queue[Fact | Stop] = asyncio.Queue()
        self._tasks: set[asyncio.Task[Fact]] = set()
        self._pending: list[Awaitable[None]] = []
        self._model_call: ModelCall | None = None
        self._steers: dict[str, QueueEntry] = {}
        self.tool_items: dict[str, ToolCallItem] = {}
        self.finished: dict[str, tuple[AnyItem, ...]] = {}
        self._blobs: list[Op] = []
        self._ended: Callable[[], None] | None = None
        self._task: asyncio.Task[None] | None = None
        self.points = self.passage()

    # --- from outside ---

    def start(self, ended: Callable[[], None]) -> None:
        """Run the turn in a task of its own; `ended` is called once, when turn.ended was committed."""
        self._ended = ended
        self._task = asyncio.create_task(self._run(), name=f"turn {self.turn_id}")

    def steer(self, entry: QueueEntry) -> None:
        """Hand the running turn something the user added."""
        self.depth = max(self.depth, entry.by.depth)
        item_id = new_id("item")
        self._steers[item_id] = entry
        self._inbox.put_nowait(Steered(Message("user", self.session.parts_of(entry.input), item_id=item_id)))

    def drop(self, texts: tuple[str, ...]) -> None:
        """The queue was cleared, with the steering that no model call has taken yet."""
        self.dropped += texts
        self._steers.clear()

    @property
    def usage(self) -> Usage:
        """What its model calls used so far."""
        return self.spending.total

    @property
    def over(self) -> bool:
        """True when nothing more enters the turn; its end may still be on its way to the disk."""
        return self.turn.phase == "over"

    def interrupt(self, reason: str) -> bool:
        """Ask the turn to stop. False when it is already ending."""
        if self.stopping or self.over:
            return False
        self.stopping = True
        self._inbox.put_nowait(Stop(reason))
        return True

    async def wait(self, limit_s: float | None = None) -> None:
        """Return when the turn is over and its observers know, or after so many seconds."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=limit_s)

    # --- the loop ---

    async def _run(self) -> None:
        try:
            await self._tell_problems()
            await self._begin()
            await self._perform_all(self.turn.feed(Began(tuple(self.session.history))))
            while not self.over:
                fact = await self._inbox.get()
                if isinstance(fact, Stop):
                    await self._stop(fact)
                else:
                    await self._perform_all(self.turn.feed(fact))
        except MiddlewareError as error:  # one that may end a turn
            await self._failed(Failure("middleware", self.session.parts.redact(str(error))))
        except Exception as error:  # the runner: a bug in one turn must not leave its session stuck
            await self._crashed(error)
        finally:
            self._say_ended()

    def _say_ended(self) -> None:
        ended, self._ended = self._ended, None
        if ended is not None:
            ended()

    async def _tell_problems(self) -> None:
        """Say what is wrong with the configuration or the database, once in a session."""
        session = self.session
        fresh = [text for text in session.parts.problems() if text not in session.told]
        if fresh:
            session.told.update(fresh)
            notices = [Notice("warning", session.parts.redact(text), "config.problem") for text in fresh]
            await session.feed.post([Draft(notice, self.turn_id) for notice in notices])

    async def _begin(self) -> None:
        """The points before the first model call. What plugins add to the user's message is a row behind it, so that
        later turns send the same."""
        session = self.session
        first = len(session.history) == 1
        await session.begin(self.points, self.turn_id)
        if first:
            await self.points.observe("on_session_start", lambda: SessionPhase(session.session_id, self.turn_id))
        if self.points.has("pre_llm_call"):
            asked = TurnContext(input_text(self.input), first, tuple(session.history), session.row.parent or "")
            contexts = (await self.points.fold("pre_llm_call", asked, _only_contexts)).contexts
            text = session.parts.redact("\n\n".join(each for each in contexts if each.strip()))
            if text:
                await self._write(Message("user", (TextPart(text),)))

    async def _perform_all(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            await self._perform(effect)

    async def _perform(self, effect: Effect) -> None:
        match effect:
            case Record():
                await self._record(effect.message)
            case CallModel():
                await self._durable()
                self._model_call = ModelCall(self, effect.history, effect.round)
                self._spawn(self._model_call.run())
            case RunTools():
                await self._durable()
                await self._run_tools(effect)
            case Compact():
                self._inbox.put_nowait(Compacted(effect.history, shorter=False))
            case Settle():
                self._spawn(self._settle(effect.draft))
            case End():
                await self._end(effect)

    def _spawn(self, work: Coroutine[Any, Any, Fact]) -> None:
        made = asyncio.create_task(work)
        self._tasks.add(made)
        made.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Fact]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        if (error := task.exception()) is not None:
            log.error("turn %s: %s", self.turn_id, error, exc_info=error)
            self._inbox.put_nowait(Stop("internal"))
        else:
            self._inbox.put_nowait(task.result())

    # --- effects ---

    async def _record(self, message: Message) -> None:
        """Make a message durable together with the items it completes."""
        if message.role == "user" and message.item_id is not None:
            async with self.session.mailbox.lock:  # steering leaves the queue
                if message.item_id in self._steers:
                    await self._write(message)
        else:
            await self._write(message)

    async def _write(self, message: Message) -> None:
        drafts, ops = self._items_of(message)
        message = without_secrets(message, self.session.parts.redact)
        self._said = message.text if message.role == "assistant" else self._said
        ops.append(AddMessage(session_id=self.session.session_id, message=message, turn_id=self.turn_id))
        ops = [*self._blobs, *ops]
        self._blobs = []
        _, written = await self.session.feed.post(drafts, ops, durable=True)
        self.session.history.append(message)
        self._pending.append(written)

    async def _durable(self) -> None:
        """What was recorded has reached the disk."""
        pending, self._pending = self._pending, []
        with self.meter.during("journal"):
            for written in pending:
                await written

    def _items_of(self, message: Message) -> tuple[list[Draft], list[Op]]:
        match message.role:
            case "user":
                return self._steer_items(message)
            case "assistant" if self._model_call is not None:
                return self.completed(self._model_call.items(message))
            case "tool":
                return self.completed([item for result in message.results for item in self._tool_items(result)])
        return [], []

    def _tool_items(self, result: ToolResult) -> tuple[AnyItem, ...]:
        """The items of an answered call: as the call left them, or cancelled when it did not come to its end."""
        begun = self.tool_items.pop(result.call_id, None)
        done = self.finished.pop(result.call_id, ())
        if done or begun is None:
            return done
        now = self.session.parts.clock.now()
        return (msgspec.structs.replace(begun, status="cancelled", completed_at=now, error=result.text),)

    def completed(self, items: list[AnyItem]) -> tuple[list[Draft], list[Op]]:
        """Events and ops that complete these items."""
        drafts = [Draft(ItemCompleted(item), self.turn_id, item.item_id) for item in items]
        ops: list[Op] = [PutItem(session_id=self.session.session_id, item=item) for item in items]
        return drafts, ops

    def _steer_items(self, message: Message) -> tuple[list[Draft], list[Op]]:
        entry = self._steers.pop(message.item_id or "", None)
        if entry is None or message.item_id is None:
            return [], []
        now = self.session.parts.clock.now()
        item = UserMessage(
            item_id=message.item_id,
            status="completed",
            turn_id=self.turn_id,
            created_at=now,
            completed_at=now,
            input=entry.input,
            text=input_text(entry.input),
            by=entry.by,
        )
        started = msgspec.structs.replace(item, status="inProgress", completed_at=None, input=(), text="")
        left = [other for other in self.session.admission.queue.entries if other.queue_id != entry.queue_id]
        queue_draft, queue_op = self.session.admission.change_queue(left)
        drafts = [
            Draft(TurnSteered(self.turn_id, entry.queue_id, item.item_id), self.turn_id),
            Draft(ItemStarted(started), self.turn_id, item.item_id),
            Draft(ItemCompleted(item), self.turn_id, item.item_id),
            queue_draft,
        ]
        return drafts, [PutItem(session_id=self.session.session_id, item=item), queue_op]

    async def _run_tools(self, effect: RunTools) -> None:
        last = len(effect.calls) - 1
        for index, call in enumerate(effect.calls):
            self._spawn(self._one_call(call, cut=effect.cut and index == last))
        await asyncio.sleep(0)  # each has begun: one that is cancelled from here on says so to its observers

    async def _one_call(self, call: ToolCall, *, cut: bool) -> ToolReturned:
        return await run_call(self, call, cut=cut)

    async def _settle(self, draft: Message) -> Fact:
        settings, redact = self.session.parts.settings().agent, self.session.parts.redact
        if self.changed_paths and self._nudges < settings.max_verify_nudges:
            paths, attempt = tuple(self.changed_paths), self._nudges
            decision = await self.points.decide("pre_verify", lambda: FinalDraft(redact(draft.text), paths, attempt))
            if decision is not None and decision.action in ("continue", "block") and decision.message.strip():
                self._nudges += 1
                return SentBack(Message("user", (TextPart(redact(decision.message)),)))
        return Accepted()

    # --- the end ---

    async def _stop(self, stop: Stop) -> None:
        """Cancel what runs, take what it had, and end the turn."""
        tasks = [task for task in self._tasks if not task.done()]
        for task in tasks:
            task.cancel()
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=self._grace)
            self.forced = bool(late)
        while not self._inbox.empty():
            fact = self._inbox.get_nowait()
            if isinstance(fact, (ToolReturned, Steered)):
                effects = [effect for effect in self.turn.feed(fact) if not isinstance(effect, CallModel)]
                await self._perform_all(effects)
        partial = self._model_call.partial() if self._model_call is not None else None
        await self._perform_all(self.turn.feed(Interrupted(partial, stop.reason)))

    async def _end(self, end: End) -> None:
        """Close what is open, requeue late steering, and say that the turn is over: one transaction.

        Posted under the session's lock, so that queue and row change one after the other; the disk is waited for
        without it, so that others are refused in time when it is full.
        """
        self._ending = True
        async with self.session.mailbox.lock:
            ended, written = await self._close_turn(end)
        written = asyncio.ensure_future(written)
        written.add_done_callback(self._closed)
        with self.meter.during("journal"):
            await asyncio.shield(written)
        self._measure(ended)
        await self._tell_over(ended)

    async def _tell_over(self, ended: TurnEnded) -> None:
        """Behind the end: nobody waits for observers of a turn."""
        if ended.status not in ("failed", "interrupted"):
            await self.points.observe(
                "post_llm_call",
                lambda: TurnSaid(input_text(self.input), self._said, tuple(self.session.history)),
            )
        await self.points.observe("on_session_end", lambda: TurnOver(
            self.turn_id, ended.status == "completed", ended.status in ("failed", "refused"),
            ended.status == "interrupted", ended.stop or ended.status,
        ))  # fmt: skip

    def _measure(self, ended: TurnEnded) -> None:
        parts = self.session.parts
        if parts.telemetry.wanted:
            parts.telemetry.emit(self.meter.measured(ended, self.model_id), self.session.session_id, self.turn_id)

    def _closed(self, written: asyncio.Future[None]) -> None:
        """In the very step that delivers turn.ended: whoever has seen it finds the session idle."""
        if not written.cancelled() and written.exception() is None:
            self._say_ended()

    async def _close_turn(self, end: End) -> tuple[TurnEnded, Awaitable[None]]:
        session = self.session
        drafts, ops = self._left_open()
        requeued, requeue_ops = self._requeue_steers()
        ended = TurnEnded(
            end.status,
            end.stop,
            msgspec.UNSET if self.rounds.deterministic and not self.rounds.model else self.usage,
            end.error,
            self.forced,
            self.dropped,
            self.rounds,
        )
        row = TurnRow(
            turn_id=self.turn_id,
            session_id=session.session_id,
            status=end.status,
            started_at=self.started_at,
            ended_at=session.parts.clock.now(),
            model=self.model_id,
            rounds=self.turn.round,
            usage=self.usage,
        )
        ops += [
            *self._blobs,
            *requeue_ops,
            PutTurn(row=row),
            PutSession(row=session.add_usage(self.usage, self.occupancy)),
        ]
        updated = SessionUpdated(msgspec.structs.replace(session.summary(), state="idle"))
        if end.error is not None:
            log.warning("turn %s of %s %s: %s", self.turn_id, session.session_id, end.status, end.error.message)
        _, written = await session.feed.post(
            [*drafts, *requeued, Draft(updated), Draft(ended, self.turn_id)], ops, durable=True
        )
        return ended, written

    def _left_open(self) -> tuple[list[Draft], list[Op]]:
        """Complete the items of this turn that are still open."""
        items: list[AnyItem] = self._model_call.unfinished() if self._model_call is not None else []
        now = self.session.parts.clock.now()
        items += [
            msgspec.structs.replace(item, status="cancelled", completed_at=now) for item in self.tool_items.values()
        ]
        self.tool_items.clear()
        return self.completed(items)

    def keep(self, blob: Op) -> None:
        """Write this, a blob or what a model call used, with the next record."""
        self._blobs.append(blob)

    def active_tools(self) -> list[Tool]:
        """The tools this turn may use: what is installed, less what settings, session and turn leave out."""
        session, wanted = self.session, self.options.tools
        disabled = set(session.parts.settings().tools.disabled)
        toolsets = session.row.options.toolsets
        return [
            tool
            for tool in (*session.parts.tools.all(), *session.client_tools.all())
            if tool.card.name not in disabled
            and (toolsets is None or tool.card.toolset in toolsets or tool.card.name in toolsets)
            and (wanted is None or tool.card.name in wanted)
        ]

    def _requeue_steers(self) -> tuple[list[Draft], list[Op]]:
        session = self.session
        self._steers.clear()
        late = [entry for entry in session.admission.queue.entries if entry.kind == "steer"]
        if not late:
            return [], []
        turned = [msgspec.structs.replace(entry, kind="turn", turn_id=new_id("turn")) for entry in late]
        queue = [*turned, *(entry for entry in session.admission.queue.entries if entry.kind != "steer")]
        drafts = [
            Draft(TurnSteerRequeued(self.turn_id, entry.queue_id, entry.turn_id), self.turn_id) for entry in turned
        ]
        draft, op = session.admission.change_queue(queue)
        return [*drafts, draft], [op]

    async def _crashed(self, error: Exception) -> None:
        """A bug, or a store that takes nothing any more: then the next start ends the turn as lost."""
        for task in list(self._tasks):
            task.cancel()
        self.session.forget_history()
        if isinstance(error, StorageError) and self._ending:
            log.warning("turn %s: its end cannot be written: %s", self.turn_id, error)
            return
        incident = new_id("incident")
        log.error("turn %s failed, incident %s", self.turn_id, incident, exc_info=error)
        if not self._ending:
            await self._failed(_fault(error, incident))

    async def _failed(self, failure: Failure) -> None:
        """End the turn, whatever it is doing."""
        self.turn.phase = "over"
        try:
            await self._end(End("failed", "internal" if failure.kind == "storage_error" else failure.kind, failure))
        except StorageError as unwritten:
            log.warning("turn %s: its end cannot be written: %s", self.turn_id, unwritten)

    # --- middleware ---

    def passage(self, ids: Mapping[str, Any] | None = None) -> Passage:
        """A way through the points of this turn, or of a model call or tool call in it with ids of its own (fields of
        PointContext; read each time)."""
        return Passage(self.session, lambda: self._place(ids or {}), self.meter, lambda: not self.over)

    def _place(self, ids: Mapping[str, Any]) -> PointContext:
        session_id, info = self.session.session_id, self.model
        settings = self.session.parts.settings().providers.get(info.provider) if info is not None else None
        return PointContext(
            session_id=session_id,
            turn_id=self.turn_id,
            round=self.turn.round,
            model=info.name if info is not None else self.model_id,
            provider=info.provider if info is not None else "",
            base_url=settings.base_url if settings is not None else "",
            api_mode=settings.format if settings is not None else "",
            platform=self.platform,
            task_id=session_id,
            **ids,
        )


def _only_contexts(before: TurnContext, after: TurnContext) -> TurnContext:
    if not all(isinstance(each, str) for each in after.contexts):
        raise TypeError("contexts: expected texts")
    return msgspec.structs.replace(before, contexts=after.contexts)


def _fault(error: Exception, incident: str) -> Failure:
    if isinstance(error, StorageError):
        return Failure("storage_error", str(error))
    return Failure("internal", f"a bug ended this turn; incident {incident} is in the log")
