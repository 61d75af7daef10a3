"""Who asked, and what became of it."""

from __future__ import annotations

import threading
from typing import Any, Final

from .declines import Reason

MOST_CALLERS: Final = 256


class Tally:
    """Counts for each caller; from any thread. Names beyond 256 are counted together as `(others)`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._accepted: dict[str, int] = {}
        self._declined: dict[str, dict[str, int]] = {}
        self._problems: dict[str, str] = {}

    def accept(self, caller: str) -> None:
        """A call that was answered."""
        with self._lock:
            self._accepted[self._named(caller)] += 1

    def decline(self, caller: str, reason: Reason, problem: str = "") -> None:
        """A call that was not, and why."""
        with self._lock:
            name = self._named(caller)
            reasons = self._declined[name]
            reasons[reason] = reasons.get(reason, 0) + 1
            self._problems[name] = f"{reason}: {problem}" if problem else reason

    def ever(self, reason: Reason) -> bool:
        """True when any call was declined for that reason."""
        with self._lock:
            return any(reason in reasons for reasons in self._declined.values())

    def snapshot(self) -> dict[str, Any]:
        """{"accepted", "declined": {reason: n}, "callers": {name: {"accepted", "declined", "last_decline"}}}."""
        with self._lock:
            total: dict[str, int] = {}
            for reasons in self._declined.values():
                for reason, count in reasons.items():
                    total[reason] = total.get(reason, 0) + count
            callers = {
                name: {
                    "accepted": self._accepted[name],
                    "declined": dict(self._declined[name]),
                    "last_decline": self._problems.get(name, ""),
                }
                for name in sorted(self._accepted)
            }
            return {"accepted": sum(self._accepted.values()), "declined": total, "callers": callers}

    def _named(self, caller: str) -> str:
        """The name to count under; the lock is held."""
        name = caller[:80]
        if name not in self._accepted:
            if len(self._accepted) >= MOST_CALLERS:
                name = "(others)"
            self._accepted.setdefault(name, 0)
            self._declined.setdefault(name, {})
        return name
