"""The four styles: transform (a fold), around (an onion), decide (all are asked, the strictest wins), observe.

A link's failure is reported through `report` and, unless its `on_error` says otherwise, the work goes on with the
last good value. With nobody registered each function costs one truth test and gives back the caller's own object.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec

from hermes_daemon.middleware.adapters import Fold, NextCalledTwice
from hermes_daemon.middleware.directives import Decision, Directive, settled
from hermes_daemon.middleware.registry import Link
from hermes_daemon.middleware.structural_copy import copied

log = logging.getLogger(__name__)
T = TypeVar("T")
Report: TypeAlias = Callable[[Link, BaseException], object]
Outcome: TypeAlias = Literal["unchanged", "committed", "short_circuited", "failed", "skipped", "conflicted"]
SUPPRESSED_S = 60.0
MOST_ABANDONED = 3


class ExecutionBlocked(Exception):
    """The typed veto of an around link: it stops the call instead of being skipped as a failure."""


class MiddlewareError(Exception):
    """A link with on_error "throw" failed; the cause is chained."""


class Suppressed(Exception):
    """The link is left out: it lately ran out of time, or calls of it still hang."""


class Conflict(Exception):
    """A link committed one value by `next` and returned another: the committed one stands."""


class ForgottenReturn(Exception):
    """An around link called `next` and returned nothing: the result of `next` stands."""


class Step(msgspec.Struct, frozen=True):
    """What one link did in one run. `index` counts the links of the run from 0, `ms` is its time."""

    point: str
    owner: str
    index: int
    outcome: Outcome
    ms: float
    source: str = ""
    reason: str = ""
    error: str = ""

    def told(self) -> dict[str, str]:
        """The entry as later hooks get it in `middleware_trace`: who and why."""
        named = {"source": self.source, "reason": self.reason}
        return {key: value for key, value in named.items() if value} or {"source": "plugin"}


Steps: TypeAlias = list[Step]


async def transform(
    links: tuple[Link, ...],
    value: T,
    context: Any,
    report: Report,
    steps: Steps | None = None,
    check: Callable[[T, T], T] | None = None,
) -> T:
    """Fold `value` through the links. Each gets its own copy of what its predecessors made of it; None means
    unchanged. What a link gives must be of the same type, and pass `check(before, after)`, which may correct it or
    raise."""
    if not links:
        return value
    original = value
    for index, link in enumerate(links):
        if link.wants is not None and not link.wants(value):
            continue
        fold = Fold(link.point, index, original)
        began = time.perf_counter()
        failure: Exception | None = None
        returned = None
        try:
            returned = await _bounded(link, copied(value), fold, context)
        except Exception as error:  # a plugin's callback: its failure must not be the turn's
            failure = error
        value, outcome, failure = _taken(value, fold, returned, failure, check)
        if failure is not None:
            _tell(report, link, failure)
        if steps is not None:
            steps.append(_step(link, index, outcome, began, fold, failure))
        if outcome == "failed" and link.on_error != "event" and failure is not None:
            raise _thrown(link, index, failure)
    return value


def _taken(
    value: T, fold: Fold, returned: Any, failure: Exception | None, check: Callable[[T, T], T] | None
) -> tuple[T, Outcome, Exception | None]:
    """The chain's value after a link, what became of it, and what there is to report."""
    outcome: Outcome = "unchanged"
    wanted = returned
    if fold.value is not msgspec.UNSET:
        wanted = fold.value
        if failure is None and returned is not None and returned is not wanted and returned != wanted:
            outcome, failure = "conflicted", Conflict("it called next with one value and returned another")
    if failure is not None and outcome != "conflicted":
        outcome = "failed"
    if wanted is None or wanted is msgspec.UNSET:
        return value, outcome, failure
    if isinstance(value, tuple) and isinstance(wanted, list):
        wanted = tuple(wanted)
    try:
        if not isinstance(wanted, type(value)):
            raise TypeError(f"expected {type(value).__name__}, got {type(wanted).__name__}")
        after = wanted if check is None else check(value, wanted)
    except Exception as error:
        return value, "failed", error
    return after, "committed" if outcome == "unchanged" else outcome, failure


async def around(
    links: tuple[Link, ...],
    payload: T,
    context: Any,
    call: Callable[[T], Awaitable[Any]],
    report: Report,
    steps: Steps | None = None,
    index: int = 0,
) -> Any:
    """Run `call` inside the links, outermost first. Each gets (payload, next, context); `next` works once.

    A link that fails before `next` is skipped; one that fails after a successful `next` keeps its result; a failure
    of the call itself passes through as the object it is, or as what the link makes of it, and never becomes None;
    ExecutionBlocked stops everything.
    """
    if index == len(links):
        return await call(payload)
    link = links[index]
    if link.wants is not None and not link.wants(payload):
        return await around(links, payload, context, call, report, steps, index + 1)
    inner = _Inner(
        lambda changed: around(links, changed, context, call, report, steps, index + 1), payload, link, index
    )
    began = time.perf_counter()
    failure: Exception | None = None
    value: Any = None
    outcome: Outcome = "committed"
    try:
        value = await _bounded(link, copied(payload), inner.next, context)
    except ExecutionBlocked as veto:
        _note(steps, link, index, "short_circuited", began, veto)
        raise
    except Exception as error:  # see above
        failure = error
    finally:
        inner.closed = True
    if inner.error is not None:  # what is below failed: that error, or what the link made of it
        if failure is None and value is not None:
            _note(steps, link, index, "committed", began)
            return value
        if failure is not None and failure is not inner.error:
            _tell(report, link, failure)
            _note(steps, link, index, "failed", began, failure)
            raise failure
        _note(steps, link, index, "unchanged", began)
        raise inner.error
    if inner.done:
        if failure is None and value is None and inner.value is not None:
            failure = ForgottenReturn("it called next and returned nothing")
        if failure is not None:
            _tell(report, link, failure)
            value, outcome = inner.value, "failed"
        _note(steps, link, index, outcome, began, failure)
        return value
    if failure is None and value is not None:
        _note(steps, link, index, "short_circuited", began)
        return value
    failure = failure or TypeError("it neither called next nor returned a result")
    _tell(report, link, failure)
    _note(steps, link, index, "failed", began, failure)
    if link.on_error != "event":
        raise _thrown(link, index, failure)
    return await around(links, payload, context, call, report, steps, index + 1)


