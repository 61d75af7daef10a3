"""The four styles: transform (a fold), around (an onion), decide (all are asked, the strictest wins), observe.

A link's failure is reported through `report` and, unless its `on_error` says otherwise, the work goes on with the
last good value. With nobody registered each function costs one truth test and gives back the caller's own object.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec

from hermes_daemon.middleware.points import POINTS
from hermes_daemon.middleware.registry import Link

T = TypeVar("T")
Report: TypeAlias = Callable[[Link, BaseException], None]


class ExecutionBlocked(Exception):
    """The typed veto of an around link: it stops the call instead of being skipped as a failure."""


class MiddlewareError(Exception):
    """A link with on_error "throw" failed; the cause is chained."""


class Directive(msgspec.Struct, frozen=True):
    """What a decide link wants: block the operation, ask for approval, go another round, or change fields."""

    action: Literal["block", "approve", "continue", "modify"]
    message: str = ""
    fields: dict[str, Any] = {}


async def transform(links: tuple[Link, ...], value: T, context: Any, report: Report) -> T:
    """Fold `value` through the links. Each gets (value, context); None means unchanged."""
    for link in links:
        try:
            new = await _call(link, value, context)
        except Exception as error:  # a plugin's callback: its failure must not be the turn's
            _failed(link, error, report)
            continue
        if new is not None:
            value = new
    return value


async def around(
    links: tuple[Link, ...], payload: T, context: Any, call: Callable[[T], Awaitable[Any]], report: Report
) -> Any:
    """Run `call` inside the links, outermost first. Each gets (payload, next, context); `next` works once.

    A link that fails before `next` is skipped; one that fails after a successful `next` keeps its result; a failure
    of the call itself passes through as it is; ExecutionBlocked stops everything.
    """
    if not links:
        return await call(payload)
    link, rest = links[0], links[1:]
    done: list[Any] = []
    downstream: list[BaseException] = []

    async def following(changed: T = payload) -> Any:
        if done or downstream:
            raise RuntimeError(f"next was called twice by {link.owner} at {link.point}")
        try:
            done.append(await around(rest, changed, context, call, report))
        except BaseException as error:
            downstream.append(error)
            raise
        return done[0]

    try:
        value = await _call(link, payload, following, context)
    except ExecutionBlocked:
        raise
    except Exception as error:  # see above
        if downstream:
            raise
        _failed(link, error, report)
        return done[0] if done else await around(rest, payload, context, call, report)
    if value is None and done:
        return done[0]
    return value if value is not None or done else await around(rest, payload, context, call, report)


async def decide(links: tuple[Link, ...], payload: Any, context: Any, report: Report) -> Directive | None:
    """Ask every link; the strictest directive wins: block, approve, continue; modifications are merged."""
    winner: Directive | None = None
    fields: dict[str, Any] = {}
    for link in links:
        try:
            async with asyncio.timeout(POINTS[link.point].timeout_s):
                directive = await _call(link, payload, context)
        except Exception as error:  # see above
            report(link, error)
            if link.on_error == "event":
                continue
            directive = Directive("block", f"{link.owner} could not decide: {error}")
        if not isinstance(directive, Directive):
            continue
        if directive.action == "modify":
            fields |= directive.fields
        elif winner is None or _RANK[directive.action] < _RANK[winner.action]:
            winner = directive
    if fields:
        action = winner.action if winner else "modify"
        return Directive(action, winner.message if winner else "", fields)
    return winner


async def observe(links: tuple[Link, ...], payload: Any, context: Any, report: Report) -> None:
    """Tell every link; what they return is ignored, how long they take is bounded."""
    for link in links:
        try:
            async with asyncio.timeout(POINTS[link.point].timeout_s):
                await _call(link, payload, context)
        except Exception as error:  # see above
            report(link, error)


_RANK = {"block": 0, "approve": 1, "continue": 2, "modify": 3}


async def _call(link: Link, *args: Any) -> Any:
    """Async callables on the loop, others in a thread of their own so that they cannot stop the daemon."""
    if inspect.iscoroutinefunction(link.call):
        return await link.call(*args)
    value = await asyncio.to_thread(link.call, *args)
    return await value if inspect.isawaitable(value) else value


def _failed(link: Link, error: Exception, report: Report) -> None:
    report(link, error)
    if link.on_error != "event":
        raise MiddlewareError(f"{link.owner} failed at {link.point}: {error}") from error
