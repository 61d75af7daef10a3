"""Facts to counters and histograms: the numbers behind /metrics and the OTLP export."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable
from typing import Any

from hermes_daemon.core.telemetry import (
    ConnectionClosed,
    ConnectionStalled,
    Family,
    JournalCommitted,
    Measured,
    ModelCalled,
    QuestionResolved,
    Series,
    ToolCalled,
    TurnMeasured,
)
from hermes_daemon.telemetry import families as f

MOST_SERIES = 200
"""Label sets of one family; what comes after is counted under `other`, so that odd names cannot fill the memory."""
OTHER = "other"


class _Histogram:
    __slots__ = ("counts", "sum")

    def __init__(self, bounds: int) -> None:
        self.counts = [0] * (bounds + 1)
        self.sum = 0.0


class Registry:
    """Counts from any thread. A series exists from the first fact it is about."""

    def __init__(self, families: tuple[Family, ...] = (*f.COUNTED, *f.EXPORTED)) -> None:
        self._lock = threading.Lock()
        self._counters: dict[Family, dict[tuple[str, ...], float]] = {}
        self._histograms: dict[Family, dict[tuple[str, ...], _Histogram]] = {}
        self._families = families
        for family in families:
            if family.kind == "histogram":
                self._histograms[family] = {}
            else:
                self._counters[family] = {} if family.labels else {(): 0.0}

    def count(self, family: Family, labels: tuple[str, ...] = (), by: float = 1.0) -> None:
        """Add to a counter."""
        with self._lock:
            cells = self._counters[family]
            labels = _bounded(labels, cells)
            cells[labels] = cells.get(labels, 0.0) + by

    def observe(self, family: Family, labels: tuple[str, ...], value: float) -> None:
        """Put a value into a histogram."""
        with self._lock:
            cells = self._histograms[family]
            labels = _bounded(labels, cells)
            cell = cells.get(labels)
            if cell is None:
                cell = cells[labels] = _Histogram(len(family.buckets))
            cell.counts[bisect_left(family.buckets, value)] += 1
            cell.sum += value

    def take(self, fact: Measured) -> None:
        """Count a fact."""
        counted = _TAKEN.get(type(fact))
        if counted is not None:
            counted(self, fact)

    def series(self, families: tuple[Family, ...] = f.COUNTED) -> tuple[Series, ...]:
        """A copy of what was counted, family by family in the order of the table."""
        with self._lock:
            found = []
            for family in families:
                for labels, value in self._counters.get(family, {}).items():
                    found.append(Series(family, labels, value))
                for labels, cell in self._histograms.get(family, {}).items():
                    found.append(Series(family, labels, cell.sum, tuple(cell.counts)))
            return tuple(found)


def _bounded(labels: tuple[str, ...], cells: dict[tuple[str, ...], Any]) -> tuple[str, ...]:
    return labels if labels in cells or len(cells) < MOST_SERIES else (OTHER,) * len(labels)


def _turn(registry: Registry, fact: TurnMeasured) -> None:
    registry.count(f.TURNS, (fact.status,))
    registry.observe(f.TURN_SECONDS, (fact.status,), fact.total_ms / 1000)
    parts = {"queue": fact.queue_ms, "prompt": fact.prompt_ms, "model": fact.model_ms, "tools": fact.tools_ms,
             "approval": fact.approval_ms, "middleware": fact.middleware_ms, "journal": fact.journal_ms}  # fmt: skip
    for part, ms in parts.items():
        if ms:
            registry.count(f.TURN_PART_SECONDS, (part,), ms / 1000)


def _model(registry: Registry, fact: ModelCalled) -> None:
    who = (fact.provider, fact.model)
    registry.count(f.MODEL_CALLS, (*who, fact.outcome))
    registry.observe(f.MODEL_SECONDS, who, fact.duration_ms / 1000)
    if fact.first_token_ms is not None:
        registry.observe(f.TTFT_SECONDS, who, fact.first_token_ms / 1000)
    if fact.retries:
        registry.count(f.MODEL_RETRIES, who, fact.retries)
    tokens = {"input": fact.input_tokens, "output": fact.output_tokens, "cached": fact.cached_tokens,
              "cache_write": fact.cache_write_tokens, "reasoning": fact.reasoning_tokens}  # fmt: skip
    for kind, number in tokens.items():
        if number:
            registry.count(f.TOKENS, (*who, kind), number)
    if fact.cost:
        registry.count(f.COST, who, fact.cost)
    operation = ("chat", *who)
    registry.observe(f.OPERATION_DURATION, (*operation, fact.outcome if fact.failed else ""), fact.duration_ms / 1000)
    if fact.input_tokens:
        registry.observe(f.TOKEN_USAGE, (*operation, "input"), fact.input_tokens)
    if fact.output_tokens:
        registry.observe(f.TOKEN_USAGE, (*operation, "output"), fact.output_tokens)


def _tool(registry: Registry, fact: ToolCalled) -> None:
    registry.count(f.TOOL_CALLS, (fact.tool, fact.outcome))
    registry.observe(f.TOOL_SECONDS, (fact.tool,), fact.duration_ms / 1000)
    registry.count(f.TOOL_BYTES, (fact.tool,), fact.output_bytes)


def _question(registry: Registry, fact: QuestionResolved) -> None:
    registry.count(f.QUESTIONS, (fact.kind, fact.outcome))
    registry.observe(f.QUESTION_SECONDS, (fact.kind,), fact.wait_ms / 1000)


def _stalled(registry: Registry, fact: ConnectionStalled) -> None:
    registry.count(f.STALLS, (fact.stage,))


def _closed(registry: Registry, fact: ConnectionClosed) -> None:
    registry.count(f.CONNECTIONS_CLOSED, (_truth(fact.slow),))
    if fact.dropped:
        registry.count(f.CONNECTION_DROPPED, (), fact.dropped)


def _committed(registry: Registry, fact: JournalCommitted) -> None:
    registry.observe(f.COMMITS, (_truth(fact.durable),), fact.commit_ms / 1000)
    registry.count(f.WRITES, (), fact.writes)


def _truth(value: bool) -> str:
    return "true" if value else "false"


_TAKEN: dict[type[Measured], Callable[[Registry, Any], None]] = {
    TurnMeasured: _turn,
    ModelCalled: _model,
    ToolCalled: _tool,
    QuestionResolved: _question,
    ConnectionStalled: _stalled,
    ConnectionClosed: _closed,
    JournalCommitted: _committed,
}
