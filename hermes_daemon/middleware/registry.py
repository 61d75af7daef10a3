"""Who has registered for which point. A run takes a snapshot, so what registers meanwhile starts with the next run."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Callable
from typing import Any

import msgspec

from hermes_daemon.middleware.points import ALIASES, POINTS, OnError, Point, find


class Link(msgspec.Struct, frozen=True):
    """One registration. `call` is the adapted callable of the point's style (see styles)."""

    id: int
    point: str
    owner: str
    call: Callable[..., Any]
    on_error: OnError


class Handle(msgspec.Struct, frozen=True):
    """Removes exactly its registration."""

    id: int
    remove: Callable[[], None]


class Registry:
    """Registrations in order. `parent` is the daemon's registry when this one belongs to a session."""

    def __init__(self, parent: Registry | None = None) -> None:
        self._parent = parent
        self._links: dict[str, tuple[Link, ...]] = {}
        self._ids = itertools.count(1)

    def use(self, point: str, call: Callable[..., Any], *, owner: str, on_error: OnError | None = None) -> Handle:
        """Append a registration. ValueError for a point that does not exist, with the nearest name."""
        spec = self._point(point)
        link = Link(next(self._ids), spec.name, owner, call, on_error or spec.on_error)
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

    def rows(self) -> list[Link]:
        """All links, point by point."""
        return [link for point in POINTS for link in self.snapshot(point)]

    def _keep(self, point: str, wanted: Callable[[Link], bool]) -> None:
        self._links[point] = tuple(link for link in self._links.get(point, ()) if wanted(link))

    def _point(self, name: str) -> Point:
        try:
            return find(name)
        except KeyError:
            near = difflib.get_close_matches(name, [*POINTS, *ALIASES], 1)
            hint = f", did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"no middleware point is called {name!r}{hint}") from None
