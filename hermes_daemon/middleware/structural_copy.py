"""Copies for guests: what a link does to its copy stays with it, and what cannot be changed is not copied."""

from __future__ import annotations

import functools
import typing
from types import UnionType
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")
_ATOMS = (str, int, float, bool, bytes, type(None))


def copied(value: T) -> T:
    """`value` with every dict and list in it made new. Frozen parts that hold none are shared."""
    return typing.cast(T, _copied(value))


def _copied(value: Any) -> Any:
    if isinstance(value, _ATOMS):
        return value
    if isinstance(value, dict):
        return {key: _copied(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_copied(each) for each in value]
    if isinstance(value, tuple):
        parts = [_copied(each) for each in value]
        return value if all(new is old for new, old in zip(parts, value, strict=True)) else tuple(parts)
    if isinstance(value, msgspec.Struct):
        return value if _is_rigid(type(value)) else _struct(value)
    return value


def _struct(value: msgspec.Struct) -> msgspec.Struct:
    changed = {}
    for name in value.__struct_fields__:
        old = getattr(value, name)
        new = _copied(old)
        if new is not old:
            changed[name] = new
    return msgspec.structs.replace(value, **changed) if changed else value


@functools.cache
def _is_rigid(kind: type[msgspec.Struct]) -> bool:
    """True for a frozen Struct whose fields, by their types, hold nothing that can be changed."""
    if not kind.__struct_config__.frozen:
        return False
    try:
        hints = typing.get_type_hints(kind)
    except (NameError, TypeError):
        return False
    return all(_rigid(hints[name], frozenset({kind})) for name in kind.__struct_fields__)


def _rigid(hint: Any, seen: frozenset[type]) -> bool:
    origin = typing.get_origin(hint)
    if hint in _ATOMS or hint is Ellipsis or origin is typing.Literal:
        return True
    if origin in (typing.Union, UnionType, tuple):
        return all(_rigid(each, seen) for each in typing.get_args(hint))
    if origin is typing.Annotated:
        return _rigid(typing.get_args(hint)[0], seen)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return hint in seen or _is_rigid(hint)
    return False
