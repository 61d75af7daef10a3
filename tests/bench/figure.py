"""A measured figure, and the small arithmetic of measuring fairly."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Figure:
    """One figure: `value` in `unit`, and beside it what was measured in the same run for comparison.

    `ratio` is value / comparison. `goal` holds for the ratio where `of` is "ratio", else for the value; `better` says
    on which side of it one wants to be. Without a goal it is for information.
    """

    name: str
    value: float
    unit: str
    better: Literal["lower", "higher"] = "lower"
    goal: float | None = None
    of: Literal["value", "ratio"] = "value"
    comparison: float | None = None
    compared_with: str = ""
    note: str = ""

    @property
    def ratio(self) -> float | None:
        return None if not self.comparison else self.value / self.comparison

    @property
    def judged(self) -> float | None:
        """What the goal is held against."""
        return self.ratio if self.of == "ratio" else self.value

    @property
    def ok(self) -> bool | None:
        """Whether the goal is reached; None without one."""
        if self.goal is None or self.judged is None:
            return None
        return self.judged <= self.goal if self.better == "lower" else self.judged >= self.goal

    def as_row(self) -> dict[str, Any]:
        """The row of docs/performance.json."""
        return {**asdict(self), "ratio": self.ratio, "ok": self.ok}


def seconds(work: Callable[[], Any]) -> float:
    """Wall time of one call."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def interleaved(one: Callable[[], float], other: Callable[[], float], pairs: int) -> tuple[float, float]:
    """Medians of two measurements taken in turns, so that a busy moment of the machine meets both; the order within
    a pair alternates. One round before counts for nothing."""
    one(), other()
    ones, others = [], []
    for turn in range(pairs):
        for which in ("one", "other") if turn % 2 else ("other", "one"):
            (ones if which == "one" else others).append(one() if which == "one" else other())
    return statistics.median(ones), statistics.median(others)


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of all values lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
