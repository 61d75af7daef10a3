"""The way of one piece of work through the middleware points: where it is, what was changed, what failed.

Nobody registered: no payload is made, and the caller's own object comes back. So payloads are given as functions.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec

from hermes_daemon.core.ports import StorageError
from hermes_daemon.core.telemetry import DirectiveSettled, ExtensionFailed, MiddlewareStep, MiddlewareTrace
from hermes_daemon.engine.emitted import Draft
from hermes_daemon.engine.meter import Meter
from hermes_daemon.middleware import keywords
from hermes_daemon.middleware.directives import Decision
from hermes_daemon.middleware.payloads import PointContext
from hermes_daemon.middleware.registry import Link
from hermes_daemon.middleware.styles import Report, Step, Steps, around, decide, observe, transform
from hermes_protocol.events import Notice

if TYPE_CHECKING:
    from hermes_daemon.engine.session import Session

T = TypeVar("T")
TRACED = ("committed", "short_circuited")


class Corrected(msgspec.Struct, frozen=True):
    """What a check gives for a value that it keeps only in part, and why."""

    value: Any
    reason: str


class Passage:
    """The points of one session's turn, model call or tool call. `place` says where that is; `meter` takes the time
    that middleware needs. `original` is what later links are told the payload was before the first change."""

    def __init__(self, session: Session, place: Callable[[], PointContext], meter: Meter | None = None,
                 announce: Callable[[], bool] = bool) -> None:  # fmt: skip
        self._session = session
        self._place = place
        self._meter = meter
        self._announce = announce
        self._fresh: list[str] = []
        self.trace: tuple[dict[str, str], ...] = ()
        self.original: Any = None

    def has(self, point: str) -> bool:
        """True when somebody registered: the payload is worth making."""
        return self._session.middleware.has(point)

    def context(self) -> PointContext:
        """Where the work is, as links are told."""
        place = self._place()
        if not self.trace and self.original is None:
            return place
        return msgspec.structs.replace(place, middleware_trace=self.trace, original=self.original)

    # --- the four styles ---

    async def fold(self, point: str, value: T, check: Callable[[T, T], T | Corrected] | None = None) -> T:
        """Pass a transform point. `check(before, after)` corrects or refuses (by raising) what a link made."""
        links = self._session.middleware.snapshot(point)
        if not links:
            return value
        steps: Steps = []
        context = self.context()
        noted: dict[int, str] = {}

        def checked(before: T, after: T) -> T:
            assert check is not None
            kept = check(before, after)
            if isinstance(kept, Corrected):
                noted[len(steps)] = kept.reason
                return cast(T, kept.value)
            return kept

        try:
            with self._timed():
                return await transform(
                    links, value, context, self._report(value, context), steps, checked if check else None
                )
        finally:
            for index, reason in noted.items():
                steps[index] = msgspec.structs.replace(steps[index], reason=reason)
            self._took(steps)
            await self._tell()

    async def around(self, point: str, payload: T, call: Callable[[T], Awaitable[Any]]) -> Any:
        """Run `call` inside the links of an around point. Its time is for the caller to measure."""
        links = self._session.middleware.snapshot(point)
        if not links:
            return await call(payload)
        steps: Steps = []
        context = self.context()
        try:
            return await around(links, payload, context, call, self._report(payload, context), steps)
        finally:
            self._took(list(reversed(steps)))  # the innermost is done first, the trace is in the order of the links
            await self._tell()

    async def decide(self, point: str, make: Callable[[], Any]) -> Decision | None:
        """Ask every link of a decide point; what became of their wishes goes to telemetry."""
        links = self._session.middleware.snapshot(point)
        if not links:
            return None
        payload, context = make(), self.context()
        with self._timed():
            decision = await decide(links, payload, context, self._report(payload, context))
        telemetry = self._session.parts.telemetry
        if decision is not None and telemetry.wanted:
            for receipt in decision.receipts:
                fact = DirectiveSettled(point, receipt.owner, receipt.directive_id, receipt.action, receipt.delivered)
                telemetry.emit(fact, context.session_id, context.turn_id or None)
        await self._tell()
        return decision

    async def observe(self, point: str, make: Callable[[], Any]) -> None:
        """Tell every link of an observe point, and wait for them within their time."""
        links = self._session.middleware.snapshot(point)
        if links:
            payload, context = make(), self.context()
            with self._timed():
                await observe(links, payload, context, self._report(payload, context))
            await self._tell()

    def tell(self, point: str, make: Callable[[], Any]) -> None:
        """Tell every link of an observe point in its own time: nothing waits for them."""
        links = self._session.middleware.snapshot(point)
        if links:
            payload, context = make(), self.context()
            self._session.parts.queues.tell(links, payload, context, self._report(payload, context))

    def teller(self, point: str, sample: Any) -> Callable[[Any], None] | None:
        """`tell` for many payloads like `sample` in a row; None when nobody registered."""
        links = self._session.middleware.snapshot(point)
        if not links:
            return None
        context = self.context()
        return self._session.parts.queues.teller(links, context, self._report(sample, context))

    # --- what is told of it ---

    def _timed(self) -> contextlib.AbstractContextManager[object]:
        return self._meter.during("middleware") if self._meter is not None else contextlib.nullcontext()

    def _took(self, steps: Steps) -> None:
        self.trace += tuple(step.told() for step in steps if step.outcome in TRACED)
        telemetry = self._session.parts.telemetry
        if telemetry.wanted:
            place = self._place()
            for step in steps:
                telemetry.emit(_step(step), place.session_id, place.turn_id or None)
                telemetry.emit(_trace(step), place.session_id, place.turn_id or None)

    def _report(self, payload: Any, context: PointContext) -> Report:
        parts = self._session.parts

        def report(link: Link, error: BaseException) -> None:
            fields = keywords.given_names(link.point, link.shape, payload, context)
            where = f"turn {context.turn_id}: " if context.turn_id else f"session {context.session_id}: "
            first = parts.faults.report(link, error, where, fields)
            text = parts.redact(f"{type(error).__name__}: {error}")
            if first:
                self._fresh.append(f"{link.owner} failed at {link.point}: {text}")
            if parts.telemetry.wanted:
                fact = ExtensionFailed(f"middleware:{link.point}", link.owner, text)
                parts.telemetry.emit(fact, context.session_id, context.turn_id or None)

        return report

    async def _tell(self) -> None:
        """Say to people what failed for the first time. Not on a disk that is full: the log has it."""
        fresh, self._fresh = self._fresh, []
        if fresh and self._announce():
            drafts = [Draft(Notice("warning", text, "extension_error"), self._place().turn_id) for text in fresh]
            with contextlib.suppress(StorageError):
                await self._session.feed.post(drafts)


def _step(step: Step) -> MiddlewareStep:
    return MiddlewareStep(step.point, step.owner, step.index, step.outcome, round(step.ms, 3))


def _trace(step: Step) -> MiddlewareTrace:
    return MiddlewareTrace(step.point, step.owner, step.index, step.outcome, round(step.ms, 3), step.source,
                           step.reason, step.error)  # fmt: skip
