"""What a member of the wire is besides its type: experimental, or deprecated.

A method is marked in its row of METHODS, an event kind by its Struct's FEATURE, a field by its annotation:

    later: Annotated[str, experimental("drafts")] = ""
    older: Annotated[str, deprecated("use `cursor`")] = ""

A marked field has a default: whoever leaves it out neither needs a feature nor hears of a deprecation.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Annotated, Any, get_args, get_origin

import msgspec

from hermes_protocol.content import Wire

EXPERIMENTAL = "x-experimental"
DEPRECATED = "x-deprecated"


def experimental(feature: str) -> msgspec.Meta:
    """The annotation of a field that only clients use which name `feature` in capabilities.experimental."""
    return msgspec.Meta(extra_json_schema={EXPERIMENTAL: feature})


def deprecated(instead: str) -> msgspec.Meta:
    """The annotation of a field that will go with the next major version; `instead` says what to use."""
    return msgspec.Meta(extra_json_schema={"deprecated": True, DEPRECATED: instead})


class Mark(Wire, frozen=True):
    """One marked field: its JSON path below the params, and the feature it needs or what to use instead of it."""

    path: str
    feature: str = ""
    instead: str = ""


Look = Callable[[Any], list[Mark]]


def used(struct: type, params: Any) -> list[Mark]:
    """The marked fields that these params of type `struct` use. Costs nothing for a type without marks."""
    look = _look(struct, "$", ())
    return look(params) if look is not None else []


@functools.cache
def _look(annotation: Any, path: str, above: tuple[Any, ...]) -> Look | None:
    """What finds the marks in a value of this type; None where there cannot be one. `above` ends recursive types."""
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return None if annotation in above else _in_struct(annotation, path, (*above, annotation))
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _look(args[0], path, above)
    if origin in (tuple, list):
        return _each(_look(args[0], path + "[...]", above), iter)
    if origin is dict:
        return _each(_look(args[1], path + "[...]", above), lambda value: value.values())
    members = [(member, _look(member, path, above)) for member in args if isinstance(member, type)]
    looks = {member: look for member, look in members if look is not None}
    nothing: Look = lambda value: []  # noqa: E731
    return (lambda value: looks.get(type(value), nothing)(value)) if looks else None


def _in_struct(struct: type[msgspec.Struct], path: str, above: tuple[Any, ...]) -> Look | None:
    marked: list[tuple[msgspec.structs.FieldInfo, Mark]] = []
    below: list[tuple[str, Look]] = []
    for field in msgspec.structs.fields(struct):
        at = f"{path}.{field.encode_name}"
        extra = _extra(field.type)
        if EXPERIMENTAL in extra or DEPRECATED in extra:
            marked.append((field, Mark(at, extra.get(EXPERIMENTAL, ""), extra.get(DEPRECATED, ""))))
        look = _look(field.type, at, above)
        if look is not None:
            below.append((field.name, look))
    if not marked and not below:
        return None

    def look_in(value: Any) -> list[Mark]:
        marks = [mark for field, mark in marked if getattr(value, field.name) != field.default]
        for name, look in below:
            marks += look(getattr(value, name))
        return marks

    return look_in


def _each(look: Look | None, values: Callable[[Any], Any]) -> Look | None:
    return None if look is None else lambda value: [mark for each in values(value) for mark in look(each)]


def _extra(annotation: Any) -> dict[str, Any]:
    if get_origin(annotation) is not Annotated:
        return {}
    found: dict[str, Any] = {}
    for meta in get_args(annotation)[1:]:
        if isinstance(meta, msgspec.Meta):
            found |= meta.extra_json_schema or {}
    return found
