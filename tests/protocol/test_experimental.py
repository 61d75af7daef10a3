"""What is experimental is in the schema of those who ask, and in nobody else's."""

from __future__ import annotations

import json
from typing import Annotated, Any, ClassVar

import msgspec
import pytest

from hermes_protocol import schema
from hermes_protocol.content import Wire
from hermes_protocol.events import EventData
from hermes_protocol.marks import deprecated, experimental
from hermes_protocol.methods import Empty, Method


class OnlyTrial(Wire, frozen=True):
    text: str = ""


class TrialParams(Wire, frozen=True):
    plain: str
    trial: Annotated[OnlyTrial | None, experimental("drafts")] = None
    older: Annotated[str, deprecated("use `plain`")] = ""


class TrialResult(Wire, frozen=True):
    inner: OnlyTrial = OnlyTrial()


class DraftNews(EventData, frozen=True):
    KIND: ClassVar[str] = "draft.news"
    FEATURE: ClassVar[str] = "drafts"


TABLES = schema.Tables(
    {
        **schema.requests(),
        "hermes/trial/new": (Method(TrialParams, TrialResult, experimental="drafts"), "Something new."),
        "hermes/trial/fields": (Method(TrialParams, Empty, deprecated="use another"), "With a field on trial."),
    },
    {**schema.wire().kinds, "draft.news": DraftNews},
)
NAMES = ("hermes/trial/new", "draft.news", "DraftNews", "OnlyTrial", "TrialResult", "x-experimental")


def text(form: Any, *, experimental: bool) -> str:
    if form == "ts":
        return schema.typescript(experimental, TABLES)
    return json.dumps(schema.document(form, experimental, TABLES))


@pytest.mark.parametrize("form", ["jsonschema", "openrpc", "ts"])
def test_the_default_schema_names_nothing_experimental(form: str) -> None:
    plain = text(form, experimental=False)
    assert not [name for name in NAMES if name in plain]
    assert "hermes/trial/fields" in plain


@pytest.mark.parametrize("form", ["jsonschema", "openrpc", "ts"])
def test_who_asks_is_shown_everything(form: str) -> None:
    asked = text(form, experimental=True)
    expected = {"hermes/trial/new", "OnlyTrial"} | ({"draft.news"} if form != "openrpc" else set())
    assert not [name for name in expected if name not in asked]


def test_a_field_on_trial_is_left_out_and_the_others_stay() -> None:
    plain = schema.document("jsonschema", tables=TABLES)["$defs"]["TrialParams"]
    asked = schema.document("jsonschema", True, TABLES)["$defs"]["TrialParams"]
    assert set(plain["properties"]) == {"plain", "older"}
    assert plain["required"] == asked["required"] == ["plain"]
    assert asked["properties"]["trial"]["x-experimental"] == "drafts"


def test_what_is_deprecated_is_said_to_be() -> None:
    document = schema.document("jsonschema", tables=TABLES)
    assert document["methods"]["hermes/trial/fields"]["deprecated"] == "use another"
    assert document["$defs"]["TrialParams"]["properties"]["older"]["deprecated"] is True
    methods = {row["name"]: row for row in schema.document("openrpc", tables=TABLES)["methods"]}
    assert methods["hermes/trial/fields"]["deprecated"] is True
    assert "deprecated" not in methods["hermes/daemon/ping"]


def test_without_anything_on_trial_both_documents_are_one() -> None:
    if schema.wire() == schema.wire().stable():
        assert schema.document("jsonschema") == schema.document("jsonschema", True)
    assert schema.computed_hash() == schema.schema_hash()


def test_a_marked_field_encodes_as_any_other() -> None:
    params = TrialParams("p", OnlyTrial("t"))
    assert msgspec.json.decode(msgspec.json.encode(params), type=TrialParams) == params
