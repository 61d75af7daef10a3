"""A live session: its options, queue, questions, events and the turn that runs.

Everything that changes a session is admitted under one lock, in arrival order; the effect, its receipt and its events
are one transaction (decisions 9).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

import msgspec

from hermes_daemon.core import history as laws
from hermes_daemon.core.ports import StorageError
from hermes_daemon.core.records import (
    Op,
    PutSession,
    QueueRow,
    SessionRow,
)
from hermes_daemon.core.telemetry import QuestionResolved
from hermes_daemon.engine.admission import Admission
from hermes_daemon.engine.answers import OF_CLIENTS, prompt_of
from hermes_daemon.engine.attendance import Watcher
from hermes_daemon.engine.client_middleware import ClientMiddlewares
from hermes_daemon.engine.client_tools import ClientTools
from hermes_daemon.engine.emitted import Draft
from hermes_daemon.engine.estimates import Estimates
from hermes_daemon.engine.feed import Feed, Sink
from hermes_daemon.engine.mailbox import PATIENCE, Mailbox
from hermes_daemon.engine.meter import ms, seconds_between
from hermes_daemon.engine.parts import Parts
from hermes_daemon.engine.passage import Passage
from hermes_daemon.engine.questions import Questions
from hermes_daemon.engine.runner import Runner
from hermes_daemon.engine.session_row import expect_effort, expect_policy, summary_of, with_option
from hermes_daemon.engine.uploads import Uploads, check_blobs, parts_of
from hermes_daemon.middleware.payloads import HumanInput, PointContext, SessionPhase
from hermes_daemon.middleware.registry import Registry
from hermes_protocol.content import By, InputBlock, Message, Part, Usage
from hermes_protocol.errors import ProtocolError
from hermes_protocol.events import (
    EventData,
    RequestOpened,
    SessionOption,
    SessionState,
    SessionSummary,
    SessionUpdated,
)
from hermes_protocol.methods import (
    ArchiveParams,
    BlobCreateParams,
    BlobCreateResult,
    GetResult,
    RenameParams,
    SetOptionParams,
    SetOptionResult,
)

log = logging.getLogger(__name__)
TOLD_REPAIRS = 20
LAST_WORDS_S = 5.0


class Subscriber(Sink, Watcher, Protocol):
    """A subscription of one connection."""

    @property
    def connection_id(self) -> str: ...


class Session:
    """One conversation. Made by Sessions; lives until the daemon stops or the session is deleted."""

    def __init__(self, row: SessionRow, parts: Parts, *, head: int, queue: QueueRow | None,
                 changed: Callable[[Session], None]) -> None:  # fmt: skip
        self.row = row
        self.parts = parts
        self.feed = Feed(row.session_id, row.epoch, parts.store, parts.clock, ceiling=row.ceiling, head=head)
        self.middleware = Registry(parts.middleware)
        self.mailbox = Mailbox(row.session_id, parts.store, parts.clock)
        self.estimates = Estimates()
        self.grants: set[str] = set()
        self.told: set[str] = set()
        self.subscribers: dict[str, Subscriber] = {}
        self.compacting = False
        self.sections: tuple[str, ...] = ()
        self.uploads = Uploads()
        self.beside: set[asyncio.Task[None]] = set()
        self._owed = Usage()
        self._changed = changed
        self._history: list[Message] | None = None
        self._begun = False
        self._shut_down = False
        self.admission = Admission(self, queue)
        waiting, told = self.admission.queue, self.feed.told
        told.queue, told.queue_rev, told.paused = waiting.entries, waiting.rev, waiting.paused
        self.questions = Questions(
            self.feed,
            parts.store,
            parts.clock,
            lambda: self.subscribers,
            parts.resolved,
            row.options.unattended,
            self.tell_changed,
            self._measure_question,
            self._tell_question,
        )
        self.client_tools = ClientTools(parts.tools)
        self.client_middleware = ClientMiddlewares(self)

    # --- reading ---

    @property
    def session_id(self) -> str:
        """The id."""
        return self.row.session_id

    @property
    def runner(self) -> Runner | None:
        """The turn that runs."""
        return self.admission.runner

    @property
    def busy(self) -> bool:
        """True while a turn runs."""
        return self.runner is not None

    @property
    def state(self) -> SessionState:
        """idle, running, waiting (for people) or compacting."""
        if self.runner is None:
            return "compacting" if self.compacting else "idle"
        return "waiting" if self.questions.wait_for_people else "running"

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

    def remember(self, message: Message) -> None:
        """The history grew by a message that is on its way to the store."""
        if self._history is not None:  # else it is read when it is needed, with this message in it
            self._history.append(message)

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

    def _measure_question(self, row: RequestOpened, outcome: str) -> None:
        if self.parts.telemetry.wanted:
            waited = seconds_between(row.opened_at, self.parts.clock.now())
            fact = QuestionResolved(kind=row.kind, outcome=outcome, wait_ms=ms(waited))
            self.parts.telemetry.emit(fact, self.session_id, row.turn_id)

    # --- middleware ---

    async def begin(self, points: Passage, run_id: str) -> None:
        """Pass `session_start`, once for a live session, before its first model call. MiddlewareError."""
        if not self._begun:
            self._begun = True
            self.sections = self.parts.sections()
            if points.has("session_start"):
                await points.fold("session_start", SessionPhase(self.session_id, run_id))

    async def shut_down(self, reason: str) -> None:
        """Pass `session_shutdown`, once, when the session leaves memory. MiddlewareError."""
        if not self._shut_down:
            self._shut_down = True
            for task in self.beside:
                task.cancel()
            if self.admission.last is not None:  # observers of its end come first
                await self.admission.last.wait(LAST_WORDS_S)
            if self.middleware.has("session_shutdown"):
                await self.points.fold("session_shutdown", SessionPhase(self.session_id, "", reason))

    @property
    def points(self) -> Passage:
        """The points of the session itself, outside of turns."""
        return Passage(self, lambda: PointContext(session_id=self.session_id, task_id=self.session_id))

    def _tell_question(self, row: RequestOpened, outcome: str) -> None:
        """Tell observers that a person is asked something, or is not any more; what programs answer is no question."""
        if row.kind in OF_CLIENTS:
            return
        call_id = row.tool_call.id if row.tool_call is not None else row.call_id
        place = PointContext(session_id=self.session_id, turn_id=row.turn_id or "", task_id=self.session_id,
                             tool_call_id=call_id or "")  # fmt: skip
        point = "on_human_input_resolved" if outcome else "on_human_input_request"
        Passage(self, lambda: place).tell(
            point, lambda: HumanInput(row.kind, row.request_id, self.parts.redact(prompt_of(row)), outcome)
        )

    # --- the row ---

    async def set_option(self, params: SetOptionParams, by: By) -> SetOptionResult:
        """Change one option for the turns that follow."""

        async def work(receipt: Callable[[SetOptionResult], tuple[Op, ...]]) -> SetOptionResult:
            self.expect_rev(params.expect_rev)
            options = with_option(self.row.options, params.id, params.value)
            expect_policy(options.unattended, self.parts.settings(), "$.value")
            if params.id == "model" and options.model is not None:
                self.parts.models.resolve(options.model)
            if params.id in ("model", "thinking"):
                expect_effort(self.parts.models, options, "$.value")
            row = self.touched(options=options, rev=self.row.rev + 1, model=options.model or "")
            seq = await self._put_row(
                row,
                SessionOption(params.id, params.value, by),
                lambda seq: receipt(SetOptionResult(options, row.rev, seq)),
            )
            self.questions.unattended = options.unattended
            self.questions.audience_changed()
            self.tell_changed()
            return SetOptionResult(options, row.rev, seq)

        return await self.mailbox.once("hermes/session/setOption", params, params.key, SetOptionResult, work)

    async def rename(self, params: RenameParams) -> GetResult:
        """Give the session another title."""

        async def work(receipt: Callable[[GetResult], tuple[Op, ...]]) -> GetResult:
            self.expect_rev(params.expect_rev)
            row = self.touched(title=params.title.strip(), rev=self.row.rev + 1)
            updated = SessionUpdated(self.summary(row))
            await self._put_row(row, updated, lambda seq: receipt(self.describe(row, seq)))
            self.tell_changed()
            return self.describe()

        return await self.mailbox.once("hermes/session/rename", params, params.key, GetResult, work)

    async def archive(self, params: ArchiveParams) -> GetResult:
        """Put the session away or take it out again. It keeps its place in lists and its revision."""

        async def work(receipt: Callable[[GetResult], tuple[Op, ...]]) -> GetResult:
            row = msgspec.structs.replace(self.row, archived=params.archived)
            updated = SessionUpdated(self.summary(row))
            await self._put_row(row, updated, lambda seq: receipt(self.describe(row, seq)))
            self.tell_changed()
            return self.describe()

        return await self.mailbox.once("hermes/session/archive", params, params.key, GetResult, work)

    async def _put_row(self, row: SessionRow, event: EventData, ops: Callable[[int], tuple[Op, ...]]) -> int:
        """Change the row and tell everybody. The caller holds the lock.

        The row is taken before its event is delivered: a snapshot may know more than the events before it, never less.
        """
        before, self.row = self.row, row
        try:
            return await self.feed.commit(
                [Draft(event)], lambda seq: (PutSession(row=row), *ops(seq)), patience=PATIENCE
            )
        except StorageError:
            self.row = before
            raise

    async def add_blob(self, params: BlobCreateParams) -> BlobCreateResult:
        """A piece of a big input; see Uploads.add for the errors."""

        async def work(receipt: Callable[[BlobCreateResult], tuple[Op, ...]]) -> BlobCreateResult:
            return await self.uploads.add(self, params, receipt)

        return await self.mailbox.once("hermes/blob/create", params, params.key, BlobCreateResult, work)

    def expect_blobs(self, blocks: tuple[InputBlock, ...]) -> None:
        """blob_not_found, invalid_params or too_large for blocks that name a blob they cannot have."""
        check_blobs(self.parts.store, self.session_id, blocks)

    def parts_of(self, blocks: tuple[InputBlock, ...]) -> tuple[Part, ...]:
        """The message parts that a model reads for an input."""
        return parts_of(self.parts.store, blocks)

    def add_usage(self, usage: Usage, occupancy_pct: float | None) -> SessionRow:
        """The row after a turn that used so much. The caller holds the lock."""
        full = self.row.occupancy_pct if occupancy_pct is None else occupancy_pct
        self.row = self.touched(usage=self.row.usage + self._owed + usage, occupancy_pct=full)
        self._owed = Usage()
        return self.row

    def owe(self, usage: Usage) -> tuple[Op, ...]:
        """Count what was used beside the turns. The caller need not hold the lock: while somebody does, and may be
        about to put another row, it is counted with the next turn."""
        if self.mailbox.lock.locked():
            self._owed += usage
            return ()
        return (PutSession(row=self.add_usage(usage, None)),)

    def run_beside(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something beside the turns; it is cancelled when the session leaves memory."""
        task = asyncio.create_task(work)
        self.beside.add(task)
        task.add_done_callback(self.beside.discard)

    async def name(self, title: str, instead_of: str) -> None:
        """Take the title that was found for the session, unless somebody named it meanwhile."""
        async with self.mailbox.lock:
            if self.row.title != instead_of or self.admission.closing:
                return
            row = self.touched(title=title)
            await self._put_row(row, SessionUpdated(self.summary(row)), lambda _: ())
        self.tell_changed()

    def touched(self, **fields: Any) -> SessionRow:
        """The row with these fields changed, and the time."""
        return msgspec.structs.replace(self.row, updated_at=self.parts.clock.now(), **fields)

    def expect_rev(self, rev: int | None) -> None:
        """stale_revision unless the session is at this revision (None: at any)."""
        if rev is not None and rev != self.row.rev:
            raise ProtocolError("stale_revision", f"the session is at revision {self.row.rev}", rev=self.row.rev)

    # --- subscribers ---

    def attach(self, subscriber: Subscriber) -> None:
        """Events after `feed.head` go to this subscriber from now on."""
        before = self.subscribers.pop(subscriber.connection_id, None)  # it stays in the audience: no clock stops
        self.feed.listen([sink for sink in self.feed.sinks if sink is not before])
        self.feed.flush_tick()
        self.subscribers[subscriber.connection_id] = subscriber
        self.feed.listen([*self.feed.sinks, subscriber])
        self.questions.audience_changed()
        self.tell_changed()

    def detach(self, connection_id: str) -> None:
        """The connection does not want this session's events any more, or is gone."""
        gone = self.subscribers.pop(connection_id, None)
        self.client_tools.leave(connection_id)
        self.client_middleware.leave(connection_id)
        if gone is not None:
            self.feed.listen([sink for sink in self.feed.sinks if sink is not gone])
            self.questions.audience_changed()
            self.tell_changed()

    def tell_changed(self) -> None:
        """The summary is another one now."""
        self._changed(self)
