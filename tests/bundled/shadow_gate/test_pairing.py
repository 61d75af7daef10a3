"""Which outcome belongs to which verdict, and what the pairs say."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_daemon.bundled.shadow_gate.ledger import Row
from hermes_daemon.bundled.shadow_gate.pairing import Measured, measured, paired, shortcomings
from hermes_daemon.bundled.shadow_gate.policy import Policy

POLICY = Policy(2, 0.5, 0.4, ("high", "critical"), ("denied",))


def verdict(key: str, value: str = "high") -> Row:
    return Row("verdict", key, value)


def outcome(key: str, value: str = "denied") -> Row:
    return Row("outcome", key, value)


def table(*rows: tuple[str, str]) -> tuple[tuple[Row, Row], ...]:
    return tuple((verdict(str(n), said), outcome(str(n), was)) for n, (said, was) in enumerate(rows))


def test_A2_2_an_outcome_belongs_to_the_latest_verdict_and_the_one_before_is_unpaired() -> None:
    first, second, came = verdict("k", "low"), verdict("k", "high"), outcome("k")
    found = paired([first, second, came])
    assert found.pairs == ((second, came),)
    assert found.unpaired == (first,)


def test_A2_3_an_outcome_before_its_verdict_is_unpaired() -> None:
    rows = [outcome("k"), verdict("k")]
    assert paired(rows) == paired(rows)
    assert paired(rows).pairs == ()
    assert paired(rows).unpaired == tuple(rows)


ROWS = st.lists(
    st.builds(
        Row,
        st.sampled_from(["verdict", "outcome"]),
        st.sampled_from(["a", "b", "c"]),
        st.sampled_from(["high", "low", "denied"]),
        st.integers(0, 10**6).map(str),
    ),
    max_size=30,
)


@given(ROWS)
def test_pairing_law_each_outcome_with_the_latest_earlier_verdict_of_its_key_and_every_other_row_unpaired(
    rows: list[Row],
) -> None:
    expected, used = [], set()
    for at, row in enumerate(rows):
        before = [n for n in range(at) if rows[n].kind == "verdict" and rows[n].key == row.key]
        if row.kind == "outcome" and before:
            expected.append((rows[before[-1]], row))
            used |= {before[-1], at}
    found = paired(rows)
    assert list(found.pairs) == expected
    assert list(found.unpaired) == [row for at, row in enumerate(rows) if at not in used]


@given(ROWS, st.randoms(use_true_random=False))
def test_pairing_law_keys_do_not_disturb_each_other(rows: list[Row], random: object) -> None:
    for key in ("a", "b", "c"):
        own = [row for row in rows if row.key == key]
        assert paired(own).pairs == tuple(pair for pair in paired(rows).pairs if pair[0].key == key)


def test_A2_9_false_positives_are_counted_of_the_positive_verdicts() -> None:
    pairs = table(
        ("high", "denied"),      # predicted, and so it was
        ("critical", "denied"),  # predicted, and so it was
        ("high", "approved"),    # predicted, and it was not
        ("low", "denied"),       # missed
        ("low", "approved"),     # rightly not predicted
        ("odd", "odd"),          # neither word is positive: they agree
    )  # fmt: skip
    assert measured(pairs, POLICY) == Measured(6, 4 / 6, 1 / 3)


@given(st.lists(st.tuples(st.sampled_from(["high", "low"]), st.sampled_from(["denied", "approved"])), max_size=20))
def test_figures_are_shares_or_unknown_where_nothing_was_measured(rows: list[tuple[str, str]]) -> None:
    found = measured(table(*rows), POLICY)
    assert found.pairs == len(rows)
    assert (found.agreement is None) == (not rows)
    assert (found.false_positive is None) == all(said == "low" for said, _ in rows)
    assert all(0 <= share <= 1 for share in (found.agreement, found.false_positive) if share is not None)


def test_A2_1_without_a_policy_nothing_qualifies_however_well_all_agrees() -> None:
    found = measured(table(*[("easy", "easy")] * 50), None)
    assert found == Measured(50, 1.0, None)
    assert shortcomings(found, None) == ("no_policy",)


Reasons = tuple[Literal["no_policy", "min_pairs", "min_agreement", "max_false_positive"], ...]


@pytest.mark.parametrize(
    ("found", "reasons"),
    [
        (Measured(2, 0.5, 0.4), ()),
        (Measured(1, 1.0, 0.0), ("min_pairs",)),
        (Measured(2, 0.49, 0.0), ("min_agreement",)),
        (Measured(2, 1.0, 0.41), ("max_false_positive",)),
        (Measured(2, 1.0, None), ("max_false_positive",)),
        (Measured(0, None, None), ("min_pairs", "min_agreement", "max_false_positive")),
    ],
)
def test_every_demand_that_is_not_met_is_a_reason(found: Measured, reasons: Reasons) -> None:
    assert shortcomings(found, POLICY) == reasons
