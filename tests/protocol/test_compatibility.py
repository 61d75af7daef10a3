import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes_protocol import PROTOCOL_VERSION, schema
from protocol.compatibility import broken
from protocol.generate import ROOT, freeze

RELEASED = sorted((ROOT / "protocol/released").glob("*.json"))
PREVIEW = Path(__file__).parent / "released" / "preview.json"
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


def test_the_recorded_preview_is_kept_and_has_been_grown_since() -> None:
    preview, present = json.loads(PREVIEW.read_text(encoding="utf-8")), schema.document("jsonschema")
    assert broken(preview, present) == []
    assert preview != schema.without_prose(present)


def test_a_schema_read_back_from_its_file_keeps_its_own_promises() -> None:
    present = schema.document("jsonschema")
    assert broken(json.loads(json.dumps(present)), present) == []
    assert broken(present, json.loads(json.dumps(present))) == []


def test_a_release_is_frozen_once_and_for_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert freeze(tmp_path) == 0
    (path,) = (tmp_path / "protocol/released").iterdir()
    assert path.name == f"v{PROTOCOL_VERSION}.json"
    assert broken(json.loads(path.read_text()), schema.document("jsonschema")) == []
    assert freeze(tmp_path) == 0
    path.write_text("{}")
    assert freeze(tmp_path) == 1
    assert path.read_text() == "{}"
    assert "another version" in capsys.readouterr().err


def test_the_same_schema_keeps_its_promises() -> None:
    assert changed(lambda new: None) == []


GROWTH: list[Change] = [
    lambda new: new["methods"].update({"hermes/new": new["methods"]["hermes/daemon/ping"]}),
    lambda new: new["events"].update({"new.kind": {}}),
    lambda new: new["$defs"]["PingResult"]["properties"].update({"extra": {"type": "string", "default": ""}}),
    lambda new: new["$defs"]["TurnEnded"]["properties"]["status"]["enum"].append("tired"),
    lambda new: new["$defs"]["TurnEnded"]["properties"].update(status={"type": "string"}),
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
    (
        lambda new: new["$defs"]["TurnEnded"]["properties"].update(status={"type": "integer"}),
        "TurnEnded.status has another type",
    ),
]


@pytest.mark.parametrize(("change", "fault"), BREACHES, ids=[str(number) for number in range(len(BREACHES))])
def test_a_breach_is_named(change: Change, fault: str) -> None:
    assert fault in changed(change)
