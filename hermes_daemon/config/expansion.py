"""`${NAME}`, `${NAME:-default}` and `$$` in the strings of a configuration.

Works on values that are already parsed, and its results are never parsed again: a variable that holds `x: y`, a quote
or another `${…}` stays exactly that text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from hermes_daemon.config.problem import Key, Notes

_TOKEN = re.compile(r"\$\$|\$\{([^}]*)\}")
_NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:(:-)(.*))?\Z", re.DOTALL)


class Expanded(msgspec.Struct, frozen=True):
    """The values after expansion, and which keys hold text that came from variables (with the variables' names)."""

    values: Any
    variables: dict[Key, tuple[str, ...]]


def expand(values: Any, lookup: Callable[[str], str | None], notes: Notes) -> Expanded:
    """Expand every string below `values`. An unset variable without a default is an error naming key and variable;
    `:-` also replaces an empty variable, as in a shell. `${…}` around anything but a name stays, with a warning."""
    variables: dict[Key, tuple[str, ...]] = {}

    def walk(value: Any, key: Key) -> Any:
        if isinstance(value, dict):
            return {name: walk(below, (*key, name)) for name, below in value.items()}
        if isinstance(value, list):
            return [walk(below, (*key, index)) for index, below in enumerate(value)]
        if not isinstance(value, str) or "$" not in value:
            return value
        used: list[str] = []
        text = _TOKEN.sub(lambda match: _replace(match, lookup, notes, key, used), value)
        if used:
            variables[key] = tuple(used)
        return text

    return Expanded(walk(values, ()), variables)


def _replace(match: re.Match[str], lookup: Callable[[str], str | None], notes: Notes, key: Key, used: list[str]) -> str:
    if match[0] == "$$":
        return "$"
    parts = _NAME.match(match[1])
    if parts is None:
        notes.warn(f"{match[0]} is left as it is: expected ${{NAME}} or ${{NAME:-default}}; write $$ for a $", key)
        return match[0]
    name, has_default, default = parts.groups()
    value = lookup(name)
    used.append(name)
    if has_default:
        return value or default
    if value is None:
        notes.error(f"the environment variable {name} is not set; set it, or write ${{{name}:-default}}", key)
        return ""
    return value
