"""Where papercuts are kept: a table of this home, which several processes may write."""

from __future__ import annotations

from typing import Any, Final, Protocol

import msgspec

from hermes_daemon.api import Rows

from .cut import Origin, Papercut, Report, Status, id_of, rank

MIGRATIONS: Final = (
    """
    CREATE TABLE papercuts (
        signature TEXT PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        status TEXT NOT NULL,
        recurrence INTEGER NOT NULL,
        body TEXT NOT NULL
    );
    CREATE TABLE quota (
        day TEXT PRIMARY KEY,
        used INTEGER NOT NULL
    );
    """,
)


class UnknownPapercut(Exception):
    """There is no papercut of that id."""

    def __init__(self, id: str) -> None:
        super().__init__(f"there is no papercut {id!r}")
        self.id = id


class Backlog(Protocol):
    """Keeps papercuts. `rows` is the open transaction of the plugin's own database."""

    def file(self, rows: Rows, report: Report, signature: str, origin: Origin, now: str) -> Papercut:
        """Keep a redacted report: a new papercut, or one more recurrence of the one with this signature."""
        ...

    def all(self, rows: Rows) -> tuple[Papercut, ...]:
        """Every papercut, in no order."""
        ...

    def mark(self, rows: Rows, id: str, status: Status) -> tuple[Papercut, bool]:
        """Set a status; (the papercut, whether that changed it). A resolved one stays resolved. UnknownPapercut."""
        ...


class Table:
    """Backlog in the plugin's database. A resolved papercut that comes again is open again; an acked one stays so."""

    def file(self, rows: Rows, report: Report, signature: str, origin: Origin, now: str) -> Papercut:
        """See Backlog."""
        before = _one(rows, "signature", signature)
        after = first(report, signature, origin, now) if before is None else again(before, report, now)
        self._keep(rows, after)
        return after

    def all(self, rows: Rows) -> tuple[Papercut, ...]:
        """See Backlog."""
        return tuple(_read(row) for row in rows.query("SELECT body FROM papercuts"))

    def mark(self, rows: Rows, id: str, status: Status) -> tuple[Papercut, bool]:
        """See Backlog."""
        before = _one(rows, "id", id)
        if before is None:
            raise UnknownPapercut(id)
        if before.status in (status, "resolved"):
            return before, False
        after = msgspec.structs.replace(before, status=status)
        self._keep(rows, after)
        return after, True

    def _keep(self, rows: Rows, cut: Papercut) -> None:
        body = msgspec.json.encode(cut).decode()
        rows.execute(
            "INSERT INTO papercuts (signature, id, status, recurrence, body) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT (signature) DO UPDATE SET status = excluded.status, recurrence = excluded.recurrence, "
            "body = excluded.body",
            (cut.signature, cut.id, cut.status, cut.recurrence, body),
        )


def first(report: Report, signature: str, origin: Origin, now: str) -> Papercut:
    """The papercut of a first report."""
    timed = report.time_lost_seconds is not None
    return Papercut(
        id_of(signature), signature, "open", report.category, report.severity, report.expected, report.observed, 1,
        int(timed), report.time_lost_seconds, now, now, origin, report.version, report.invocation, report.result,
        report.reproduction, report.refs,
    )  # fmt: skip


def again(before: Papercut, report: Report, now: str) -> Papercut:
    """A papercut after one more report. What the new report says stands, the worse severity stays."""
    lost, timed = before.time_lost_seconds, before.timed_report_count
    if report.time_lost_seconds is not None:
        lost, timed = (lost or 0.0) + report.time_lost_seconds, timed + 1
    severity = max(before.severity, report.severity, key=rank)
    changed: dict[str, Any] = {
        name: value for name in ("version", "invocation", "result", "reproduction") if (value := getattr(report, name))
    }
    changed["refs"] = tuple(dict.fromkeys((*before.refs, *report.refs)))[-32:]
    return msgspec.structs.replace(
        before,
        status="open" if before.status == "resolved" else before.status,
        severity=severity,
        recurrence=before.recurrence + 1,
        timed_report_count=timed,
        time_lost_seconds=lost,
        last_seen=now,
        **changed,
    )


def _one(rows: Rows, column: str, value: str) -> Papercut | None:
    found = rows.query(f"SELECT body FROM papercuts WHERE {column} = ?", (value,))  # noqa: S608 (ours)
    return _read(found[0]) if found else None


def _read(row: dict[str, Any]) -> Papercut:
    return msgspec.json.decode(row["body"], type=Papercut)


# --- the day's quota --------------------------------------------------------------------------------------------------


def used(rows: Rows, day: str) -> int:
    """How many were filed by themselves on a day, by all processes."""
    found = rows.query("SELECT used FROM quota WHERE day = ?", (day,))
    return int(found[0]["used"]) if found else 0


def spend(rows: Rows, day: str) -> None:
    """Count one more, and forget the days before."""
    rows.execute("DELETE FROM quota WHERE day < ?", (day,))
    rows.execute("INSERT INTO quota (day, used) VALUES (?, 1) ON CONFLICT (day) DO UPDATE SET used = used + 1", (day,))
