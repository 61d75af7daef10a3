"""Hypothesis strategies for every Struct of the wire, made from its annotations: nothing to keep up to date."""

from __future__ import annotations

import types
from typing import Any, Literal, Union, get_args, get_origin

import msgspec
from hypothesis import strategies as st

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda below: st.lists(below, max_size=2) | st.dictionaries(TEXT, below, max_size=2),
    max_leaves=4,
)


def samples(annotation: Any) -> st.SearchStrategy[Any]:
    """Values of an annotation as the wire uses them: Structs, unions, tuples, dicts, literals and scalars."""
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return _struct(annotation)
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return st.sampled_from(args)
    if origin in (Union, types.UnionType):
        return st.one_of([samples(member) for member in args])
    if origin is tuple:
        return st.lists(samples(args[0]), max_size=2).map(tuple)
    if origin is dict:
        return st.dictionaries(samples(args[0]), samples(args[1]), max_size=2)
    scalars: dict[Any, st.SearchStrategy[Any]] = {
        str: TEXT,
        int: st.integers(-(2**53), 2**53),
        float: st.floats(allow_nan=False, allow_infinity=False),
        bool: st.booleans(),
        type(None): st.none(),
        msgspec.UnsetType: st.nothing(),  # a field that is not there: optional ones are left out as it is
        msgspec.Raw: JSON.map(lambda value: msgspec.Raw(msgspec.json.encode(value))),
        Any: JSON,
    }
    return scalars[annotation]


def _struct(struct: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    fields = msgspec.structs.fields(struct)
    required = {field.name: samples(field.type) for field in fields if field.required}
    optional = {field.name: samples(field.type) for field in fields if not field.required}
    return st.fixed_dictionaries(required, optional=optional).map(lambda given: struct(**given))
