from __future__ import annotations

import pytest

from hermes_daemon.providers.prices import Price, count, with_cost
from hermes_protocol.content import Usage

USAGE = Usage(1000, 100, cache_read_tokens=600, cache_write_tokens=200)


def test_cached_tokens_have_their_own_price() -> None:
    cost = with_cost(USAGE, Price(2.0, 10.0, 0.2, 2.5)).cost
    assert cost == pytest.approx((200 * 2 + 600 * 0.2 + 200 * 2.5 + 100 * 10) / 1e6)


def test_without_one_they_cost_what_input_costs() -> None:
    assert with_cost(USAGE, Price(2.0, 10.0)).cost == pytest.approx((1000 * 2 + 100 * 10) / 1e6)
    assert with_cost(USAGE, Price(2.0, 10.0, 0.0)).cost == pytest.approx((400 * 2 + 100 * 10) / 1e6)


def test_an_unknown_price_gives_no_cost_and_a_told_one_stays() -> None:
    assert with_cost(USAGE, None).cost is None
    assert with_cost(Usage(1, 1, cost=0.5), Price(1, 1)).cost == 0.5


@pytest.mark.parametrize("value", [None, "7", -1, True, 1e30, [], 0])
def test_what_is_no_count_counts_nothing(value: object) -> None:
    assert count({"a": value}, "a") == 0
    assert count({"a": value, "b": 3.0}, "a", "b") == 3
    assert count(value, "a") == 0
