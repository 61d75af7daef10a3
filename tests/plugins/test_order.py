"""Plugins behind those they need."""

from hypothesis import given
from hypothesis import strategies as st

from hermes_daemon.plugins.order import load_order

IDS = st.sampled_from("abcdef")


@given(st.dictionaries(IDS, st.lists(IDS, max_size=3, unique=True)))
def test_everything_is_ordered_or_has_its_fault(needs: dict[str, list[str]]) -> None:
    order, faults = load_order(needs)
    assert sorted([*order, *faults]) == sorted(needs)
    for position, id in enumerate(order):
        assert set(needs[id]) <= set(order[:position])


def test_a_circle_and_what_hangs_on_it_are_named() -> None:
    order, faults = load_order({"a": ["b"], "b": ["c"], "c": ["b"], "d": []})
    assert order == ["d"]
    assert faults == {
        "a": "needs b, which failed",
        "b": "is in a circle: b -> c -> b",
        "c": "is in a circle: c -> b -> c",
    }
