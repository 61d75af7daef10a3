"""The reference page docs/protocol.md from the types: methods, notifications, events, items and errors."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from hermes_protocol import PROTOCOL_VERSION, schema
from hermes_protocol.content import InputBlock, Part
from hermes_protocol.errors import CODES, RETRYABLE
from hermes_protocol.events import AnyItem, Event
from hermes_protocol.methods import DAEMON_NOTIFICATIONS, NOTIFICATIONS
from hermes_protocol.summaries import ERROR_SUMMARIES, NOTIFICATION_SUMMARIES

ORDERS = {
    "reader": "at once, on the connection's reader",
    "session": "one after the other for each session",
    "free": "in a task of its own",
}

HEAD = f"""\
<!-- Generated from protocol/hermes_protocol by `make gen`. Change the types, not this page. -->
# The protocol: reference

Version {PROTOCOL_VERSION}. How a conversation goes is told in [protocol/README.md](../protocol/README.md); this page
lists everything that can be said. A field in **bold** is required; any other may be left out and then has the default
that is given. Both sides ignore fields they do not know. Offsets count Unicode code points, times are RFC 3339 in UTC.
"""


def reference() -> str:
    """The page."""
    _, types = schema.definitions()
    items, blocks, parts = _names(AnyItem), _names(InputBlock), _names(Part)
    kinds = schema.wire().stable().kinds
    events = [struct.__name__ for struct in kinds.values()]
    requests = schema.wire().stable().requests
    tops = {method.params.__name__ for method, _ in requests.values()}
    tops |= {method.result.__name__ for method, _ in requests.values()}
    tops |= {params.__name__ for params in (*NOTIFICATIONS.values(), *DAEMON_NOTIFICATIONS.values())}
    shown = {*items, *blocks, *parts, *events, *tops}
    lines = [HEAD, "## Requests\n"]
    for name, (method, summary) in requests.items():
        keyed = (
            " Takes `key`: the same key again gives the same answer and does nothing twice." if method.mutates else ""
        )
        old = f" **Deprecated**: {method.deprecated}." if method.deprecated else ""
        lines += [f"### {name}\n", f"{summary}{keyed} Served {ORDERS[method.order]}.{old}\n"]
        lines += _part("Params", types, method.params) + _part("Result", types, method.result)
    lines += ["## Notifications of a client\n"]
    for name, params in NOTIFICATIONS.items():
        lines += [f"### {name}\n", NOTIFICATION_SUMMARIES[name] + "\n", *_part("Params", types, params)]
    lines += ["## Notifications of the daemon\n"]
    for name, params in (("hermes/event", Event), *DAEMON_NOTIFICATIONS.items()):
        lines += [f"### {name}\n", NOTIFICATION_SUMMARIES[name] + "\n", *_part("Params", types, params)]
    lines += [
        "## Events\n",
        "The `data` of hermes/event by its `kind`. A client shows nothing for a kind it does not know.\n",
    ]
    for kind, struct in kinds.items():
        lines += [f"### {kind}\n", *_definition(types, struct.__name__)]
    lines += ["## Items\n", "What a session shows, told apart by `type`.\n"]
    lines += _definitions(types, items)
    lines += ["## Input blocks\n", *_definitions(types, blocks)]
    lines += ["## Parts of a message\n", *_definitions(types, parts)]
    lines += ["## Other types\n", *_definitions(types, sorted(types.keys() - shown))]
    lines += ["## Errors\n", "`error.data.kind` is what a program looks at; the number is for JSON-RPC.\n"]
    lines += ["| kind | code | try again | when |", "|---|---|---|---|"]
    lines += [
        f"| {kind} | {code} | {'yes' if kind in RETRYABLE else 'no'} | {ERROR_SUMMARIES[kind]} |"
        for kind, code in CODES.items()
    ]
    return "\n".join(lines).rstrip("\n") + "\n"


def _names(union: Any) -> list[str]:
    return [member.__name__ for member in union.__args__]


def _part(word: str, types: dict[str, Any], struct: type) -> list[str]:
    definition = types.get(struct.__name__)
    if definition is None or not definition["properties"]:
        return [f"{word}: none.\n"]
    return [f"{word}:\n", *_prose(definition), *_table(definition)]


def _definitions(types: dict[str, Any], names: Iterable[str]) -> list[str]:
    lines = []
    for name in names:
        tag = types[name]["properties"].get("type", {}).get("enum", [])
        lines += [f"### {name}\n", *([f'`type: "{tag[0]}"`\n'] if len(tag) == 1 else []), *_definition(types, name)]
    return lines


def _definition(types: dict[str, Any], name: str) -> list[str]:
    return [*_prose(types[name]), *_table(types[name])]


def _prose(definition: dict[str, Any]) -> list[str]:
    text = definition.get("description", "")
    return [" ".join(text.split()) + "\n"] if text else []


def _table(definition: dict[str, Any]) -> list[str]:
    rows = [
        f"| {f'**{name}**' if name in definition['required'] else name} | {_type(schema)} | {_default(schema)} |"
        for name, schema in definition["properties"].items()
        if not (name == "type" and len(schema.get("enum", [])) == 1)
    ]
    return ["| field | type | default |", "|---|---|---|", *rows, ""] if rows else ["No fields.\n"]


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        kinds = [_type(each) for each in schema["anyOf"]]
        return " or ".join(kind for kind in kinds if kind != "null") + (" or null" if "null" in kinds else "")
    if "enum" in schema:
        return " or ".join(f"`{word}`" for word in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}" if "items" in schema else "list"
    if schema.get("type") == "object":
        below = schema.get("additionalProperties")
        return f"object of {_type(below)}" if isinstance(below, dict) else "object"
    return str(schema.get("type", "any value"))


def _default(schema: dict[str, Any]) -> str:
    default = schema.get("default")
    if default is None:
        return ""
    return f"`{json.dumps(default, ensure_ascii=False)}`"
