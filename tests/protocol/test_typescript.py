"""The TypeScript module says what the schema says; that a compiler takes it is tested in tests/real."""

from __future__ import annotations

import re

from hermes_protocol import schema
from hermes_protocol.errors import CODES
from hermes_protocol.typescript import module

TEXT = schema.typescript()
DOCUMENT = schema.document("jsonschema")


def members(interface: str) -> dict[str, str]:
    body = re.search(rf"^export interface {interface} \{{\n(.*?)^\}}", TEXT, re.MULTILINE | re.DOTALL)
    assert body is not None, interface
    return dict(re.findall(r"^  \"?([^\":?]+)\"?\??: (.*?);(?: //.*)?$", body[1], re.MULTILINE))


def test_every_type_of_the_schema_is_an_interface_with_its_fields() -> None:
    for name, definition in DOCUMENT["$defs"].items():
        if "properties" in definition and "." not in name:
            assert set(members(name)) == set(definition["properties"]), name


def test_every_method_event_and_error_has_its_row() -> None:
    assert set(members("Methods")) == set(DOCUMENT["methods"])
    assert members("Methods")["hermes/daemon/ping"] == "{ params: PingParams; result: PingResult }"
    assert set(members("Events")) == set(DOCUMENT["events"])
    assert set(members("DaemonNotifications")) == set(DOCUMENT["notifications"]["daemon"])
    assert dict(re.findall(r"^  (\w+): (-\d+),$", TEXT, re.MULTILINE)) == {k: str(v) for k, v in CODES.items()}


def test_only_a_required_field_stands_without_a_question_mark() -> None:
    assert "  sessionId: string;\n  since?: Cursor | null;\n  tail?: number; // default 200\n" in TEXT


def test_shapes_of_types() -> None:
    definitions = {
        "A": {
            "description": "Ends a comment */ early.",
            "properties": {
                "words": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
                "table": {"type": "object", "additionalProperties": {"$ref": "#/$defs/A"}},
                "either": {"enum": ["x", "y"]},
                "free": {},
                "id": {"type": ["string", "integer"]},
            },
            "required": [],
        }
    }
    text = module(
        {"version": "1", "$defs": definitions, "methods": {}, "events": {}, "errors": {}}
        | {"notifications": {"client": {}, "daemon": {}}}
    )
    assert "/** Ends a comment * / early. */\nexport interface A {" in text
    for line in ("words?: (string | null)[];", "table?: Record<string, A>;", 'either?: "x" | "y";', "free?: unknown;",
                 "id?: string | number;"):  # fmt: skip
        assert line in text
