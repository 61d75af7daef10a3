"""The fields of a form and what may be typed into them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from hermes_shell.flat_schema import Field, Wrong, fields, said

FORM = {
    "type": "object",
    "required": ["name", "port"],
    "properties": {
        "name": {"type": "string", "minLength": 2, "maxLength": 5, "pattern": "^[a-z]+$", "title": "Name"},
        "port": {"type": "integer", "minimum": 1, "maximum": 9},
        "ratio": {"type": "number", "default": 0.5},
        "tls": {"type": "boolean"},
        "level": {"type": "string", "enum": ["low", "high"]},
        "days": {"type": "array", "items": {"type": "string", "enum": ["mon", "tue"]}, "minItems": 1, "maxItems": 1},
    },
}


def field(name: str) -> Field:
    return next(one for one in fields(FORM) if one.name == name)


def test_fields_come_in_order_with_what_they_are() -> None:
    assert [one.name for one in fields(FORM)] == list(FORM["properties"])  # type: ignore[call-overload]
    assert field("name").label == "Name"
    assert field("port").hint == "whole number from 1 to 9"
    assert field("ratio").hint == "number, Enter takes 0.5"
    assert field("tls").hint == "y or n, Enter leaves it out"
    assert fields(None) == fields({}) == []


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("name", "abc", "abc"),
        ("port", " 7 ", 7),
        ("ratio", "", 0.5),
        ("ratio", "1e2", 100.0),
        ("tls", "Y", True),
        ("tls", "off", False),
        ("tls", "", None),
        ("level", "2", "high"),
        ("level", "low", "low"),
        ("days", "1", ["mon"]),
    ],
)
def test_what_fits_is_read(name: str, text: str, value: Any) -> None:
    assert field(name).read(text) == value


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("name", "", "Name is needed"),
        ("name", "a", "at least 2 characters"),
        ("name", "abcdef", "at most 5 characters"),
        ("name", "A1", r"matches \^\[a-z\]"),
        ("port", "x", "expected a whole number, got 'x'"),
        ("port", "0", "at least 1"),
        ("port", "10", "at most 9"),
        ("ratio", "nan", "expected a number"),
        ("tls", "perhaps", "expected y or n"),
        ("level", "3", "a number from 1 to 2 or one of low, high"),
        ("days", "mon,tue", "at most 1"),
        ("days", ",", "at least 1"),
    ],
)
def test_what_does_not_fit_is_told(name: str, text: str, told: str) -> None:
    with pytest.raises(Wrong, match=told):
        field(name).read(text)


def test_named_choices_are_shown_by_their_names() -> None:
    one = Field("x", {"type": "integer", "oneOf": [{"const": 1, "title": "One"}, {"const": 2}]}, True)
    assert one.labels == ["One", "2"]
    assert one.read("One") == 1
    assert one.read("2") == 2
    assert said(True) == "y"


@given(st.sampled_from(fields(FORM)), st.text("ab19yn,. -", max_size=7))
def test_whatever_is_read_is_valid_by_the_schema(one: Field, text: str) -> None:
    try:
        value = one.read(text)
    except Wrong:
        return
    if value is not None:
        Draft202012Validator(one.schema).validate(value)
