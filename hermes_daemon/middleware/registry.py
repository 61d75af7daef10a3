"""Who has registered for which point. A run takes a snapshot, so what registers meanwhile starts with the next run."""

from __future__ import annotations

import difflib
import inspect
import itertools
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from hermes_daemon.middleware.adapters import Shape, adapted, blocking
from hermes_daemon.middleware.points import ALIASES, POINTS, OnError, Point, find
from hermes_daemon.middleware.workers import Workers


class Health(msgspec.Struct):
    """How a link does: monotonic seconds until which it is left out, calls that were given up and still run, and
    whether it is still registered."""

    suppressed_until: float = 0.0
    abandoned: int = 0
    removed: bool = False

    def give_up(self, change: int) -> None:
        """A call was given up (1), or came to its end after that (-1)."""
        self.abandoned += change


class Link(msgspec.Struct, frozen=True):
    """One registration. `call` is async and of the point's style (see styles); `name` is the callable's own name.
    `blocking` is an observer that is not async, to be called in a thread of `workers`."""

    id: int
    point: str
    owner: str
    name: str
    call: Callable[..., Awaitable[Any]]
    on_error: OnError
    timeout_s: float | None
    shape: Shape
    wants: Callable[[Any], bool] | None
    health: Health
    workers: Workers
    blocking: Callable[[Any, Any], Any] | None = None


class Handle(msgspec.Struct, frozen=True):
    """Removes exactly its registration; twice is once."""

    id: int
    remove: Callable[[], None]


class Registry:
    """Registrations in order. `parent` is the daemon's registry when this one belongs to a session."""

    def __init__(self, parent: Registry | None = None) -> None:
        self._parent = parent
        self._links: dict[str, tuple[Link, ...]] = {}
        self._changing = threading.Lock()  # plugins register from threads of their own
        self._ids: itertools.count[int] = parent._ids if parent else itertools.count(1)
        self.workers: Workers = parent.workers if parent else Workers()

    def use(
        self,
        point: str,
        call: Callable[..., Any],
        *,
        owner: str,
        on_error: OnError | None = None,
        timeout_s: float | None = None,
        wants: Callable[[Any], bool] | None = None,
        shape: Shape = "plain",
    ) -> Handle:
        """Append a registration. ValueError for a point that does not exist, with the nearest name.

        `wants` is asked with the payload whether this link takes part; `shape` says how `call` is to be called:
        "plain" (value, context), "prism" (value, next), "hermes" and "hook" by keywords (see adapters).
        """
        spec = self._point(point)
        health = Health()
        if shape == "prism" and spec.name == "tool_result" and wants is None:
            wants = _succeeded  # in Prism the result of a call that failed or was refused passes no middleware
        link = Link(
            next(self._ids),
            spec.name,
            owner,
            name_of(call),
            adapted(spec, call, shape, self.workers, health.give_up),
            on_error or spec.on_error,
            spec.timeout_s if timeout_s is None else timeout_s,
            shape,
            wants,
            health,
            self.workers,
            blocking(spec, call, shape),
        )
        with self._changing:
            self._links[spec.name] = (*self._links.get(spec.name, ()), link)
        return Handle(link.id, lambda: self._keep(spec.name, lambda other: other is not link))

    def remove_owner(self, owner: str) -> None:
        """Remove everything this owner registered."""
        for point in list(self._links):
            self._keep(point, lambda link: link.owner != owner)

    def snapshot(self, point: str) -> tuple[Link, ...]:
        """The links of a point, the daemon's before the session's. Empty when nobody registered."""
        own = self._links.get(point, ())
        return (*self._parent.snapshot(point), *own) if self._parent else own

    def has(self, point: str) -> bool:
        """True when somebody registered: a payload that costs something is worth making."""
        return point in self._links or (self._parent is not None and self._parent.has(point))

    def rows(self) -> list[Link]:
        """All links, point by point."""
        return [link for point in POINTS for link in self.snapshot(point)]

    def _keep(self, point: str, wanted: Callable[[Link], bool]) -> None:
        with self._changing:
            kept = tuple(link for link in self._links.get(point, ()) if wanted(link))
            for link in self._links.get(point, ()):
                link.health.removed = not wanted(link)
            if kept:
                self._links[point] = kept
            else:
                self._links.pop(point, None)

    def _point(self, name: str) -> Point:
        try:
            return find(name)
        except KeyError:
            near = difflib.get_close_matches(name, [*POINTS, *ALIASES], 1)
            hint = f", did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"no middleware point is called {name!r}{hint}") from None


def _succeeded(done: Any) -> bool:
    return bool(done.status == "ok")


def name_of(call: Callable[..., Any]) -> str:
    """module.qualname of a callable, of its type where it has none."""
    named = call if hasattr(call, "__qualname__") else type(call)
    named = inspect.unwrap(named) if callable(named) else named
    return f"{getattr(named, '__module__', '?')}.{getattr(named, '__qualname__', '?')}"