class _Inner:
    """What lies below a link, to be called once."""

    def __init__(self, call: Callable[[Any], Awaitable[Any]], payload: Any, link: Link, index: int) -> None:
        self._call = call
        self._payload = payload
        self._where = f"{link.owner} at {link.point}[{index}]"
        self._begun = False
        self.closed = self.done = False
        self.value: Any = None
        self.error: Exception | None = None

    async def next(self, *changed: Any) -> Any:
        """Go on, with `changed` where something is given."""
        if self.closed:
            raise RuntimeError(f"{self._where} called next after it was over")
        if self._begun:
            raise NextCalledTwice(f"next was called twice by {self._where}; it works once")
        self._begun = True
        payload = changed[0] if changed and changed[0] is not None else self._payload
        try:
            self.value = await self._call(payload)
        except Exception as error:
            self.error = error
            raise
        self.done = True
        return self.value


async def decide(links: tuple[Link, ...], payload: Any, context: Any, report: Report) -> Decision | None:
    """Ask every link; the strictest directive wins: block, approve, continue. Changes are merged, the later key wins.
    A link that fails where failing is closed blocks. None when nobody wants anything."""
    if not links:
        return None
    wanted: list[Directive] = []
    for link in links:
        if link.wants is not None and not link.wants(payload):
            continue
        try:
            directive = await _bounded(link, copied(payload), context)
            if directive is not None and not isinstance(directive, Directive):
                raise TypeError(f"expected a Directive or None, got {type(directive).__name__}")
        except Exception as error:  # see above
            _tell(report, link, error)
            if link.on_error == "event":
                continue
            directive = Directive("block", f"{link.owner} could not decide: {error}")
        if directive is not None:
            wanted.append(msgspec.structs.replace(directive, owner=link.owner, id=directive.id or f"{link.id}"))
    return settled(wanted)


async def observe(links: tuple[Link, ...], payload: Any, context: Any, report: Report) -> None:
    """Tell every link; what they return is ignored, how long they take is bounded."""
    for link in links:
        if link.wants is not None and not link.wants(payload):
            continue
        try:
            await _bounded(link, copied(payload), context)
        except Suppressed:
            continue
        except Exception as error:  # see above
            _tell(report, link, error)


async def _bounded(link: Link, *args: Any) -> Any:
    """Call a link within its time. One that ran out of it is left out for a while, so that it costs its time once."""
    if link.timeout_s is None or not link.timeout_s:
        return await link.call(*args)
    health = link.health
    now = time.monotonic()
    if now < health.suppressed_until or health.abandoned >= MOST_ABANDONED:
        raise Suppressed(f"{link.owner} is left out at {link.point}: it ran out of its {link.timeout_s:g} s lately")
    try:
        async with asyncio.timeout(link.timeout_s):
            return await link.call(*args)
    except TimeoutError:
        if time.monotonic() - now < link.timeout_s:
            raise  # its own
        health.suppressed_until = time.monotonic() + SUPPRESSED_S
        raise TimeoutError(f"it took longer than {link.timeout_s:g} s; left out for {SUPPRESSED_S:.0f} s") from None


def _tell(report: Report, link: Link, error: BaseException) -> None:
    """A reporter that fails must not break what it reports of."""
    try:
        report(link, error)
    except Exception as broken:
        log.error("a failure of %s at %s could not be reported: %s", link.owner, link.point, broken)


def _thrown(link: Link, index: int, failure: Exception) -> MiddlewareError:
    error = MiddlewareError(f"{link.owner} failed at {link.point}[{index}]: {failure}")
    error.__cause__ = failure
    return error


def _note(
    steps: Steps | None, link: Link, index: int, outcome: Outcome, began: float, failure: Exception | None = None
) -> None:
    if steps is not None:
        steps.append(_step(link, index, outcome, began, None, failure))


def _step(link: Link, index: int, outcome: Outcome, began: float, fold: Fold | None, failure: Exception | None) -> Step:
    ms = (time.perf_counter() - began) * 1000
    source, reason = (fold.source, fold.reason) if fold else ("", "")
    error = f"{type(failure).__name__}: {failure}" if failure is not None else ""
    return Step(link.point, link.owner, index, outcome, ms, source or link.owner, reason, error)
