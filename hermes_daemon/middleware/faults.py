"""Failures of guests in the log: the first of its kind as a warning that helps, its repeats as debug lines."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from hermes_daemon.middleware.registry import Link

HEAD = 200
"""Characters of a message that tell failures apart."""
KEPT = 1000


class Faults:
    """Reports each distinct failure (point, callable, exception type, head of the message) once."""

    def __init__(self, log: logging.Logger, redact: Callable[[str], str] = str) -> None:
        self._log = log
        self._redact = redact
        self._seen: dict[tuple[str, str, str, str], str] = {}
        self.repeats = 0

    def report(self, link: Link, error: BaseException, where: str = "", fields: Sequence[str] = ()) -> bool:
        """Take a failure of `link`; True for the first of its kind. `fields` are the names it was really given, for a
        callable that wanted others."""
        text = self._redact(f"{type(error).__name__}: {error}")
        key = (link.point, link.name, type(error).__name__, str(error)[:HEAD])
        passed = f" It is given: {', '.join(sorted(fields))}." if fields else ""
        if key in self._seen:
            self.repeats += 1
            self._log.debug("%s%s at %s failed again: %s", where, link.owner, link.point, text)
            return False
        if len(self._seen) >= KEPT:
            del self._seen[next(iter(self._seen))]
        self._seen[key] = link.owner
        self._log.warning("%s%s (%s) at %s: %s.%s", where, link.owner, link.name, link.point, text, passed)
        return True

    def reset(self, owner: str) -> None:
        """Forget the failures of an owner that was loaded again."""
        self._seen = {key: other for key, other in self._seen.items() if other != owner}
