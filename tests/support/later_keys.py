"""Keys of a later version put into a frame: into every object that the protocol knows, and into none that is free."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec

from hermes_protocol.methods import METHODS, NOTIFICATIONS, InitializeParams

Draw = Callable[[], dict[str, Any]]
PARAMS: dict[str, type] = {
    "initialize": InitializeParams,
    **{name: row.params for name, row in METHODS.items()},
    **NOTIFICATIONS,
}


def padded_frame(frame: dict[str, Any], draw: Draw) -> dict[str, Any]:
    """The frame with new keys in its envelope and in every object of its params whose type has fields."""
    padded = {**draw(), **frame}
    kind = PARAMS.get(frame.get("method", ""))
    if kind is not None and "params" in frame:
        padded["params"] = _padded(frame["params"], kind, draw)
    return padded


def _padded(value: Any, annotation: Any, draw: Draw) -> Any:
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _padded(value, args[0], draw)
    if origin in (Union, types.UnionType):
        structs = [member for member in args if isinstance(member, type) and issubclass(member, msgspec.Struct)]
        chosen = [member for member in structs if _is(member, value)]
        return _padded(value, chosen[0], draw) if chosen else value
    if origin is tuple and isinstance(value, list):
        return [_padded(each, args[0], draw) for each in value]
    if origin is dict and isinstance(value, dict):
        return {name: _padded(each, args[1], draw) for name, each in value.items()}
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct) and isinstance(value, dict):
        fields = {field.encode_name: field.type for field in msgspec.structs.fields(annotation)}
        known = {name: _padded(each, fields[name], draw) for name, each in value.items() if name in fields}
        new = {name: each for name, each in draw().items() if name not in fields}
        return {**new, **value, **known}
    return value


def _is(struct: type[msgspec.Struct], value: Any) -> bool:
    tag = struct.__struct_config__.tag
    return isinstance(value, dict) and (tag is None or value.get(str(struct.__struct_config__.tag_field)) == tag)
