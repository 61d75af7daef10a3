"""Filing and reading papercuts: redaction before anything is kept, the day's quota, and who was counted why."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

from hermes_daemon.api import Database, FrictionOutcome, Rows

from .backlog import Backlog, spend, used
from .cut import Origin, Papercut, Report, Status, redacted, report_signature

T = TypeVar("T")


class QuotaSpent(Exception):
    """What may be filed by itself today was filed."""


class Filing:
    """`now` is the time in UTC; `quota` is for what is filed by itself, not for what somebody reports."""

    def __init__(
        self,
        database: Database,
        backlog: Backlog,
        redact: Callable[[str], str],
        quota: int,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.quota = quota
        self.redact = redact
        self._database, self._backlog, self._now = database, backlog, now

    async def report(self, report: Report) -> Papercut:
        """Keep what somebody reports."""
        clean = redacted(report, self.redact)
        stamp = self._stamp()

        def work(rows: Rows) -> Papercut:
            return self._backlog.file(rows, clean, report_signature(clean), "report", stamp)

        return await self._database.run(work)

    async def by_itself(self, report: Report, origin: Origin, signature: Callable[[Report], str]) -> Papercut:
        """Keep what nobody wrote, within the quota: filing and counting are one transaction. `signature` is taken of
        the redacted report. QuotaSpent."""
        clean = redacted(report, self.redact)
        stamp, day = self._stamp(), self.day()

        def work(rows: Rows) -> Papercut:
            if used(rows, day) >= self.quota:
                raise QuotaSpent
            cut = self._backlog.file(rows, clean, signature(clean), origin, stamp)
            spend(rows, day)
            return cut

        return await self._database.run(work)

    async def all(self) -> tuple[Papercut, ...]:
        """Every papercut."""
        return await self._database.run(self._backlog.all)

    async def mark(self, id: str, status: Status) -> tuple[Papercut, bool]:
        """Set a status; (the papercut, whether that changed it). UnknownPapercut."""
        return await self._database.run(lambda rows: self._backlog.mark(rows, id, status))

    async def spent(self) -> dict[str, Any]:
        """The quota of today: day, used, limit."""
        day = self.day()
        return {"day": day, "used": await self._database.run(lambda rows: used(rows, day)), "limit": self.quota}

    def day(self) -> str:
        """Today, UTC."""
        return self._now().strftime("%Y-%m-%d")

    def _stamp(self) -> str:
        return self._now().isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Tally:
    """How often each source met each outcome, since the plugin was loaded. From any thread."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, FrictionOutcome]] = Counter()
        self._lock = threading.Lock()

    def count(self, source: str, outcome: FrictionOutcome) -> None:
        """One more."""
        with self._lock:
            self._counts[source, outcome] += 1

    def table(self) -> dict[str, dict[str, int]]:
        """Outcomes by source."""
        with self._lock:
            rows = sorted(self._counts.items())
        table: dict[str, dict[str, int]] = {}
        for (source, outcome), count in rows:
            table.setdefault(source, {})[outcome] = count
        return table


def statistics(cuts: tuple[Papercut, ...]) -> dict[str, Any]:
    """Counts over all papercuts. `time_lost_seconds` is None when no report gave a time."""
    timed = [cut.time_lost_seconds for cut in cuts if cut.time_lost_seconds is not None]
    return {
        "papercuts": len(cuts),
        "reports": sum(cut.recurrence for cut in cuts),
        "by_status": dict(sorted(Counter(cut.status for cut in cuts).items())),
        "by_severity": dict(sorted(Counter(cut.severity for cut in cuts).items())),
        "by_category": dict(sorted(Counter(cut.category for cut in cuts).items())),
        "timed_report_count": sum(cut.timed_report_count for cut in cuts),
        "time_lost_seconds": sum(timed) if timed else None,
    }


def shown(cut: Papercut) -> dict[str, Any]:
    """A papercut as tools and commands show it: without empty fields and without its signature."""
    fields: dict[str, Any] = msgspec.to_builtins(cut)
    del fields["signature"]
    return {key: value for key, value in fields.items() if value not in ("", [])}
