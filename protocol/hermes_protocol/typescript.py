"""The wire as TypeScript: one interface for each type, and maps from method, notification and event names to them.

Made of the JSON Schema document, so that both say the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

FRAMES = ("Request", "Notification", "Answer.frame")

HEAD = """\
// Generated from hermes_protocol. A field with `?` may be left out and then has the default told beside it. Both sides
// ignore what they do not know: a word or a kind may be one of a later version.
"""


def module(document: dict[str, Any]) -> str:
    """The text of the module for a document as hermes_protocol.schema gives it."""
    return "\n".join([HEAD, f"export const PROTOCOL_VERSION = {_word(document['version'])};\n", *_parts(document)])


def _parts(document: dict[str, Any]) -> Iterator[str]:
    for name, definition in document["$defs"].items():
        if name not in FRAMES:
            yield _interface(name, definition)
    yield _map("Methods", "Every request of a client.", {
        name: f"{{ params: {_type(row['params'])}; result: {_type(row['result'])} }}"
        for name, row in document["methods"].items()
    })  # fmt: skip
    for side, title in (("client", "ClientNotifications"), ("daemon", "DaemonNotifications")):
        rows = document["notifications"][side]
        yield _map(title, f"What the {side} announces.", {name: _type(row["params"]) for name, row in rows.items()})
    yield _map("Events", "The `data` of hermes/event by its `kind`.", {
        kind: _type(schema) for kind, schema in document["events"].items()
    })  # fmt: skip
    yield "/** A hermes/event of a kind that this version knows. */"
    yield (
        "export type KnownEvent = "
        "{ [K in keyof Events]: Omit<Event, 'kind' | 'data'> & { kind: K; data: Events[K] } }[keyof Events];\n"
    )
    codes = "".join(f"  {kind}: {row['code']},\n" for kind, row in document["errors"].items())
    yield "/** `error.data.kind` is what a program looks at; the code is for JSON-RPC. */"
    yield f"export const ERROR_CODES = {{\n{codes}}} as const;\n"


def _interface(name: str, definition: dict[str, Any]) -> str:
    if "properties" not in definition:
        return f"{_comment(definition)}export type {name} = {_type(definition)};\n"
    required = definition.get("required", [])
    lines = []
    for field, schema in definition["properties"].items():
        default = "" if schema.get("default") is None else f" // {_default(schema['default'])}"
        lines.append(f"  {field}{'' if field in required else '?'}: {_type(schema)};{default}\n")
    return f"{_comment(definition)}export interface {name} {{\n{''.join(lines)}}}\n"


def _map(title: str, sentence: str, rows: dict[str, str]) -> str:
    lines = "".join(f"  {_word(name)}: {type_};\n" for name, type_ in rows.items())
    return f"/** {sentence} */\nexport interface {title} {{\n{lines}}}\n"


def _comment(definition: dict[str, Any]) -> str:
    text = " ".join(definition.get("description", "").replace("*/", "* /").split())
    return f"/** {text} */\n" if text else ""


def _default(value: Any) -> str:
    return "default " + json.dumps(value, ensure_ascii=False)


def _word(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "const" in schema:
        return _word(schema["const"])
    if "enum" in schema:
        return " | ".join(json.dumps(word) for word in schema["enum"])
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(_type(each) for each in schema["anyOf"]))
    kind = schema.get("type")
    if isinstance(kind, list):
        return " | ".join(_type({**schema, "type": each}) for each in kind)
    if kind == "array":
        below = _type(schema.get("items", {}))
        return f"({below})[]" if " | " in below else f"{below}[]"
    if kind == "object":
        values = schema.get("additionalProperties")
        return f"Record<string, {_type(values) if isinstance(values, dict) else 'unknown'}>"
    scalars = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
    return scalars.get(str(kind), "unknown")
