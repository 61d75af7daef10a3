"""JSON without the json module."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_local import codec

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(VALUES)
def test_it_writes_and_reads_what_json_does(value: object) -> None:
    text = codec.encode(value)
    assert json.loads(text) == value
    assert codec.decode(text) == value
    assert codec.decode(json.dumps(value, indent=1).encode()) == value
    assert "\n" not in text


@pytest.mark.parametrize("text", ["", "{", "[1,]", "tru", '{"a" 1}', "{} {}", "NaN", "Infinity", '"\n"'])
def test_what_is_no_json_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        codec.decode(text)


def test_broken_utf8_is_a_value_error() -> None:
    with pytest.raises(ValueError):
        codec.decode(b'"\xff"')


def test_lone_surrogates_become_replacement_characters_and_pairs_become_letters() -> None:
    assert codec.encode("a\udc80b\ud83d\ude00") == '"a\ufffdb\U0001f600"'


def test_a_value_that_cannot_be_written_does_not_spoil_the_next() -> None:
    shared = [1]
    for bad in ({"a": shared, "b": object()}, [float("nan")]):
        with pytest.raises((TypeError, ValueError)):
            codec.encode(bad)
    assert codec.encode([shared, shared]) == "[[1],[1]]"
