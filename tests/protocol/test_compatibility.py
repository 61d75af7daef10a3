import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from hermes_protocol import schema
from protocol.compatibility import broken
from protocol.generate import ROOT

RELEASED = sorted((ROOT / "protocol/schema/released").glob("*.json"))
Change = Callable[[dict[str, Any]], Any]


def changed(change: Change) -> list[str]:
    released = schema.document("jsonschema")
    present = copy.deepcopy(released)
    change(present)
    return broken(released, present)


def test_every_released_schema_is_kept() -> None:
    present = schema.document("jsonschema")
    for path in RELEASED:
        assert broken(json.loads(path.read_text(encoding="utf-8")), present) == [], path


def test_the_same_schema_keeps_its_promises() -> None:
    assert changed(lambda new: None) == []


GROWTH: list[Change] = [
    lambda new: new["methods"].update({"hermes/new": new["methods"]["hermes/daemon/ping"]}),
    lambda new: new["events"].update({"new.kind": {}}),
    lambda new: new["$defs"]["PingResult"]["properties"].update({"extra": {"type": "string", "default": ""}}),
    lambda new: new["$defs"]["TurnEnded"]["properties"]["status"]["enum"].append("tired"),
    lambda new: new["$defs"]["SubmitParams"]["properties"]["input"]["items"]["anyOf"].append({"type": "string"}),
    lambda new: new["$defs"]["PingResult"].update({"description": "Said better."}),
]


@pytest.mark.parametrize("change", GROWTH)
def test_growth_is_allowed(change: Change) -> None:
    assert changed(change) == []


BREACHES: list[tuple[Change, str]] = [
    (lambda new: new["methods"].pop("hermes/daemon/ping"), "methods: hermes/daemon/ping is gone"),
    (lambda new: new["events"].pop("turn.ended"), "events: turn.ended is gone"),
    (lambda new: new["errors"]["parse"].update(code=-1), "errors: parse is another one now"),
    (lambda new: new["$defs"]["PingResult"]["properties"].pop("echo"), "PingResult.echo is gone"),
    (lambda new: new["$defs"]["PingParams"]["required"].append("echo"), "PingParams.echo is required now"),
    (lambda new: new["$defs"]["Cursor"]["required"].remove("seq"), "Cursor.seq is no longer required"),
    (lambda new: new["$defs"]["Cursor"]["properties"]["seq"].update(type="string"), "Cursor.seq has another type"),
    (lambda new: new["$defs"]["TurnEnded"]["properties"]["status"]["enum"].pop(), "TurnEnded.status has another type"),
    (lambda new: new["$defs"].pop("Cursor"), "Cursor is gone"),
]


@pytest.mark.parametrize(("change", "fault"), BREACHES, ids=[fault for _, fault in BREACHES])
def test_a_breach_is_named(change: Change, fault: str) -> None:
    assert fault in changed(change)
