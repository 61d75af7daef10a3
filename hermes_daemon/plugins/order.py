"""In which order plugins are loaded: each behind those it needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def load_order(needs: Mapping[str, Sequence[str]]) -> tuple[list[str], dict[str, str]]:
    """(ids in loading order, why others cannot be loaded). `needs` maps every wanted id to the ids it needs.

    Among those that could come next the alphabet decides, so that the order is the same everywhere.
    """
    faults: dict[str, str] = {}
    order: list[str] = []
    left = sorted(needs)
    while left:
        ready = [id for id in left if all(need in order for need in needs[id])]
        if not ready:
            break
        order.append(ready[0])
        left.remove(ready[0])
    for id in left:
        missing = [need for need in needs[id] if need not in needs]
        if missing:
            faults[id] = f"needs {', '.join(missing)}, which is not enabled"
    for id in left:
        if id not in faults:
            broken = [need for need in needs[id] if need not in order]
            circle = _circle(id, needs)
            faults[id] = (
                f"is in a circle: {' -> '.join(circle)}" if circle else f"needs {', '.join(broken)}, which failed"
            )
    return order, faults


def _circle(id: str, needs: Mapping[str, Sequence[str]]) -> list[str]:
    """A way from `id` back to itself, [] when there is none."""
    paths = [[id]]
    seen = set()
    while paths:
        path = paths.pop()
        for need in needs.get(path[-1], ()):
            if need == id:
                return [*path, id]
            if need not in seen:
                seen.add(need)
                paths.append([*path, need])
    return []
