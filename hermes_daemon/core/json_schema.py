"""A value against a JSON Schema, and made to fit where nothing is lost.

The keywords that tool schemas use: type, enum, const, properties, required, additionalProperties, items, anyOf, oneOf,
allOf, $ref into $defs, and the limits of numbers, strings and arrays. Others are notes and are not judged.
"""

from __future__ import annotations

import difflib
import json
import re
from typing import Any

from hermes_daemon.core.ports import Rejected

_INTEGER = re.compile(r"-?(?:0|[1-9]\d*)")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d{1,3})?")
_NAMES = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "array": "an array",
    "object": "an object",
    "null": "null",
}


def fit(value: Any, schema: dict[str, Any]) -> Any:
    """The value, coerced where nothing is lost ("3" for an integer, "true", 3.0). Raises Rejected with the JSON path.

    `null` for an optional property that does not take null means that it was left out.
    """
    return _fit(value, schema, "$", schema.get("$defs", {}))


def _fit(value: Any, schema: Any, path: str, defs: dict[str, Any]) -> Any:
    if schema is True or schema == {}:
        return value
    if schema is False:
        raise Rejected("no value is allowed here", path)
    if "$ref" in schema:
        return _fit(value, defs.get(str(schema["$ref"]).rsplit("/", 1)[-1], {}), path, defs)
    for word in ("anyOf", "oneOf"):
        if word in schema:
            value = _first_fit(value, schema[word], path, defs)
    for part in schema.get("allOf", ()):
        value = _fit(value, part, path, defs)
    if "type" in schema:
        value = _typed(value, schema["type"], path)
    _enumerated(value, schema, path)
    if isinstance(value, dict):
        return _object(value, schema, path, defs)
    if isinstance(value, list):
        return _array(value, schema, path, defs)
    if isinstance(value, str):
        _string(value, schema, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        _number(value, schema, path)
    return value


def _first_fit(value: Any, choices: list[Any], path: str, defs: dict[str, Any]) -> Any:
    """The first choice the value fits as it is, else the first it can be coerced to, else the nearest complaint."""
    complaints: list[Rejected] = []
    coerced: list[Any] = []
    for choice in choices:
        try:
            fitted = _fit(value, choice, path, defs)
        except Rejected as error:
            complaints.append(error)
            continue
        if type(fitted) is type(value) and fitted == value:
            return fitted
        coerced.append(fitted)
    if coerced:
        return coerced[0]
    deepest = max(complaints, key=lambda error: len(error.path))
    if deepest.path != path or len(complaints) == 1:
        raise deepest
    raise Rejected(" or ".join(dict.fromkeys(error.message for error in complaints)), path)


def _typed(value: Any, kinds: str | list[str], path: str) -> Any:
    allowed = [kinds] if isinstance(kinds, str) else list(kinds)
    if any(_is(value, kind) for kind in allowed):
        return int(value) if isinstance(value, float) and "number" not in allowed else value
    for kind in allowed:
        done, result = _coerce(value, kind)
        if done:
            return result
    wanted = " or ".join(_NAMES.get(kind, kind) for kind in allowed)
    raise Rejected(f"expected {wanted}, got {_shown(value)}", path)


def _is(value: Any, kind: str) -> bool:
    if kind == "integer":
        whole = isinstance(value, float) and value.is_integer()
        return whole or (isinstance(value, int) and not isinstance(value, bool))
    if kind == "number":
        return isinstance(value, int | float) and not isinstance(value, bool)
    types = {"string": str, "boolean": bool, "array": list, "object": dict, "null": type(None)}
    return isinstance(value, types.get(kind, object))


def _coerce(value: Any, kind: str) -> tuple[bool, Any]:
    """(whether it can be done without loss, the value)."""
    if kind == "string" and isinstance(value, int) and not isinstance(value, bool):
        return True, str(value)
    if not isinstance(value, str):
        return False, None
    text = value.strip()
    if kind in ("integer", "number") and _INTEGER.fullmatch(text) and len(text) < 1000:
        return True, int(text)
    if kind == "number" and _NUMBER.fullmatch(text):
        return True, float(text)
    if kind == "boolean" and text.lower() in ("true", "false"):
        return True, text.lower() == "true"
    if (kind == "array" and text.startswith("[")) or (kind == "object" and text.startswith("{")):
        try:
            return True, json.loads(text)
        except ValueError:
            return False, None
    return False, None


def _enumerated(value: Any, schema: dict[str, Any], path: str) -> None:
    allowed = [schema["const"]] if "const" in schema else schema.get("enum")
    if allowed is None or any(type(value) is type(entry) and value == entry for entry in allowed):
        return
    raise Rejected(f"expected one of {', '.join(json.dumps(entry) for entry in allowed)}, got {_shown(value)}", path)


def _object(value: dict[str, Any], schema: dict[str, Any], path: str, defs: dict[str, Any]) -> dict[str, Any]:
    properties: dict[str, Any] = schema.get("properties", {})
    required = schema.get("required", ())
    more = schema.get("additionalProperties", True)
    result: dict[str, Any] = {}
    for key, entry in value.items():
        inner = f"{path}.{key}"
        if key in properties:
            if entry is None and key not in required and not _takes_null(properties[key], defs):
                continue
            result[key] = _fit(entry, properties[key], inner, defs)
        elif more is False:
            raise Rejected(_unknown(key, properties), inner)
        else:
            result[key] = _fit(entry, more, inner, defs)
    for key in required:
        if key not in result:
            raise Rejected(f"required, and missing{_present(value)}", f"{path}.{key}")
    return result


def _unknown(key: str, properties: dict[str, Any]) -> str:
    near = difflib.get_close_matches(key, properties, 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"not an argument of this tool, which takes {', '.join(properties) or 'none'}{hint}"


def _present(value: dict[str, Any]) -> str:
    return f"; given were {', '.join(list(value)[:20])}" if value else "; no arguments were given"


def _takes_null(schema: Any, defs: dict[str, Any]) -> bool:
    try:
        return _fit(None, schema, "$", defs) is None
    except Rejected:
        return False


def _array(value: list[Any], schema: dict[str, Any], path: str, defs: dict[str, Any]) -> list[Any]:
    least, most = schema.get("minItems"), schema.get("maxItems")
    if least is not None and len(value) < least:
        raise Rejected(f"expected at least {least} entries, got {len(value)}", path)
    if most is not None and len(value) > most:
        raise Rejected(f"expected at most {most} entries, got {len(value)}", path)
    items = schema.get("items", True)
    return [_fit(entry, items, f"{path}[{index}]", defs) for index, entry in enumerate(value)]


def _string(value: str, schema: dict[str, Any], path: str) -> None:
    least, most, pattern = schema.get("minLength"), schema.get("maxLength"), schema.get("pattern")
    if least is not None and len(value) < least:
        raise Rejected(f"expected at least {least} characters, got {len(value)}", path)
    if most is not None and len(value) > most:
        raise Rejected(f"expected at most {most} characters, got {len(value)}", path)
    if pattern is not None and not re.search(pattern, value):
        raise Rejected(f"expected text that matches {pattern}, got {_shown(value)}", path)


def _number(value: int | float, schema: dict[str, Any], path: str) -> None:
    limits = (
        ("minimum", value >= schema.get("minimum", value), ">="),
        ("maximum", value <= schema.get("maximum", value), "<="),
        ("exclusiveMinimum", value > schema.get("exclusiveMinimum", value - 1), ">"),
        ("exclusiveMaximum", value < schema.get("exclusiveMaximum", value + 1), "<"),
    )
    for word, holds, sign in limits:
        if word in schema and not holds:
            raise Rejected(f"expected a number {sign} {schema[word]}, got {_shown(value)}", path)


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 100 else f"{text[:100]}… ({len(text)} characters)"
