"""Questions to people: opened as events, answered by requests, the first valid answer wins (protocol section 8).

Silence is never consent: a question ends by an answer, by a time-out, by the policy of an unattended session or with
its turn. The clock begins when somebody who can answer has the question before him, and runs only while somebody is
there: a client that tells what it shows starts it by hermes/request/seen, any other by having been sent the question.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

from hermes_daemon.core.ports import Clock, StorageError, Store
from hermes_daemon.core.records import CloseRequest, Op, PutRequest, RequestRow
from hermes_daemon.engine.answers import Resolution, clarified, resolution_of
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


class Watcher(Protocol):
    """Somebody who follows the session."""

    @property
    def can_answer(self) -> frozenset[str]:
        """The kinds of questions it may answer: none for observers."""
        ...

    @property
    def tells_seen(self) -> bool:
        """True for a client that says when a question is on a screen."""
        ...

    def when_sent(self, then: Callable[[], None]) -> None:
        """Call `then` when what it was told so far has left for its socket."""
        ...


def denied_by_policy(_: str) -> Resolution:
    """What every policy but `wait` says, unless a named rule knows better."""
    return Resolution("policy")


class Questions:
    """The open questions of one session. `watchers` gives those who follow it, by connection id; `unattended` is the
    policy for when none of them can answer: wait, or what a question's `policy` is asked by name. `changed` is called
    when there is one more or less."""

    def __init__(self, feed: Feed, store: Store, clock: Clock, watchers: Callable[[], Mapping[str, Watcher]],
                 resolved: Resolved, unattended: str, changed: Callable[[], None]) -> None:  # fmt: skip
        self._feed = feed
        self._store = store
        self._clock = clock
        self._watchers = watchers
        self._resolved = resolved
        self._changed = changed
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
        """True while a person is asked something; a tool of a client is no person."""
        return any(one.claimed is None and one.row.kind != "clientTool" for one in self._open.values())

    def is_open(self, request_id: str) -> bool:
        """True for a question of this session that waits."""
        return request_id in self._open

    async def ask(
        self,
        kind: RequestKind,
        *,
        turn_id: str,
        item_id: str,
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
            raise ProtocolError("permission_denied", f"only the connection {owner}, whose tool it is, may answer")
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
        if not self._there(question):
            return await self._answered(question, self._all_declined(question, by), receipt)
        result = AnswerResult("accepted", self._feed.head, "declined")
        self._consider(question)
        ops = receipt(result)
        if ops:
            await self._store.write(*ops, patience=ANSWER_PATIENCE)
        return result

    def _all_declined(self, question: OpenQuestion, by: By | None = None) -> Resolution:
        """A client's own tool was declined by the only one who could run it; else it is as if nobody was there."""
        return Resolution("declined", by) if question.row.kind == "clientTool" else Resolution("policy")

    def _raise_gone(self, request_id: str, question: OpenQuestion | None) -> None:
        if question is not None and question.claimed is not None:
            raise already(question.claimed.outcome, question.claimed.by)
        raise self._resolved.gone(request_id)

    # --- who is there ---

    def _audience(self, question: OpenQuestion) -> dict[str, Watcher]:
        row = question.row
        watchers = self._watchers()
        if row.connection_id is not None:
            return {name: watcher for name, watcher in watchers.items() if name == row.connection_id}
        return {name: watcher for name, watcher in watchers.items() if row.kind in watcher.can_answer}

    def _there(self, question: OpenQuestion) -> dict[str, Watcher]:
        audience = self._audience(question)
        return {name: watcher for name, watcher in audience.items() if name not in question.declined}

    def seen(self, request_id: str, connection_id: str, by: By) -> None:
        """A client shows the question to somebody. Saying so again is no news."""
        question = self._open.get(request_id)
        if question is None or question.claimed is not None:
            return
        if by.client_id not in question.seen:
            question.seen.add(by.client_id)
            row = question.row
            self._background(self._tell(Draft(RequestSeen(request_id, by), row.turn_id, row.item_id)))
        if connection_id in self._there(question):
            question.started = True
            self._consider(question)

    def _sent(self, question: OpenQuestion, connection_id: str) -> None:
        """The question reached the socket of a client that does not tell what it shows."""
        question.sent_to.discard(connection_id)
        if question.claimed is None and connection_id in self._there(question):
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
        audience, there = self._audience(question), self._there(question)
        if there and not question.started:
            self._await_sight(question, there)
        elif there and not question.running:
            question.start_clock()
            self._tell_clock(question)
        elif not there and question.running:
            question.stop_clock()
            self._tell_clock(question)
        if audience and not there:
            self._background(self._resolve(question, self._all_declined(question)))
        elif not audience and question.row.kind == "clientTool":
            self._background(self._resolve(question, Resolution("lost")))
        elif not audience and self.unattended != "wait":
            self._background(self._resolve(question, question.policy(self.unattended)))

    def _await_sight(self, question: OpenQuestion, there: Mapping[str, Watcher]) -> None:
        shown = question.row.kind != "clientTool"  # a tool runs, nobody looks at it
        for name, watcher in there.items():
            if name not in question.sent_to and not (shown and watcher.tells_seen):
                question.sent_to.add(name)
                watcher.when_sent(lambda name=name: self._sent(question, name))  # type: ignore[misc]

    def _tell_clock(self, question: OpenQuestion) -> None:
        row = question.row
        data = RequestClock(row.request_id, question.running, question.remaining_ms)
        self._background(self._tell(Draft(data, row.turn_id, row.item_id)))

    async def _tell(self, draft: Draft) -> None:
        await self._feed.commit([draft], durable=False)

    # --- ending ---

    def _expire(self, request_id: str) -> None:
        question = self._open.get(request_id)
        if question is not None and question.claimed is None:
            self._background(self._resolve(question, Resolution("timeout")))

    async def _resolve(self, question: OpenQuestion, resolution: Resolution) -> None:
        """End it without an answer. What was answered of a clarify is kept."""
        row, before = question.row, list[Draft]()
        if question.claimed is None and resolution.outcome == "timeout":
            for one in [one for one in question.statuses.values() if one.status == "open"]:
                question.statuses[one.id] = QuestionStatus(one.id, "timed_out")
                before.append(Draft(RequestAnswered(row.request_id, one.id, "timed_out"), row.turn_id, row.item_id))
        resolution = msgspec.structs.replace(resolution, answers=tuple(question.statuses.values()))
        self._claim(question, resolution)
        await self._settle(question, resolution, lambda _: (), None, before)

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
