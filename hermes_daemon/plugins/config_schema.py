"""A plugin's settings against the `config_schema` of its manifest: every problem at its JSON path."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

import msgspec

from hermes_daemon.plugins.manifest import ConfigField

TYPES: Final[dict[str, tuple[str, tuple[type, ...]]]] = {
    "string": ("text", (str,)),
    "secret": ("text", (str,)),
    "integer": ("a whole number", (int,)),
    "number": ("a number", (int, float)),
    "boolean": ("true or false", (bool,)),
    "array": ("a list", (list, tuple)),
    "object": ("names with values", (dict,)),
    "any": ("a value", (object,)),
}
ALIASES: Final = {"str": "string", "int": "integer", "float": "number", "bool": "boolean", "list": "array",
                  "dict": "object"}  # fmt: skip


class Problem(msgspec.Struct, frozen=True):
    """`fail`: the value is wrong and its default stands. `warn`: something is missing or unknown."""

    path: str
    message: str
    severity: Literal["fail", "warn"] = "fail"

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


def checked(
    schema: Mapping[str, ConfigField], values: Mapping[str, Any], secret: Callable[[str], str | None] = lambda _: None
) -> tuple[dict[str, Any], tuple[Problem, ...]]:
    """(the settings with their defaults, what is wrong with them). `secret(name)` reads an environment name."""
    settings: dict[str, Any] = {}
    problems: list[Problem] = []
    for key in [key for key in values if key not in schema]:
        near = difflib.get_close_matches(str(key), schema, 1)
        hint = f", did you mean {near[0]!r}?" if near else ""
        problems.append(Problem(f"$.{key}", f"there is no such setting{hint}", "warn"))
    for key, field in schema.items():
        given: Any = values.get(key, msgspec.UNSET)
        if given is msgspec.UNSET and field.env:
            found = secret(field.env)
            given = msgspec.UNSET if found is None else found
        if given is msgspec.UNSET:
            if field.default is not msgspec.UNSET:
                settings[key] = field.default
            elif field.required:
                problems.append(Problem(f"$.{key}", f"is required: {_expected(field)}"))
            continue
        fault = _fault(field, given)
        if fault:
            problems.append(Problem(f"$.{key}", fault))
            if field.default is not msgspec.UNSET:
                settings[key] = field.default
        else:
            settings[key] = given
    return settings, tuple(problems)


def schema_faults(schema: Mapping[str, ConfigField]) -> tuple[Problem, ...]:
    """What is wrong with a schema itself: unknown types, defaults that do not fit."""
    problems = []
    for key, field in schema.items():
        if _type(field.type) not in TYPES:
            known = ", ".join((*TYPES, *ALIASES))
            problems.append(Problem(f"$.config_schema.{key}.type", f"expected one of {known}, got {field.type!r}"))
        elif field.default not in (msgspec.UNSET, None) and (fault := _fault(field, field.default)):
            problems.append(Problem(f"$.config_schema.{key}.default", fault))
    return tuple(problems)


def _type(name: str) -> str:
    return ALIASES.get(name, name)


def _expected(field: ConfigField) -> str:
    choices = field.choices or field.enum
    if choices:
        return "one of " + ", ".join(map(str, choices))
    words = TYPES.get(_type(field.type), TYPES["any"])[0]
    bounds = [f"at least {field.minimum:g}"] if field.minimum is not None else []
    bounds += [f"at most {field.maximum:g}"] if field.maximum is not None else []
    return words + (" of " + " and ".join(bounds) if bounds else "")


def _fault(field: ConfigField, value: Any) -> str:
    """What is wrong with a value, "" when nothing is. A truth value is no number."""
    _, types = TYPES.get(_type(field.type), TYPES["any"])
    shown = "a secret" if field.secret or _type(field.type) == "secret" else repr(value)
    wrong = f"expected {_expected(field)}, got {shown if len(shown) < 80 else type(value).__name__}"
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types and object not in types):
        return wrong
    choices = field.choices or field.enum
    if choices and value not in choices:
        return wrong
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        low, high = field.minimum, field.maximum
        if (low is not None and value < low) or (high is not None and value > high):
            return wrong
    if field.items and isinstance(value, (list, tuple)):
        one = ConfigField(type=field.items)
        for index, each in enumerate(value):
            if fault := _fault(one, each):
                return f"[{index}]: {fault}"
    return ""
