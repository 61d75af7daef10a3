"""What a papercut is: a report, its signature, and the order of a backlog."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec

Category: TypeAlias = Literal["tool", "workflow", "documentation", "environment", "performance", "other"]
Severity: TypeAlias = Literal["low", "medium", "high", "critical"]
Status: TypeAlias = Literal["open", "acked", "resolved"]
Origin: TypeAlias = Literal["report", "capture", "friction"]

SEVERITIES: Final[tuple[Severity, ...]] = ("low", "medium", "high", "critical")
MOST_CHARS: Final = 4000
MOST_REFS: Final = 32
CUT: Final = " … [cut]"


class Report(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What was expected and what was observed. `version`, `invocation`, `result` and `reproduction` say of what, how
    it was called, what it gave, and how to see it again. `time_lost_seconds` is time that was observed to be lost: 0
    is an observation, None is none."""

    category: Category
    severity: Severity
    expected: str
    observed: str
    version: str = ""
    invocation: str = ""
    result: str = ""
    reproduction: str = ""
    refs: tuple[str, ...] = ()
    time_lost_seconds: float | None = None


class Papercut(msgspec.Struct, frozen=True):
    """A papercut as it is kept. `time_lost_seconds` is the sum over the `timed_report_count` reports that gave a time,
    None when none did. Times are RFC 3339 in UTC."""

    id: str
    signature: str
    status: Status
    category: str
    severity: Severity
    expected: str
    observed: str
    recurrence: int
    timed_report_count: int
    time_lost_seconds: float | None
    first_seen: str
    last_seen: str
    origin: Origin = "report"
    version: str = ""
    invocation: str = ""
    result: str = ""
    reproduction: str = ""
    refs: tuple[str, ...] = ()


class BadReport(Exception):
    """A report that does not fit: the JSON path, what was wrong, what was expected."""


def parsed(fields: Mapping[str, Any]) -> Report:
    """The report in `fields`. BadReport naming the field."""
    try:
        report = msgspec.convert(dict(fields), Report)
    except msgspec.ValidationError as error:
        raise BadReport(str(error)) from None
    for name in ("expected", "observed"):
        if not getattr(report, name).strip():
            raise BadReport(f"expected text, got nothing - at `$.{name}`")
    lost = report.time_lost_seconds
    if lost is not None and not (math.isfinite(lost) and lost >= 0):
        raise BadReport(f"expected seconds from 0, got {lost} - at `$.time_lost_seconds`")
    if len(report.refs) > MOST_REFS:
        raise BadReport(f"expected at most {MOST_REFS} references, got {len(report.refs)} - at `$.refs`")
    return report


def redacted(report: Report, redact: Callable[[str], str]) -> Report:
    """Every text without secrets, then cut to 4,000 characters: a secret across the cut is gone as well."""

    def clean(text: str) -> str:
        text = redact(text).strip()
        return text if len(text) <= MOST_CHARS else text[: MOST_CHARS - len(CUT)] + CUT

    return msgspec.structs.replace(
        report,
        expected=clean(report.expected),
        observed=clean(report.observed),
        version=clean(report.version),
        invocation=clean(report.invocation),
        result=clean(report.result),
        reproduction=clean(report.reproduction),
        refs=tuple(clean(ref) for ref in report.refs),
    )


def signature_of(*parts: str) -> str:
    """What makes two reports the same papercut: the parts without regard to case and white space, hashed."""
    whole = "\0".join(" ".join(part.casefold().split()) for part in parts)
    return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()


def report_signature(report: Report) -> str:
    """The signature of a report that somebody wrote: its category, what was expected and what was observed."""
    return signature_of("report", report.category, report.expected, report.observed)


def id_of(signature: str) -> str:
    """The stable id of a papercut."""
    return f"pc-{signature[:12]}"


def rank(severity: str) -> int:
    """Higher is worse."""
    return SEVERITIES.index(severity) if severity in SEVERITIES else -1


def by_impact(cuts: Iterable[Papercut]) -> list[Papercut]:
    """The worst first: by severity, recurrence, reported loss, share of reports that gave a time, then the id. It is
    an order, not a score; a loss of 0 stands before none."""
    return sorted(
        cuts,
        key=lambda cut: (
            -rank(cut.severity),
            -cut.recurrence,
            cut.time_lost_seconds is None,
            -(cut.time_lost_seconds or 0.0),
            -(cut.timed_report_count / max(1, cut.recurrence)),
            cut.id,
        ),
    )


def by_recency(cuts: Iterable[Papercut]) -> list[Papercut]:
    """The last seen first, then by id."""
    return sorted(sorted(cuts, key=lambda cut: cut.id), key=lambda cut: cut.last_seen, reverse=True)
