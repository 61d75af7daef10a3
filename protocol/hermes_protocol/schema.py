"""The protocol described for other programs: as JSON Schema (2020-12), OpenRPC and TypeScript. Pure functions of the
types.

What is experimental is left out unless it is asked for: methods, event kinds and fields, and types that nothing else
speaks of.
"""

from __future__ import annotations

import hashlib
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from hermes_protocol import PROTOCOL_VERSION
from hermes_protocol.content import Message
from hermes_protocol.errors import CODES, RETRYABLE, ErrorObject
from hermes_protocol.events import KINDS, Event, EventData
from hermes_protocol.marks import EXPERIMENTAL
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


class Tables(NamedTuple):
    """What is described: requests with their sentences, and event kinds."""

    requests: dict[str, tuple[Method, str]]
    kinds: dict[str, type[EventData]]

    def stable(self) -> Tables:
        """The same without what is experimental."""
        requests = {name: row for name, row in self.requests.items() if not row[0].experimental}
        return Tables(requests, {kind: struct for kind, struct in self.kinds.items() if not struct.FEATURE})


def wire() -> Tables:
    """The tables of this version."""
    return Tables(requests(), KINDS)


def document(format: Format, experimental: bool = False, tables: Tables | None = None) -> dict[str, Any]:
    """The whole protocol as plain data, with what is experimental when that is asked for.

    ValueError for a format that is neither `jsonschema` nor `openrpc`.
    """
    described = tables or wire()
    if format == "jsonschema":
        return _json_schema(described, experimental)
    if format == "openrpc":
        return _open_rpc(described, experimental)
    raise ValueError(f"format {format!r}: expected jsonschema or openrpc")


def typescript(experimental: bool = False, tables: Tables | None = None) -> str:
    """The whole protocol as a TypeScript module of types."""
    from hermes_protocol.typescript import module  # late: a daemon that starts needs the hash only

    return module(document("jsonschema", experimental, tables))


def schema_hash() -> str:
    """What `initialize` and hermes/schema/get call schemaHash: equal hashes, equal wire. A constant of this build."""
    return SCHEMA_HASH


def computed_hash() -> str:
    """The hash from the types themselves: of the JSON Schema without its prose. 16 hex digits."""
    canonical = msgspec.json.encode(without_prose(document("jsonschema")), order="sorted")
    return hashlib.sha256(canonical).hexdigest()[:16]


def requests() -> dict[str, tuple[Method, str]]:
    """Every request a client can make, with its sentence."""
    return {**LIFECYCLE, **{name: (method, METHOD_SUMMARIES[name]) for name, method in METHODS.items()}}


def definitions(
    reference: str = REFERENCE, experimental: bool = False, tables: Tables | None = None
) -> tuple[dict[Any, dict[str, Any]], dict[str, Any]]:
    """({type: its schema, mostly a reference}, {name: definition}) of every type on the wire."""
    described = tables or wire()
    if not experimental:
        described = described.stable()
    types: list[Any] = [Event, ErrorObject, Message, *described.kinds.values()]
    for method, _ in described.requests.values():
        types += [method.params, method.result]
    types += [*NOTIFICATIONS.values(), *DAEMON_NOTIFICATIONS.values()]
    unique = list(dict.fromkeys(types))
    schemas, components = msgspec.json.schema_components(unique, ref_template=reference)
    if not experimental:
        components = _reachable([*schemas], {name: _without_trials(below) for name, below in components.items()})
    return dict(zip(unique, schemas, strict=True)), components


def _without_trials(definition: dict[str, Any]) -> dict[str, Any]:
    """The definition of a type without its experimental fields, which all have defaults."""
    properties = definition.get("properties", {})
    if not any(EXPERIMENTAL in schema for schema in properties.values()):
        return definition
    kept = {name: schema for name, schema in properties.items() if EXPERIMENTAL not in schema}
    return {**definition, "properties": kept}


def _reachable(roots: list[Any], components: dict[str, Any]) -> dict[str, Any]:
    """The definitions that something speaks of, in their order."""
    found: set[str] = set()
    waiting = list(roots)
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            name = str(value.get("$ref", "")).rpartition("/")[2]
            if name in components and name not in found:
                found.add(name)
                waiting.append(components[name])
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return {name: below for name, below in components.items() if name in found}


def _json_schema(tables: Tables, experimental: bool) -> dict[str, Any]:
    schema, components = definitions(experimental=experimental, tables=tables)
    rows, kinds = tables if experimental else tables.stable()
    events = {kind: schema[struct] for kind, struct in kinds.items()}
    components["Event"] = _typed_event(components["Event"], events)
    components["Request"] = {
        "title": "Request",
        "description": "What a client sends with an id.",
        "oneOf": [
            _frame(name, schema[method.params], method.params, identified=True) for name, (method, _) in rows.items()
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
                **({"experimental": method.experimental} if method.experimental else {}),
                **({"deprecated": method.deprecated} if method.deprecated else {}),
            }
            for name, (method, summary) in rows.items()
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


def _open_rpc(tables: Tables, experimental: bool) -> dict[str, Any]:
    schema, components = definitions("#/components/schemas/{name}", experimental, tables)
    rows, _ = tables if experimental else tables.stable()
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
                **({"deprecated": True} if method.deprecated else {}),
                **({EXPERIMENTAL: method.experimental} if method.experimental else {}),
            }
            for name, (method, summary) in rows.items()
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
    if isinstance(value, list | tuple):  # an empty tuple is how a Struct says an empty list as its default
        return [without_prose(below) for below in value]
    return value
