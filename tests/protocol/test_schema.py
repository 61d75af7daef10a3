from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from hermes_protocol import schema
from hermes_protocol.errors import CODES
from hermes_protocol.events import KINDS
from hermes_protocol.methods import DAEMON_NOTIFICATIONS, METHODS, NOTIFICATIONS
from hermes_protocol.summaries import ERROR_SUMMARIES, METHOD_SUMMARIES, NOTIFICATION_SUMMARIES
from tests.support.wire_samples import samples

DOCUMENT = schema.document("jsonschema")
TYPES = sorted(
    (type_ for type_ in schema.definitions()[0] if type_ is not type(None)), key=lambda type_: type_.__name__
)


REGISTRY: Registry[Any] = Registry().with_resource("urn:hermes", DRAFT202012.create_resource(DOCUMENT)).crawl()


def validator(reference: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": f"urn:hermes#/$defs/{reference}"}, registry=REGISTRY)


def test_the_document_is_a_schema() -> None:
    Draft202012Validator.check_schema(DOCUMENT)


@pytest.mark.parametrize("struct", TYPES, ids=lambda struct: struct.__name__)
def test_everything_we_encode_fits_the_schema(struct: Any) -> None:
    check = validator("Event" if struct.__name__ == "Event" else struct.__name__)

    @settings(max_examples=8, deadline=None, database=None)
    @given(samples(struct))
    def holds(sample: Any) -> None:
        encoded = msgspec.json.encode(sample)
        data = msgspec.json.decode(encoded)
        if struct.__name__ == "Event" and sample.kind in KINDS:
            return
        check.validate(data)
        assert msgspec.json.decode(encoded, type=struct) == sample or struct.__name__ == "Event"

    holds()


@given(st.sampled_from(sorted(KINDS)).flatmap(lambda kind: samples(KINDS[kind]).map(lambda data: (kind, data))))
@settings(max_examples=60, deadline=None)
def test_an_events_data_is_held_to_its_kind(made: tuple[str, Any]) -> None:
    kind, data = made
    event = {"sessionId": "s", "epoch": "e", "seq": 1, "prev": 0, "ts": "", "kind": kind}
    check = validator("Event")
    check.validate({**event, "data": msgspec.json.decode(msgspec.json.encode(data))})
    required = [field.encode_name for field in msgspec.structs.fields(KINDS[kind]) if field.required]
    assert check.is_valid({**event, "data": {}}) == (not required)


def test_an_unknown_kind_and_unknown_fields_are_no_fault() -> None:
    event = {
        "sessionId": "s",
        "epoch": "e",
        "seq": 1,
        "prev": 0,
        "ts": "",
        "kind": "later.news",
        "data": {"x": 1},
        "y": 2,
    }
    validator("Event").validate(event)


def test_frames_are_told_apart_by_their_method() -> None:
    request = {"jsonrpc": "2.0", "id": 1, "method": "hermes/session/get", "params": {"sessionId": "s"}}
    check = Draft202012Validator(DOCUMENT)
    check.validate(request)
    assert not check.is_valid({**request, "params": {}})
    assert not check.is_valid({**request, "method": "hermes/session/git"})
    assert not check.is_valid({**request, "id": None})
    check.validate({"jsonrpc": "2.0", "id": 1, "result": {}})
    assert not check.is_valid({"jsonrpc": "2.0", "id": 1, "result": {}, "error": {"code": 1, "message": ""}})


def test_every_row_has_its_sentence_and_the_reverse() -> None:
    assert METHOD_SUMMARIES.keys() == METHODS.keys()
    assert NOTIFICATION_SUMMARIES.keys() == {*NOTIFICATIONS, "hermes/event", *DAEMON_NOTIFICATIONS}
    assert ERROR_SUMMARIES.keys() == CODES.keys()


def test_methods_that_change_something_take_a_key() -> None:
    for name, method in METHODS.items():
        fields = {field.encode_name for field in msgspec.structs.fields(method.params)}
        assert method.mutates <= ("key" in fields), name


def test_open_rpc_names_every_request_with_its_params_and_result() -> None:
    document = schema.document("openrpc")
    methods = {method["name"]: method for method in document["methods"]}
    assert methods.keys() == {"initialize", "shutdown", *METHODS}
    for name, method in METHODS.items():
        params = {param["name"]: param["required"] for param in methods[name]["params"]}
        fields = msgspec.structs.fields(method.params)
        assert params == {field.encode_name: field.required for field in fields}
        assert methods[name]["result"]["schema"]["$ref"] == f"#/components/schemas/{method.result.__name__}"
    assert document["components"]["schemas"].keys() >= {method.result.__name__ for method in METHODS.values()}
    assert "$defs" not in msgspec.json.encode(document).decode()


def test_an_unknown_format_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="expected jsonschema or openrpc"):
        schema.document("xml")  # type: ignore[arg-type]


def test_the_constant_hash_is_the_hash_of_the_types() -> None:
    assert schema.schema_hash() == schema.computed_hash()


def test_the_hash_is_made_without_prose_and_with_every_field() -> None:
    document = schema.document("jsonschema")
    stripped = schema.without_prose(document)
    assert "summary" not in stripped["methods"]["hermes/daemon/ping"]
    assert "description" in stripped["$defs"]["ToolRow"]["properties"]
