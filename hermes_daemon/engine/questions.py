"""Questions to people: opened as events, answered by requests, the first valid answer wins (protocol section 8).

Silence is never consent: a question ends by an answer, by a time-out, by the policy of an unattended session or with
its turn. The clock begins when somebody who can answer has the question before him, and runs only while somebody is
there: a client that tells what it shows starts it by hermes/request/seen, any other by having been sent the question.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from hermes_daemon.core.ports import Clock, StorageError, Store
from hermes_daemon.core.records import CloseRequest, Op, PutRequest, RequestRow
from hermes_daemon.engine.answers import OF_CLIENTS, Resolution, clarified, resolution_of
from hermes_daemon.engine.attendance import Attendance, Watcher, all_declined
from hermes_daemon.engine.emitted import Draft
from hermes_daemon.engine.feed import Feed
from hermes_daemon.engine.identity import new_id
from hermes_daemon.engine.open_question import OpenQuestion
from hermes_daemon.engine.resolved import Ending, Resolved, already
from hermes_protocol.content import By
from hermes_protocol.errors import ProtocolError
from hermes_protocol.events import (
    QuestionStatus,
    RequestAnswered,
    RequestClock,
    RequestKind,
    RequestOpened,
    RequestResolved,
    RequestSeen,
)
from hermes_protocol.methods import Answer, AnswerResult

ANSWER_PATIENCE: Final = 2.0
"""Seconds an answer waits for a disk that cannot be written before it is refused."""
Receipt = Callable[[AnswerResult], Sequence[Op]]


def denied_by_policy(_: str) -> Resolution:
    """What every policy but `wait` says, unless a named rule knows better."""
    return Resolution("policy")


class Questions:
    """The open questions of one session. `watchers` gives those who follow it, by connection id; `unattended` is the
    policy for when none of them can answer: wait, or what a question's `policy` is asked by name. `changed` is called
    when there is one more or less, `measured` with the outcome when one has ended, `watched` when one was opened (with
    no outcome) and when it has ended."""

    def __init__(self, feed: Feed, store: Store, clock: Clock, watchers: Callable[[], Mapping[str, Watcher]],
                 resolved: Resolved, unattended: str, changed: Callable[[], None],
                 measured: Callable[[RequestOpened, str], None] = lambda row, outcome: None,
                 watched: Callable[[RequestOpened, str], None] = lambda row, outcome: None) -> None:  # fmt: skip
        self._feed = feed
        self._store = store
        self._clock = clock
        self._attendance = Attendance(watchers)
        self._resolved = resolved
        self._changed = changed
        self._measured = measured
        self._watched = watched
        self._open: dict[str, OpenQuestion] = {}
        self._tasks: set[asyncio.Task[object]] = set()
        self.unattended = unattended

    @property
    def rows(self) -> tuple[RequestOpened, ...]:
        """Open questions as snapshots show them, with the time that is left."""
        told = self._feed.told.requests
        open_ones = [question for question in self._open.values() if question.claimed is None]
        return tuple(question.clocked(told.get(question.row.request_id, question.row)) for question in open_ones)

    def clocked(self, told: Iterable[RequestOpened]) -> tuple[RequestOpened, ...]:
        """These rows with the clocks of now, where they still wait."""
        waiting = {name: one for name, one in self._open.items() if one.claimed is None}
        return tuple(waiting[row.request_id].clocked(row) if row.request_id in waiting else row for row in told)

    @property
    def wait_for_people(self) -> bool:
        """True while a person is asked something; what a client runs is no person."""
        return any(one.claimed is None and one.row.kind not in OF_CLIENTS for one in self._open.values())

    def is_open(self, request_id: str) -> bool:
        """True for a question of this session that waits."""
        return request_id in self._open

    async def ask(
        self,
        kind: RequestKind,
        *,
        turn_id: str | None,
        item_id: str | None,
        timeout_s: float,
        policy: Callable[[str], Resolution] = denied_by_policy,
        **fields: Any,
    ) -> Resolution:
        """Ask, and wait. `fields` are those of RequestOpened for this kind. Cancellation resolves as interrupted."""
        row = RequestOpened(
            request_id=new_id("req"),
            session_id=self._feed.session_id,
            kind=kind,
            turn_id=turn_id,
            item_id=item_id,
            timeout_ms=int(timeout_s * 1000),
            opened_at=self._clock.now(),
            **fields,
        )
        question = OpenQuestion(row, timeout_s, policy, lambda: self._expire(row.request_id), self._clock)
        self._open[row.request_id] = question
        opened = [Draft(row, row.turn_id, row.item_id)]
        # Numbered before anything can cancel this: a resolution always comes behind it.
        _, announced = await self._feed.post(opened, [PutRequest(row=RequestRow(request=row))], durable=True)
        try:
            await asyncio.shield(announced)
            question.announced = True
            self._changed()
            self._watched(row, "")
            self._consider(question)
            return await asyncio.shield(question.future)
        except asyncio.CancelledError:
            question.abandoned = True
            if question.claimed is None:
                await self._resolve(question, Resolution("interrupted"))
            raise

    # --- answers ---

    async def answer(
        self, request_id: str, answer: Answer, connection_id: str, by: By, receipt: Receipt
    ) -> AnswerResult:
        """Take an answer. Raises already_resolved, request_not_found, permission_denied, invalid_params.

        Not to be cancelled: a question that is half settled would leave its turn waiting.
        """
        question = self._open.get(request_id)
        if question is None or question.claimed is not None:
            self._raise_gone(request_id, question)
            raise AssertionError
        owner = question.row.connection_id
        if owner not in (None, connection_id):
            raise ProtocolError("permission_denied", f"only the connection {owner}, which it is for, may answer")
        if answer.decline:
            return await self._decline(question, connection_id, by, receipt)
        if question.row.kind == "clarify":
            return await self._clarify(question, answer, by, receipt)
        resolution = resolution_of(question.row, answer, by)
        return await self._answered(question, resolution, receipt)

    async def _answered(
        self, question: OpenQuestion, resolution: Resolution, receipt: Receipt, late: tuple[str, ...] = (),
        before: Sequence[Draft] = (),
    ) -> AnswerResult:  # fmt: skip
        """End the question by an answer, with its receipt."""

        def result(seq: int) -> AnswerResult:
            return AnswerResult("accepted", seq, resolution.outcome, late)

        self._claim(question, resolution)
        ops = lambda seq: receipt(result(seq))  # noqa: E731
        return result(await self._settle(question, resolution, ops, ANSWER_PATIENCE, before))

    async def _clarify(self, question: OpenQuestion, answer: Answer, by: By, receipt: Receipt) -> AnswerResult:
        """Take the answers to some of the questions; the request is over with the last."""
        row = question.row
        fresh, late = clarified(row, question.statuses, answer, by)
        if not fresh:
            raise already("answered", question.statuses[late[0]].by)
        answered = [
            Draft(RequestAnswered(row.request_id, one.id, _told(one), by, one.answer), row.turn_id, row.item_id)
            for one in fresh.values()
        ]
        before, question.statuses = question.statuses, question.statuses | fresh
        try:
            if all(one.status != "open" for one in question.statuses.values()):
                whole = Resolution("answered", by, answers=tuple(question.statuses.values()))
                return await self._answered(question, whole, receipt, late, answered)
            return await self._partly(answered, late, receipt)
        except StorageError:
            question.statuses = before
            raise

    async def _partly(self, answered: Sequence[Draft], late: tuple[str, ...], receipt: Receipt) -> AnswerResult:
        def result(seq: int) -> AnswerResult:
            return AnswerResult("accepted", seq, "open", late)

        seq = await self._feed.commit(answered, lambda seq: receipt(result(seq)), patience=ANSWER_PATIENCE)
        return result(seq)

    async def _decline(self, question: OpenQuestion, connection_id: str, by: By, receipt: Receipt) -> AnswerResult:
        question.declined.add(connection_id)
        if not self._attendance.there(question):
            return await self._answered(question, all_declined(question, by), receipt)
        result = AnswerResult("accepted", self._feed.head, "declined")
        self._consider(question)
        ops = receipt(result)
        if ops:
            await self._store.write(*ops, patience=ANSWER_PATIENCE)
        return result

    def _raise_gone(self, request_id: str, question: OpenQuestion | None) -> None:
        if question is not None and question.claimed is not None:
            raise already(question.claimed.outcome, question.claimed.by)
        raise self._resolved.gone(request_id)

    # --- who is there ---

    def seen(self, request_id: str, connection_id: str, by: By) -> None:
        """A client shows the question to somebody. Saying so again is no news."""
        question = self._open.get(request_id)
        if question is None or question.claimed is not None:
            return
        if by.client_id not in question.seen:
            question.seen.add(by.client_id)
            row = question.row
            self._background(self._tell(Draft(RequestSeen(request_id, by), row.turn_id, row.item_id)))
        if connection_id in self._attendance.there(question):
            question.started = True
            self._consider(question)

    def audience_changed(self) -> None:
        """Start, stop or end clocks after somebody came or left."""
        for question in list(self._open.values()):
            self._consider(question)

    def _consider(self, question: OpenQuestion) -> None:
        """Bring clock and policy in line with who is there now."""
        if question.claimed is not None or not question.announced:
            return
        if self._attendance.set_clock(question, lambda: self._consider(question)):
            row = question.row
            data = RequestClock(row.request_id, question.running, question.remaining_ms)
            self._background(self._tell(Draft(data, row.turn_id, row.item_id)))
        end = self._attendance.end(question, self.unattended)
        if end is not None:
            self._background(self._resolve(question, end))

    async def _tell(self, draft: Draft) -> None:
        await self._feed.commit([draft], durable=False)

    # --- ending ---

    def _expire(self, request_id: str) -> None:
        question = self._open.get(request_id)
        if question is not None and question.claimed is None:
            self._background(self._resolve(question, Resolution("timeout")))

    async def _resolve(self, question: OpenQuestion, resolution: Resolution) -> None:
        """End it without an answer. What was answered of a clarify is kept."""
        row, before, kept = question.row, list[Draft](), question.statuses
        if question.claimed is None and resolution.outcome == "timeout":
            for one in [one for one in question.statuses.values() if one.status == "open"]:
                question.statuses = question.statuses | {one.id: QuestionStatus(one.id, "timed_out")}
                before.append(Draft(RequestAnswered(row.request_id, one.id, "timed_out"), row.turn_id, row.item_id))
        resolution = msgspec.structs.replace(resolution, answers=tuple(question.statuses.values()))
        self._claim(question, resolution)
        try:
            await self._settle(question, resolution, lambda _: (), None, before)
        except StorageError:
            question.statuses = kept
            raise

    def _claim(self, question: OpenQuestion, resolution: Resolution) -> None:
        """Compare and set: the first to come here wins."""
        if question.claimed is not None:
            self._raise_gone(question.row.request_id, question)
        question.claimed = resolution
        question.stop_clock()

    async def _settle(self, question: OpenQuestion, resolution: Resolution, ops: Callable[[int], Sequence[Op]],
                      patience: float | None, before: Sequence[Draft] = ()) -> int:  # fmt: skip
        """Commit the event, then let go who waits. When it cannot be written the question is open again."""
        row = question.row
        provided = "provided" if resolution.value is not None else None
        data = RequestResolved(
            row.request_id, resolution.outcome, resolution.by, self._clock.now(), resolution.feedback, provided
        )
        try:
            seq = await self._feed.commit(
                [*before, Draft(data, row.turn_id, row.item_id)],
                lambda seq: [CloseRequest(request_id=row.request_id), *ops(seq)],
                patience=patience,
            )
        except StorageError:
            question.claimed = None
            if question.abandoned:
                self._background(self._resolve(question, Resolution("interrupted")))
            self._consider(question)
            raise
        self._resolved.add(row.request_id, Ending(row.session_id, resolution.outcome, resolution.by))
        self._open.pop(row.request_id, None)
        self._measured(row, resolution.outcome)
        self._watched(row, resolution.outcome)
        if not question.future.done():
            question.future.set_result(resolution)
        self._changed()
        return seq

    def _background(self, work: Coroutine[Any, Any, object]) -> None:
        task: asyncio.Task[object] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(_no_news)


def _told(status: QuestionStatus) -> Any:
    return status.status


def _no_news(task: asyncio.Task[object]) -> None:
    """A background resolution that lost the race is no news; only read its exception."""
    if not task.cancelled():
        task.exception()
