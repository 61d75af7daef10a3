"""Whether a schema still keeps the promises of a released one: within a major version the wire only grows."""

from __future__ import annotations

from typing import Any

from hermes_protocol.schema import without_prose


def broken(released: dict[str, Any], present: dict[str, Any]) -> list[str]:
    """What a client of the released protocol would miss or be refused, one sentence each; empty when nothing.

    New methods, kinds, optional fields, words of an enumeration (also: any word) and alternatives are growth. Whatever
    was there must be there, of the same type; a field is required now exactly if it was required then.
    """
    old, new = without_prose(released), without_prose(present)
    faults = []
    for table in ("methods", "events", "errors"):
        faults += _table(table, old[table], new[table])
    for side in ("client", "daemon"):
        faults += _table(f"notifications of the {side}", old["notifications"][side], new["notifications"][side])
    for name, definition in old["$defs"].items():
        if "properties" in definition:
            faults += _definition(name, definition, new["$defs"].get(name))
    return faults


def _table(name: str, old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    gone = [f"{name}: {row} is gone" for row in old if row not in new]
    return gone + [f"{name}: {row} is another one now" for row in old if row in new and old[row] != new[row]]


def _definition(name: str, old: dict[str, Any], new: dict[str, Any] | None) -> list[str]:
    if new is None or "properties" not in new:
        return [f"{name} is gone"]
    faults = []
    for field, schema in old["properties"].items():
        if field not in new["properties"]:
            faults.append(f"{name}.{field} is gone")
        elif not _grown(schema, new["properties"][field]):
            faults.append(f"{name}.{field} has another type")
    faults += [f"{name}.{field} is required now" for field in sorted({*new["required"]} - {*old["required"]})]
    faults += [f"{name}.{field} is no longer required" for field in sorted({*old["required"]} - {*new["required"]})]
    return faults


def _grown(old: Any, new: Any) -> bool:
    if isinstance(old, dict) and isinstance(new, dict):
        if "enum" in old and "enum" not in new and all(isinstance(word, str) for word in old["enum"]):
            old = {key: value for key, value in old.items() if key != "enum"} | {"type": "string"}
        old = {"anyOf": [old]} if "anyOf" in new and "anyOf" not in old and "default" not in old else old
        return all(
            key in new and _grown(old[key], new[key])
            if key not in ("enum", "anyOf")
            else _contains(new.get(key), old[key])
            for key in old
        )
    return bool(old == new)


def _contains(new: Any, old: list[Any]) -> bool:
    return isinstance(new, list) and all(any(_grown(each, other) for other in new) for each in old)
