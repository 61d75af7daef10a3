"""Plain values to the Structs of core.settings, with every fault reported at its key and not only the first."""

from __future__ import annotations

import math
import types
from collections.abc import Collection
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from hermes_daemon.config.problem import Key, Notes, nearest
from hermes_daemon.core.settings import Section, Settings

_BOOLEAN_WORDS = {"yes": True, "on": True, "no": False, "off": False}


def decode(values: dict[str, Any], notes: Notes, expanded: Collection[Key] = ()) -> Settings:
    """The settings. A value that does not fit is an error in `notes` and its default stands instead; an unknown key
    is a warning with the nearest known one. Strings at `expanded` keys came from variables: they may stand for
    numbers and truth values, and are not repeated in messages."""
    settings = _Decoder(notes, frozenset(expanded)).struct(values, Settings, ())
    return settings if isinstance(settings, Settings) else Settings()


def struct_in(annotation: Any) -> type[Section] | None:
    """The Section an annotation allows, if any: itself, or a member of a union."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    if get_origin(annotation) in (Union, types.UnionType):
        return next((found for member in get_args(annotation) if (found := struct_in(member))), None)
    return None


def expectation(annotation: Any) -> str:
    """What a setting may be, in words: `a whole number of at least 1`."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        bounds = [
            f"{word} {bound:g}"
            for meta in args[1:]
            for word, bound in (("at least", meta.ge), ("at most", meta.le), ("above", meta.gt), ("below", meta.lt))
            if bound is not None
        ]
        return f"{expectation(args[0])} of {' and '.join(bounds)}" if bounds else expectation(args[0])
    if origin is Literal:
        return " or ".join(f"`{word}`" for word in args)
    if origin in (Union, types.UnionType):
        return " or ".join(expectation(member) for member in args)
    if origin is tuple:
        return f"a list, each entry {expectation(args[0])}"
    if origin is dict:
        return f"names, each with {expectation(args[1])}"
    if struct_in(annotation):
        return "a section"
    words = {str: "text", int: "a whole number", float: "a number", bool: "true or false", type(None): "null"}
    return words.get(annotation, "a value")


class _Decoder:
    def __init__(self, notes: Notes, expanded: frozenset[Key]) -> None:
        self.notes, self.expanded = notes, expanded

    def value(self, value: Any, annotation: Any, key: Key) -> Any:
        """The typed value, or UNSET after an error."""
        struct = struct_in(annotation)
        if struct is not None and (isinstance(value, dict) or get_origin(annotation) is None):
            return self.struct(value, struct, key)
        origin, args = get_origin(annotation), get_args(annotation)
        if origin is dict and (value is None or isinstance(value, dict)):
            below = {name: self.value(each, args[1], (*key, name)) for name, each in (value or {}).items()}
            return {name: each for name, each in below.items() if each is not msgspec.UNSET}
        if origin is tuple and (value is None or isinstance(value, list)):
            entries = [self.value(each, args[0], (*key, index)) for index, each in enumerate(value or [])]
            return tuple(each for each in entries if each is not msgspec.UNSET)
        return self.scalar(value, annotation, key)

    def struct(self, value: Any, struct: type[Section], key: Key) -> Any:
        if value is None:  # A section whose lines are all commented out.
            value = {}
        if not isinstance(value, dict):
            self.notes.error(f"expected a section with names such as `{_names(struct)[0]}`, got {_shown(value)}", key)
            return msgspec.UNSET
        fields = {field.encode_name: field for field in msgspec.structs.fields(struct)}
        given: dict[str, Any] = {}
        for name, below in value.items():
            if name not in fields:
                self.notes.warn(f"unknown setting{nearest(name, fields)}; it has no effect", (*key, name))
                continue
            typed = self.value(below, fields[name].type, (*key, name))
            if typed is not msgspec.UNSET:
                given[fields[name].name] = typed
        missing = [name for name, field in fields.items() if field.required and name not in value]
        for name in missing:
            self.notes.error(f"`{name}` is missing: expected {expectation(fields[name].type)}", key)
        if missing or any(field.required and field.name not in given for field in fields.values()):
            return msgspec.UNSET
        return struct(**given)

    def scalar(self, value: Any, annotation: Any, key: Key) -> Any:
        from_variable = key in self.expanded
        if isinstance(value, str) and _plain(annotation) is bool:
            value = _BOOLEAN_WORDS.get(value.lower(), value)
        try:
            typed = msgspec.convert(value, annotation, strict=not from_variable)
            if isinstance(typed, float) and not math.isfinite(typed):
                raise msgspec.ValidationError("a number that JSON cannot carry")
            return typed
        except msgspec.ValidationError:
            shown = "the text of a variable that is not" if from_variable else _shown(value)
            hint = "; put it in quotes" if _plain(annotation) is str and isinstance(value, int | float) else ""
            self.notes.error(f"expected {expectation(annotation)}, got {shown}{hint}", key)
            return msgspec.UNSET


def _plain(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _names(struct: type[Section]) -> list[str]:
    return [field.encode_name for field in msgspec.structs.fields(struct)]


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "a section"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    text = text if len(text) <= 60 else text[:57] + "…"
    return f"the text {text!r}" if isinstance(value, str) else f"the number {text}"
