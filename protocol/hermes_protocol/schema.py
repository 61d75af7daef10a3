"""The protocol described for other programs: as JSON Schema (2020-12) and as OpenRPC. Pure functions of the types."""

from __future__ import annotations

import hashlib
from typing import Any, Literal, TypeAlias

import msgspec

from hermes_protocol import PROTOCOL_VERSION
from hermes_protocol.content import Message
from hermes_protocol.errors import CODES, RETRYABLE, ErrorObject
from hermes_protocol.events import KINDS, Event
from hermes_protocol.methods import (
    DAEMON_NOTIFICATIONS,
    METHODS,
    NOTIFICATIONS,
    Empty,
    InitializeParams,
    InitializeResult,
    Method,
)
from hermes_protocol.schema_digest import SCHEMA_HASH
from hermes_protocol.summaries import ERROR_SUMMARIES, METHOD_SUMMARIES, NOTIFICATION_SUMMARIES

Format: TypeAlias = Literal["jsonschema", "openrpc"]

LIFECYCLE: dict[str, tuple[Method, str]] = {
    "initialize": (Method(InitializeParams, InitializeResult, "reader"), "Say who you are; the first request."),
    "shutdown": (Method(Empty, type(None), "reader"), "Announce that this connection will be closed."),
}
"""The requests that every connection has beside METHODS, with their sentences."""

REFERENCE = "#/$defs/{name}"


def document(format: Format, experimental: bool = False) -> dict[str, Any]:
    """The whole protocol as plain data. Nothing is experimental in this version, so `experimental` changes nothing.

    ValueError for a format that is neither `jsonschema` nor `openrpc`.
    """
    if format == "jsonschema":
        return _json_schema()
    if format == "openrpc":
        return _open_rpc()
    raise ValueError(f"format {format!r}: expected jsonschema or openrpc")


def schema_hash() -> str:
    """What `initialize` and hermes/schema/get call schemaHash: equal hashes, equal wire. A constant of this build."""
    return SCHEMA_HASH


def computed_hash() -> str:
    """The hash from the types themselves: of the JSON Schema without its prose. 16 hex digits."""
    canonical = msgspec.json.encode(without_prose(_json_schema()), order="sorted")
    return hashlib.sha256(canonical).hexdigest()[:16]


def requests() -> dict[str, tuple[Method, str]]:
    """Every request a client can make, with its sentence."""
    return {**LIFECYCLE, **{name: (method, METHOD_SUMMARIES[name]) for name, method in METHODS.items()}}


def definitions(reference: str = REFERENCE) -> tuple[dict[Any, dict[str, Any]], dict[str, Any]]:
    """({type: its schema, mostly a reference}, {name: definition}) of every type on the wire."""
    types: list[Any] = [Event, ErrorObject, Message, *KINDS.values()]
    for method, _ in requests().values():
        types += [method.params, method.result]
    types += [*NOTIFICATIONS.values(), *DAEMON_NOTIFICATIONS.values()]
    unique = list(dict.fromkeys(types))
    schemas, components = msgspec.json.schema_components(unique, ref_template=reference)
    return dict(zip(unique, schemas, strict=True)), components


