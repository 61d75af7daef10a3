"""The fields of a form: a flat JSON Schema read as questions, and what people type read as its values.

Flat means: an object whose properties are strings, numbers, truth values, or one or several of given words.
"""

from __future__ import annotations

import json
import re
from typing import Any

Schema = dict[str, Any]
TRUE = frozenset({"y", "yes", "true", "on", "1"})
FALSE = frozenset({"n", "no", "false", "off", "0"})


class Wrong(ValueError):
    """What was typed does not fit; the message says what was expected."""


class Field:
    """One property. `label` is what people read, `kind` its JSON type."""

    __slots__ = ("default", "kind", "label", "name", "required", "schema")

    def __init__(self, name: str, schema: Schema, required: bool) -> None:
        self.name = name
        self.schema = schema
        self.required = required
        kind = schema.get("type", "string")
        self.kind = next((one for one in kind if one != "null"), "string") if isinstance(kind, list) else str(kind)
        self.label = str(schema.get("title") or name)
        self.default = schema.get("default")

    @property
    def choices(self) -> list[Any]:
        """The values it may have, [] for any."""
        return _choices(self.schema.get("items", {}) if self.kind == "array" else self.schema)

    @property
    def labels(self) -> list[str]:
        """What people read for each of the choices."""
        within = self.schema.get("items", {}) if self.kind == "array" else self.schema
        named = within.get("oneOf") or within.get("anyOf") or ()
        titles = within.get("enumNames") or [one.get("title") for one in named if "const" in one]
        return [str(titles[n]) if n < len(titles) and titles[n] else said(one) for n, one in enumerate(self.choices)]

    @property
    def hint(self) -> str:
        """What may be typed: `number from 1 to 5, Enter takes 3`."""
        words = {"boolean": "y or n", "integer": "whole number", "number": "number", "array": "numbers by commas"}
        told = "a number of the list" if self.choices and self.kind != "array" else words.get(self.kind, "text")
        low, high = self.schema.get("minimum"), self.schema.get("maximum")
        if self.kind in ("integer", "number") and (low is not None or high is not None):
            told += (f" from {low}" if low is not None else "") + (f" to {high}" if high is not None else "")
        if self.default is not None:
            return f"{told}, Enter takes {said(self.default)}"
        return told if self.required else f"{told}, Enter leaves it out"

    def read(self, text: str) -> Any:
        """The value that `text` means; None = left out. Wrong where it does not fit."""
        text = text if self.kind == "string" and not self.choices else text.strip()
        if not text.strip():
            if self.default is not None:
                return self.default
            if self.required:
                raise Wrong(f"{self.label} is needed: expected {self.hint}")
            return None
        if self.kind == "array":
            return self._several(text)
        if self.choices:
            return self._choice(text)
        if self.kind == "boolean":
            return self._truth(text)
        if self.kind in ("integer", "number"):
            return self._number(text)
        return self._string(text)

    def _truth(self, text: str) -> bool:
        if text.lower() in TRUE | FALSE:
            return text.lower() in TRUE
        raise Wrong(f"{self.label}: expected y or n, got {text!r}")

    def _number(self, text: str) -> int | float:
        try:
            value: int | float = int(text) if self.kind == "integer" else float(text)
        except ValueError:
            raise Wrong(f"{self.label}: expected a {'whole ' * (self.kind == 'integer')}number, got {text!r}") from None
        if value != value or value in (float("inf"), float("-inf")):
            raise Wrong(f"{self.label}: expected a number, got {text!r}")
        low, high = self.schema.get("minimum"), self.schema.get("maximum")
        if low is not None and value < low:
            raise Wrong(f"{self.label}: expected at least {low}, got {text}")
        if high is not None and value > high:
            raise Wrong(f"{self.label}: expected at most {high}, got {text}")
        return value

    def _string(self, text: str) -> str:
        least, most = self.schema.get("minLength"), self.schema.get("maxLength")
        if least is not None and len(text) < least:
            raise Wrong(f"{self.label}: expected at least {least} characters, got {len(text)}")
        if most is not None and len(text) > most:
            raise Wrong(f"{self.label}: expected at most {most} characters, got {len(text)}")
        pattern = self.schema.get("pattern")
        if isinstance(pattern, str) and not _matches(pattern, text):
            raise Wrong(f"{self.label}: expected text that matches {pattern}")
        return text

    def _choice(self, text: str) -> Any:
        choices, labels = self.choices, self.labels
        if text.isdecimal() and 0 < int(text) <= len(choices):
            return choices[int(text) - 1]
        for value, label in zip(choices, labels, strict=True):
            if text in (label, said(value)):
                return value
        raise Wrong(f"{self.label}: expected a number from 1 to {len(choices)} or one of {', '.join(labels)}")

    def _several(self, text: str) -> list[Any]:
        parts = [part.strip() for part in text.split(",") if part.strip()]
        values = [self._choice(part) for part in parts] if self.choices else list(parts)
        least, most = self.schema.get("minItems"), self.schema.get("maxItems")
        if least is not None and len(values) < least:
            raise Wrong(f"{self.label}: expected at least {least} of them, got {len(values)}")
        if most is not None and len(values) > most:
            raise Wrong(f"{self.label}: expected at most {most} of them, got {len(values)}")
        return values


def fields(schema: Schema | None) -> list[Field]:
    """The fields of a form, in the order of its schema."""
    properties = (schema or {}).get("properties", {})
    required = (schema or {}).get("required", ())
    return [Field(name, dict(one), name in required) for name, one in properties.items() if isinstance(one, dict)]


def said(value: Any) -> str:
    """A value as people write it."""
    if isinstance(value, bool):
        return "y" if value else "n"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _choices(schema: Schema) -> list[Any]:
    if isinstance(schema.get("enum"), list):
        return list(schema["enum"])
    named = schema.get("oneOf") or schema.get("anyOf") or ()
    return [one["const"] for one in named if isinstance(one, dict) and "const" in one]


def _matches(pattern: str, text: str) -> bool:
    """Whether `text` holds `pattern`; one that Python cannot read is left to the daemon."""
    try:
        return re.search(pattern, text) is not None
    except re.error:
        return True
