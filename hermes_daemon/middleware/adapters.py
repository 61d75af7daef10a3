"""How callables of the different contracts become links: plain, Prism's (value, next), and Hermes' keywords.

The shape is said at the registration and never guessed from a signature. Inside, a link is async and called by its
point's style: transform (value, fold, context), around (payload, following, context), decide and observe (payload,
context). What is not async runs in a thread of its own.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Literal, TypeAlias

import msgspec

from hermes_daemon.middleware import keywords
from hermes_daemon.middleware.points import Point
from hermes_daemon.middleware.workers import Workers

Shape: TypeAlias = Literal["plain", "prism", "hermes", "hook"]
Call: TypeAlias = Callable[..., Any]
AsyncCall: TypeAlias = Callable[..., Awaitable[Any]]


class NextCalledTwice(RuntimeError):
    """`next` works once for each link."""


class Fold:
    """What a transform link may do to the chain's value. `original` is the value before the first link."""

    def __init__(self, point: str, index: int, original: Any) -> None:
        self.original = original
        self.value: Any = msgspec.UNSET
        self.source = self.reason = ""
        self._where = f"{point}[{index}]"

    def commit(self, value: Any) -> Any:
        """Make `value` the chain's value, and give it back. It stays, whatever comes after. NextCalledTwice."""
        if self.value is not msgspec.UNSET:
            raise NextCalledTwice(f"next was called twice at {self._where}; the first value stays")
        self.value = value
        return value


class Committed:
    """What Prism's `next` gives an async link: to be returned as it is, or awaited for the value."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __await__(self) -> Generator[Any, None, Any]:
        return self.value
        yield  # makes this a generator that never waits


def adapted(point: Point, call: Call, shape: Shape, workers: Workers, given_up: Callable[[int], object]) -> AsyncCall:
    """`call` as a link of `point`. ValueError where the shape does not exist at this point."""
    run = _Runner(call, workers, given_up)
    style = point.style
    if shape == "plain":
        return _plain(run, style)
    if shape == "prism" and style == "transform":
        return _prism(run)
    if shape == "hermes" and point.name in keywords.KINDS:
        return _hermes_request(run, point.name) if style == "transform" else _hermes_execution(run, point.name)
    if shape == "hook" and style != "around":
        return _hook(run, point)
    raise ValueError(f"{point.name} is no point for {shape} callables")


def blocking(point: Point, call: Call, shape: Shape) -> Callable[[Any, Any], Any] | None:
    """`call` as (payload, context) for a thread that belongs to it, without a way through the event loop. None when it
    is async, or when `point` is not one to be observed."""
    if point.style != "observe" or is_async(call):
        return None
    if shape == "plain":
        return call
    names, takes_all = keywords.accepted(call)

    def told(payload: Any, context: Any) -> Any:
        given = keywords.of_hook(payload, context)
        return call(**(given if takes_all else {name: given[name] for name in names if name in given}))

    return told


def is_async(call: Call) -> bool:
    """True for a coroutine function and for an object that is called as one."""
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(type(call).__call__)


class _Runner:
    """Calls one callable, on the loop when it is async, else in a thread."""

    def __init__(self, call: Call, workers: Workers, given_up: Callable[[int], object]) -> None:
        self.call = call
        self.is_async = is_async(call)
        self._workers = workers
        self._given_up = given_up
        self.names, self.takes_all = keywords.accepted(call)

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.is_async:
            return await self.call(*args, **kwargs)
        value = await self._workers.run(functools.partial(self.call, *args, **kwargs), self._given_up)
        return await value if inspect.isawaitable(value) else value

    async def by_name(self, given: dict[str, Any]) -> Any:
        """Call with the keywords it declares; with all of them when it takes any."""
        return await self(**(given if self.takes_all else {name: given[name] for name in self.names if name in given}))

    def bridged(self, following: AsyncCall) -> Call:
        """`following` as this callable can use it: for one in a thread it blocks until the result is there."""
        if self.is_async:
            return following
        loop = asyncio.get_running_loop()
        return lambda *changed: asyncio.run_coroutine_threadsafe(_coroutine(following, *changed), loop).result()


async def _coroutine(call: AsyncCall, *args: Any) -> Any:
    return await call(*args)


def _plain(run: _Runner, style: str) -> AsyncCall:
    if style == "transform":
        return lambda value, _, context: run(value, context)
    if style == "around":
        return lambda payload, following, context: run(payload, run.bridged(following), context)
    return run


def _prism(run: _Runner) -> AsyncCall:
    async def link(value: Any, fold: Fold, _: Any) -> Any:
        def following(changed: Any) -> Any:
            committed = fold.commit(changed)
            return Committed(committed) if run.is_async else committed

        result = await run(value, following)
        return result.value if isinstance(result, Committed) else result

    return link


def _hermes_request(run: _Runner, kind: str) -> AsyncCall:
    async def link(value: Any, fold: Fold, context: Any) -> Any:
        given = keywords.of(kind, value, fold.original, context)
        returned = await run.by_name(given)
        if not isinstance(returned, dict):
            return None
        changed = keywords.replaced(kind, value, returned)
        if changed is not None:
            fold.source = _word(returned.get("source")) or "plugin"
            fold.reason = _word(returned.get("reason"))
        return changed

    return link


def _word(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _hermes_execution(run: _Runner, kind: str) -> AsyncCall:
    async def link(payload: Any, following: AsyncCall, context: Any) -> Any:
        async def with_dict(changed: Any = None) -> Any:
            if changed is None:
                return keywords.result_of(kind, await following())
            return keywords.result_of(kind, await following(keywords.payload_from(kind, payload, changed)))

        given = keywords.of(kind, payload, getattr(context, "original", None), context)
        given["next_call"] = run.bridged(with_dict)
        return keywords.result_from(kind, await run.by_name(given))

    return link


def _hook(run: _Runner, point: Point) -> AsyncCall:
    if point.style == "transform":

        async def fold(value: Any, _: Fold, context: Any) -> Any:
            returned = await run.by_name(keywords.of_hook(value, context))
            return keywords.hook_result(point.name, value, returned)

        return fold

    async def told(payload: Any, context: Any) -> Any:
        returned = await run.by_name(keywords.of_hook(payload, context))
        return keywords.directive(returned, point.name) if point.style == "decide" else None

    return told
