"""Questions to people: opened as events, answered by requests, the first valid answer wins (protocol section 8).

Silence is never consent: a question ends by an answer, by a time-out, by the policy of an unattended session or with
its turn. The clock runs only while somebody who can answer is there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import msgspec

from hermes_daemon.core.ports import Clock, StorageError
from hermes_daemon.core.records import CloseRequest, Op, PutRequest, RequestRow
from hermes_daemon.engine.emitted import Draft
from hermes_daemon.engine.feed import Feed
from hermes_daemon.engine.identity import new_id
from hermes_protocol.content import By
from hermes_protocol.errors import ProtocolError
from hermes_protocol.events import (
    Outcome,
    PermissionOption,
    RequestClock,
    RequestOpened,
    RequestResolved,
    RequestSeen,
    ToolCallAsk,
)
from hermes_protocol.methods import Answer

ANSWER_PATIENCE = 2.0
"""Seconds an answer waits for a disk that cannot be written before it is refused."""
ALLOWING: frozenset[str] = frozenset({"allow_once", "allow_session", "allow_always"})


class Resolution(msgspec.Struct, frozen=True):
    """How a question ended. Only an outcome of ALLOWING allows anything."""

    outcome: Outcome
    by: By | None = None
    feedback: str | None = None


class _Open:
    """A question that waits."""

    def __init__(self, row: RequestOpened, timeout_s: float, future: asyncio.Future[Resolution]) -> None:
        self.row = row
        self.remaining = timeout_s
        self.since: float | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.future = future
        self.announced = False
        self.declined: set[str] = set()
        self.seen: set[str] = set()
        self.claimed: Resolution | None = None
        self.abandoned = False


class Questions:
    """The open questions of one session. `audience(kind)` gives the connection ids that may answer."""

    def __init__(self, feed: Feed, clock: Clock, audience: Callable[[str], set[str]], unattended_deny: bool,
                 resolved: Callable[[RequestOpened, Outcome], None] = lambda row, outcome: None) -> None:  # fmt: skip
        self._feed = feed
        self._clock = clock
        self._audience = audience
        self._told_resolved = resolved
        self._open: dict[str, _Open] = {}
        self._resolved: dict[str, Resolution] = {}
        self._tasks: set[asyncio.Task[object]] = set()
        self.unattended_deny = unattended_deny

    @property
    def rows(self) -> tuple[RequestOpened, ...]:
        """Open questions as snapshots show them, with the time that is left."""
        return tuple(self._row(one) for one in self._open.values() if one.claimed is None)

    def knows(self, request_id: str) -> bool:
        """True for a question that is open or was lately resolved here."""
        return request_id in self._open or request_id in self._resolved

    async def permission(
        self,
        *,
        turn_id: str,
        item_id: str,
        call: ToolCallAsk,
        options: tuple[PermissionOption, ...],
        reason: str,
        timeout_s: float,
    ) -> Resolution:
        """Ask whether a call may run, and wait. Cancellation resolves the question as interrupted."""
        row = RequestOpened(
            request_id=new_id("req"),
            session_id=self._feed.session_id,
            kind="permission",
            turn_id=turn_id,
            item_id=item_id,
            tool_call=call,
            options=options,
            reason=reason,
            timeout_ms=int(timeout_s * 1000),
            opened_at=self._clock.now(),
        )
        return await self._ask(row, timeout_s)

    async def _ask(self, row: RequestOpened, timeout_s: float) -> Resolution:
        question = _Open(row, timeout_s, asyncio.get_running_loop().create_future())
        self._open[row.request_id] = question
        opened = [Draft(row, row.turn_id, row.item_id)]
        # Numbered before anything can cancel this: a resolution always comes behind it.
        _, announced = await self._feed.post(opened, [PutRequest(row=RequestRow(request=row))], durable=True)
        try:
            await asyncio.shield(announced)
            question.announced = True
            if self.unattended_deny and not self._audience(row.kind):
                return await self._resolve(question, Resolution("policy"))
            self.audience_changed()
            return await asyncio.shield(question.future)
        except asyncio.CancelledError:
            question.abandoned = True
            if question.claimed is None:
                await self._resolve(question, Resolution("interrupted"))
            raise

    # --- answers ---

    async def answer(
        self, request_id: str, answer: Answer, connection_id: str, by: By, receipt: Callable[[int, str], Sequence[Op]]
    ) -> tuple[int, str]:
        """Take an answer. Gives (seq, outcome). Raises already_resolved, request_not_found, invalid_params.

        Not to be cancelled: a question that is half settled would leave its turn waiting.
        """
        question = self._open.get(request_id)
        if question is None or question.claimed is not None:
            self._raise_gone(request_id, question)
            raise AssertionError
        if answer.decline:
            return await self._decline(question, connection_id)
        resolution = _permission_answer(question.row, answer, by)
        self._claim(question, resolution)
        receipts = lambda seq: receipt(seq, resolution.outcome)  # noqa: E731
        return await self._settle(question, resolution, receipts, ANSWER_PATIENCE), resolution.outcome

    def _raise_gone(self, request_id: str, question: _Open | None) -> None:
        resolution = question.claimed if question else self._resolved.get(request_id)
        if resolution is None:
            raise ProtocolError("request_not_found", f"no request {request_id}")
        who = resolution.by.name or resolution.by.client_id if resolution.by else "the daemon"
        raise ProtocolError(
            "already_resolved",
            f"{who} already answered: {resolution.outcome}",
            outcome=resolution.outcome,
            by=msgspec.to_builtins(resolution.by) if resolution.by else None,
        )

    async def _decline(self, question: _Open, connection_id: str) -> tuple[int, str]:
        question.declined.add(connection_id)
        if self._audience(question.row.kind) - question.declined:
            self.audience_changed()
            return self._feed.head, "declined"
        await self._resolve(question, Resolution("policy"))
        return self._feed.head, "policy"

    def seen(self, request_id: str, by: By) -> None:
        """A client shows the question to somebody. Saying so again is no news."""
        question = self._open.get(request_id)
        if question is not None and by.client_id not in question.seen:
            question.seen.add(by.client_id)
            self._background(self._feed.commit([Draft(RequestSeen(request_id, by))], durable=False))

    def audience_changed(self) -> None:
        """Start, stop or end clocks after somebody came, left or declined."""
        for question in list(self._open.values()):
            if question.claimed is not None or not question.announced:
                continue
            there = self._audience(question.row.kind) - question.declined
            if there and question.since is None:
                self._start_clock(question)
            elif not there and question.since is not None:
                self._stop_clock(question)
            if not there and self.unattended_deny:
                self._background(self._resolve(question, Resolution("policy")))

    # --- ending ---

    async def _resolve(self, question: _Open, resolution: Resolution) -> Resolution:
        self._claim(question, resolution)
        await self._settle(question, resolution, lambda _: (), None)
        return resolution

    def _claim(self, question: _Open, resolution: Resolution) -> None:
        """Compare and set: the first to come here wins."""
        if question.claimed is not None:
            self._raise_gone(question.row.request_id, question)
        question.claimed = resolution
        self._stop_timer(question)

    async def _settle(self, question: _Open, resolution: Resolution, ops: Callable[[int], Sequence[Op]],
                      patience: float | None) -> int:  # fmt: skip
        """Commit the event, then let go who waits. When it cannot be written the question is open again."""
        row = question.row
        data = RequestResolved(
            row.request_id, resolution.outcome, resolution.by, self._clock.now(), resolution.feedback
        )
        try:
            seq = await self._feed.commit(
                [Draft(data, row.turn_id, row.item_id)],
                lambda seq: [CloseRequest(request_id=row.request_id), *ops(seq)],
                patience=patience,
            )
        except StorageError:
            question.claimed = None
            if question.abandoned:
                self._background(self._resolve(question, Resolution("interrupted")))
            self.audience_changed()
            raise
        self._open.pop(row.request_id, None)
        self._told_resolved(row, resolution.outcome)
        self._resolved[row.request_id] = resolution
        if len(self._resolved) > 1000:
            self._resolved.pop(next(iter(self._resolved)))
        if not question.future.done():
            question.future.set_result(resolution)
        return seq

    # --- the clock ---

    def _start_clock(self, question: _Open) -> None:
        question.since = self._clock.monotonic()
        if question.remaining > 0:
            loop = asyncio.get_running_loop()
            question.timer = loop.call_later(question.remaining, self._expire, question)
        self._tell_clock(question, running=True)

    def _stop_clock(self, question: _Open) -> None:
        self._stop_timer(question)
        self._tell_clock(question, running=False)

    def _stop_timer(self, question: _Open) -> None:
        if question.timer is not None:
            question.timer.cancel()
            question.timer = None
        if question.since is not None:
            question.remaining = max(0.0, question.remaining - (self._clock.monotonic() - question.since))
            question.since = None

    def _expire(self, question: _Open) -> None:
        if question.claimed is None:
            self._background(self._resolve(question, Resolution("timeout")))

    def _tell_clock(self, question: _Open, *, running: bool) -> None:
        row = question.row
        data = RequestClock(row.request_id, running, int(question.remaining * 1000))
        self._background(self._feed.commit([Draft(data, row.turn_id, row.item_id)], durable=False))

    def _row(self, question: _Open) -> RequestOpened:
        left = question.remaining
        if question.since is not None:
            left = max(0.0, left - (self._clock.monotonic() - question.since))
        return msgspec.structs.replace(question.row, remaining_ms=int(left * 1000), running=question.since is not None)

    def _background(self, work: Coroutine[Any, Any, object]) -> None:
        task: asyncio.Task[object] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(_no_news)


def _no_news(task: asyncio.Task[object]) -> None:
    """A background resolution that lost the race is no news; only read its exception."""
    if not task.cancelled():
        task.exception()


def _permission_answer(row: RequestOpened, answer: Answer, by: By) -> Resolution:
    for option in row.options:
        if option.id == answer.option_id:
            return Resolution(option.kind, by, answer.feedback)
    known = ", ".join(option.id for option in row.options)
    raise ProtocolError(
        "invalid_params",
        f"$.answer.optionId: expected one of {known}, got {answer.option_id!r}",
        path="$.answer.optionId",
    )
