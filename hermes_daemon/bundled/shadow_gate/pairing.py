"""Which outcome belongs to which verdict, and what the pairs say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from .ledger import Row
from .policy import Policy

Reason: TypeAlias = Literal["no_policy", "min_pairs", "min_agreement", "max_false_positive"]


class Paired(msgspec.Struct, frozen=True):
    """`pairs` are (verdict, outcome) in the order of the outcomes, `unpaired` all rows that are in no pair."""

    pairs: tuple[tuple[Row, Row], ...]
    unpaired: tuple[Row, ...]


class Measured(msgspec.Struct, frozen=True):
    """Shares lie in [0, 1]; None where there is nothing to measure. `false_positive`: of the verdicts that were
    positive, the share whose outcome was not."""

    pairs: int
    agreement: float | None
    false_positive: float | None


def paired(rows: Sequence[Row]) -> Paired:
    """Each outcome with the latest earlier verdict of its key. A verdict that a later one replaced before any outcome
    came, and an outcome without a verdict, are in no pair."""
    latest: dict[str, int] = {}
    pairs: list[tuple[int, int]] = []
    for index, row in enumerate(rows):
        if row.kind == "verdict":
            latest[row.key] = index
        elif row.key in latest:
            pairs.append((latest[row.key], index))
    used = {index for pair in pairs for index in pair}
    return Paired(
        tuple((rows[verdict], rows[outcome]) for verdict, outcome in pairs),
        tuple(row for index, row in enumerate(rows) if index not in used),
    )


def measured(pairs: Sequence[tuple[Row, Row]], policy: Policy | None) -> Measured:
    """By the policy's positive words; without a policy a pair agrees when both say the same, and what is positive is
    not known."""
    if policy is None:
        agreed = sum(verdict.value == outcome.value for verdict, outcome in pairs)
        return Measured(len(pairs), agreed / len(pairs) if pairs else None, None)
    said = [
        (verdict.value in policy.positive_verdicts, outcome.value in policy.positive_outcomes)
        for verdict, outcome in pairs
    ]
    predicted = [actual for positive, actual in said if positive]
    return Measured(
        len(pairs),
        sum(positive == actual for positive, actual in said) / len(said) if said else None,
        predicted.count(False) / len(predicted) if predicted else None,
    )


def shortcomings(found: Measured, policy: Policy | None) -> tuple[Reason, ...]:
    """Why the evidence does not qualify, () when it does. What was never measured satisfies no demand, except one that
    everything satisfies."""
    if policy is None:
        return ("no_policy",)
    reasons: list[Reason] = []
    if found.pairs < policy.min_pairs:
        reasons.append("min_pairs")
    if (0.0 if found.agreement is None else found.agreement) < policy.min_agreement:
        reasons.append("min_agreement")
    if (1.0 if found.false_positive is None else found.false_positive) > policy.max_false_positive:
        reasons.append("max_false_positive")
    return tuple(reasons)
