"""The tables for editors without types hold the same names as the wire."""

from __future__ import annotations

import re

from hermes_protocol import schema
from hermes_protocol.errors import CODES
from hermes_protocol.events import KINDS
from protocol import names


def test_the_lua_table_names_every_method_kind_and_code() -> None:
    text = names.lua()
    assert set(re.findall(r'^    \["([^"]+)"\] = true,$', text, re.MULTILINE)) == {*schema.requests(), *KINDS}
    assert dict(re.findall(r"^    (\w+) = (-\d+),$", text, re.MULTILINE)) == {k: str(v) for k, v in CODES.items()}


def test_the_elisp_constants_name_every_method_kind_and_code() -> None:
    text = names.elisp()
    quoted = set(re.findall(r'^ +\'?\(?"([a-zA-Z$/._]+)"\)?$', text, re.MULTILINE))
    assert quoted == {*schema.requests(), *KINDS}
    assert dict(re.findall(r"\((\w+) \. (-\d+)\)", text)) == {k: str(v) for k, v in CODES.items()}
    assert text.count("(") == text.count(")")
