"""Arguments of a tool call: from the text a model wrote to an object that fits the card, or a Rejected that says why.

A text that breaks off is never completed: a command cut in its middle is another command.
"""

from __future__ import annotations

import json
import math
from typing import Any

from hermes_daemon.core.json_schema import fit
from hermes_daemon.core.lenient_json import BrokenOff, NotJson, read_lenient
from hermes_daemon.core.ports import Rejected, ToolCard

ECHO = 800
"""Characters of a bad text that are shown back to the model."""


def parse_arguments(raw: str, card: ToolCard, *, cut: bool = False) -> dict[str, Any]:
    """The arguments of a call of `card`, checked against its schema and coerced where nothing is lost.

    An empty or blank text is `{}`. A JSON string that holds an object is unwrapped once. Small slips (trailing commas,
    raw line breaks inside strings, single quotes, a Markdown fence) are read as meant. With `cut` the model's output
    ended at its limit: then only a text that is complete, strict JSON is taken. Raises Rejected with the JSON path.
    """
    if cut and not raw.strip():
        raise Rejected(_cut_off(raw))
    value = _read(raw, cut)
    if isinstance(value, str) and value.lstrip().startswith("{"):
        value = _read(value, cut)
    if not isinstance(value, dict):
        raise Rejected(f"arguments must be a JSON object, got {_kind(value)}. {echo(raw)}")
    return _checked(value, card, raw)


def echo(raw: str) -> str:
    """The text as received, bounded, with its full length told."""
    if len(raw) <= ECHO:
        return f"Received: {raw}"
    return f"Received ({len(raw)} characters, the first {ECHO} shown): {raw[:ECHO]}"


def _checked(value: dict[str, Any], card: ToolCard, raw: str) -> dict[str, Any]:
    try:
        _no_lone_surrogates(value, "$")
        fitted = fit(value, card.parameters)
    except RecursionError:
        raise Rejected(f"arguments are nested too deeply. {echo(raw)}") from None
    assert isinstance(fitted, dict)  # an object stays one
    return fitted


def _read(raw: str, cut: bool) -> Any:
    if not raw.strip():
        return {}
    try:
        return json.loads(raw, object_pairs_hook=_pairs, parse_float=_finite, parse_constant=_no_constant)
    except RecursionError:
        raise Rejected(f"arguments are nested too deeply. {echo(raw)}") from None
    except ValueError as strict:
        if cut:
            raise Rejected(_cut_off(raw)) from None
        try:
            return read_lenient(raw)
        except RecursionError:
            raise Rejected(f"arguments are nested too deeply. {echo(raw)}") from None
        except BrokenOff as error:
            raise Rejected(
                f"the arguments break off ({error}), so the call was not run. Send the whole call again; "
                f"split a long text over several calls. {echo(raw)}"
            ) from None
        except NotJson as lenient:
            raise Rejected(f"arguments are not JSON: {_strict_words(strict, lenient)}. {echo(raw)}") from None


def _strict_words(strict: ValueError, lenient: NotJson) -> str:
    """The strict parser's words where it is at fault with the text, ours where it stumbled over a value."""
    return f"{strict.msg} at character {strict.pos}" if isinstance(strict, json.JSONDecodeError) else str(lenient)


def _cut_off(raw: str) -> str:
    return (
        "the call was cut off by the model's output limit, so it was not run. Send it again, shorter or split over "
        f"several calls. {echo(raw)}"
    )


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; the same key twice with different values is not a choice to make for the model."""
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result and result[key] != value:
            raise NotJson(f"the key {key!r} stands twice with different values")
        result[key] = value
    return result


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise NotJson(f"the number {text} is too large")
    return value


def _no_constant(text: str) -> float:
    raise NotJson(f"{text} is not a JSON value")


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, str):
        return "a string"
    return "an array" if isinstance(value, list) else "a number"


def _no_lone_surrogates(value: Any, path: str) -> None:
    """Half a surrogate pair is no character: it would fail far away, at the first encoding."""
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise Rejected("the text holds half of a surrogate pair, which is no character", path) from None
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            _no_lone_surrogates(entry, f"{path}[{index}]")
    elif isinstance(value, dict):
        for key, entry in value.items():
            _no_lone_surrogates(key, path)
            _no_lone_surrogates(entry, f"{path}.{key}")
