"""Copies that guests may spoil, as cheap as they can be."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from hermes_daemon.core.ports import Request, ToolSpec
from hermes_daemon.middleware.structural_copy import copied
from hermes_protocol.content import Message, TextPart

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
    max_leaves=20,
)


@given(JSON)
def test_a_copy_is_equal_and_shares_no_dict_or_list(value: Any) -> None:
    copy = copied(value)
    assert copy == value
    assert not _containers(copy) & _containers(value)


def test_what_cannot_be_changed_is_shared() -> None:
    message = Message("user", (TextPart("hello"),))
    messages = (message,) * 100
    assert copied(messages) is messages
    request = Request("m", "s", messages)
    copy = copied(request)
    assert copy == request
    assert copy.messages is messages


def test_a_dict_deep_inside_is_the_copys_own() -> None:
    request = Request("m", "s", (), (ToolSpec("t", "d", {"properties": {"a": {"enum": [1]}}}),))
    copied(request).tools[0].parameters["properties"]["a"]["enum"].append(2)
    assert request.tools[0].parameters == {"properties": {"a": {"enum": [1]}}}


def test_a_struct_that_can_be_changed_is_looked_into() -> None:
    class Open(msgspec.Struct):
        rows: list[int]

    before = Open([1])
    copied(before).rows.append(2)
    assert before.rows == [1]


def _containers(value: Any) -> set[int]:
    found: set[int] = set()
    if isinstance(value, (dict, list)):
        found.add(id(value))
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ():
        found |= _containers(each)
    return found