def _json_schema() -> dict[str, Any]:
    schema, components = definitions()
    events = {kind: schema[struct] for kind, struct in KINDS.items()}
    components["Event"] = _typed_event(components["Event"], events)
    components["Request"] = {
        "title": "Request",
        "description": "What a client sends with an id.",
        "oneOf": [
            _frame(name, schema[method.params], method.params, identified=True)
            for name, (method, _) in requests().items()
        ],
    }
    components["Notification"] = {
        "title": "Notification",
        "description": "What either side sends without an id and without an answer.",
        "oneOf": [
            _frame(name, schema[params], params, identified=False)
            for name, params in (*NOTIFICATIONS.items(), ("hermes/event", Event), *DAEMON_NOTIFICATIONS.items())
        ],
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "hermes protocol",
        "description": "Frames are $defs/Request, $defs/Notification and JSON-RPC 2.0 answers. Both sides ignore what "
        "they do not know, and a field that is left out has its default.",
        "version": PROTOCOL_VERSION,
        "anyOf": [{"$ref": "#/$defs/Request"}, {"$ref": "#/$defs/Notification"}, {"$ref": "#/$defs/Answer.frame"}],
        "methods": {
            name: {
                "summary": summary,
                "params": schema[method.params],
                "result": schema[method.result],
                "order": method.order,
                "mutates": method.mutates,
            }
            for name, (method, summary) in requests().items()
        },
        "notifications": {
            "client": {
                name: {"summary": NOTIFICATION_SUMMARIES[name], "params": schema[params]}
                for name, params in NOTIFICATIONS.items()
            },
            "daemon": {
                name: {"summary": NOTIFICATION_SUMMARIES[name], "params": schema[params]}
                for name, params in (("hermes/event", Event), *DAEMON_NOTIFICATIONS.items())
            },
        },
        "events": events,
        "errors": {
            kind: {"code": code, "retryable": kind in RETRYABLE, "summary": ERROR_SUMMARIES[kind]}
            for kind, code in CODES.items()
        },
        "$defs": {**components, "Answer.frame": _answer(schema[ErrorObject])},
    }


def _typed_event(event: dict[str, Any], events: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The envelope, with `data` tied to `kind` where the kind is known; other kinds are allowed."""
    return {
        **event,
        "allOf": [
            {
                "if": {"properties": {"kind": {"const": kind}}, "required": ["kind"]},
                "then": {"properties": {"data": schema}},
            }
            for kind, schema in events.items()
        ],
    }


def _frame(name: str, params: dict[str, Any], struct: type, *, identified: bool) -> dict[str, Any]:
    required = ["jsonrpc", "method"]
    properties: dict[str, Any] = {"jsonrpc": {"const": "2.0"}, "method": {"const": name}, "params": params}
    if identified:
        properties["id"] = {"type": ["string", "integer"]}
        required.append("id")
    if issubclass(struct, msgspec.Struct) and any(field.required for field in msgspec.structs.fields(struct)):
        required.append("params")
    return {"type": "object", "properties": properties, "required": required}


def _answer(error: dict[str, Any]) -> dict[str, Any]:
    envelope = {"jsonrpc": {"const": "2.0"}, "id": {"type": ["string", "integer", "null"]}}
    return {
        "title": "Answer.frame",
        "description": "A JSON-RPC answer; the method of the request says what `result` is.",
        "type": "object",
        "properties": {**envelope, "result": {}, "error": error},
        "required": ["jsonrpc", "id"],
        "oneOf": [{"required": ["result"]}, {"required": ["error"]}],
    }


def _open_rpc() -> dict[str, Any]:
    schema, components = definitions("#/components/schemas/{name}")
    errors = {
        kind: {"code": code, "message": ERROR_SUMMARIES[kind], "data": {"kind": kind, "retryable": kind in RETRYABLE}}
        for kind, code in CODES.items()
    }
    return {
        "openrpc": "1.3.2",
        "info": {
            "title": "hermes protocol",
            "version": PROTOCOL_VERSION,
            "description": "Requests of a client. What the daemon announces is in the JSON Schema of the protocol.",
        },
        "methods": [
            {
                "name": name,
                "summary": summary,
                "paramStructure": "by-name",
                "params": _open_rpc_params(components, method.params),
                "result": {"name": "result", "schema": schema[method.result]},
            }
            for name, (method, summary) in requests().items()
        ],
        "components": {"schemas": components, "errors": errors},
    }


def _open_rpc_params(components: dict[str, Any], struct: type) -> list[dict[str, Any]]:
    definition = components[struct.__name__]
    return [
        {"name": name, "required": name in definition["required"], "schema": schema}
        for name, schema in definition["properties"].items()
    ]


def without_prose(value: Any) -> Any:
    """The document with every sentence left out: what the hash is made of."""
    if isinstance(value, dict):
        return {
            key: without_prose(below)
            for key, below in value.items()
            if not (key in ("description", "summary") and isinstance(below, str))
        }
    if isinstance(value, list):
        return [without_prose(below) for below in value]
    return value
