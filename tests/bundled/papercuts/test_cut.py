"""The order of a backlog, and what makes two reports the same."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from hermes_daemon.bundled.papercuts.cut import Papercut, Report, Severity, by_impact, report_signature

TABLE: tuple[tuple[str, Severity, int, float | None, int], ...] = (
    # id, severity, recurrence, known loss, reports with a time: in the order of their impact
    ("pc-a", "critical", 1, None, 0),
    ("pc-b", "high", 9, None, 0),
    ("pc-c", "high", 8, 60.0, 1),
    ("pc-d", "high", 8, 59.0, 8),
    ("pc-e", "high", 8, 0.0, 4),
    ("pc-f", "high", 8, 0.0, 2),
    ("pc-g", "high", 8, None, 0),
    ("pc-h", "high", 8, None, 0),
    ("pc-i", "medium", 99, 1e6, 99),
    ("pc-j", "low", 1000, 1e9, 1000),
)


def cut(id: str, severity: Severity, recurrence: int, lost: float | None, timed: int) -> Papercut:
    at = "2026-01-01T00:00:00.000Z"
    return Papercut(id, id, "open", "tool", severity, "e", "o", recurrence, timed, lost, at, at)


def test_a20_8_the_order_of_impact_on_a_table_written_by_hand() -> None:
    cuts = [cut(*row) for row in TABLE]
    expected = [row[0] for row in TABLE]
    for order in itertools.islice(itertools.permutations(cuts), 0, 200_000, 997):
        assert [each.id for each in by_impact(order)] == expected


@given(st.lists(st.tuples(st.sampled_from(["low", "high"]), st.integers(1, 3), st.none() | st.floats(0, 9),
                          st.integers(0, 3)), max_size=12), st.randoms())  # fmt: skip
def test_the_order_of_impact_does_not_depend_on_the_order_given(rows: list[tuple[Severity, int, float | None, int]],
                                                                random: object) -> None:  # fmt: skip
    cuts = [cut(f"pc-{at}", *row) for at, row in enumerate(rows)]
    shuffled = list(cuts)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert by_impact(shuffled) == by_impact(cuts)


def test_the_signature_is_of_what_it_is_about() -> None:
    report = Report("tool", "low", "a list", "nothing", version="1")
    assert report_signature(report) == report_signature(Report("tool", "high", " A  list", "Nothing\n", version="2"))
    assert report_signature(report) != report_signature(Report("workflow", "low", "a list", "nothing"))
    assert report_signature(report) != report_signature(Report("tool", "low", "a listn", "othing"))
