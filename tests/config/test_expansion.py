from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_daemon.config.document import parse
from hermes_daemon.config.expansion import expand
from hermes_daemon.config.problem import Notes
from tests.support.shared_data import case


def expanded(values: Any, **variables: str) -> tuple[Any, Notes]:
    notes = Notes("config.yaml")
    return expand(values, variables.get, notes).values, notes


def test_the_case_of_expansion_holds() -> None:
    notes = Notes("config.yaml")
    document = parse((case("config", "config-env-expansion") / "config.yaml").read_text(), notes)
    assert document is not None
    result = expand(document.values, {"A": "v"}.get, notes)
    assert {key: value for key, value in result.values.items() if key != "d"} == {
        "a": "v",
        "b": "http://h:80/p",
        "c": "",
        "e": "${A}",
        "f": "${env.A}",
        "g": "pre-v-post",
        "h": "$5",
    }
    assert [(error.key, "NOPE" in error.message, error.line) for error in notes.errors] == [("d", True, 4)]
    assert len(notes.warnings) == 1
    assert "f: ${env.A} is left as it is" in notes.warnings[0]


@pytest.mark.parametrize("value", ["x: y", "[1, 2]", "- a", '"', "${B}", "$$", "#no", "true", ""])
def test_a_value_is_never_parsed_or_expanded_again(value: str) -> None:
    assert expanded({"k": "${A}"}, A=value, B="wrong")[0] == {"k": value}


def test_a_default_replaces_an_empty_variable_and_may_hold_anything_but_a_brace() -> None:
    assert expanded({"k": "${A:-http://h:1/p?q=$5 x}"}, A="")[0] == {"k": "http://h:1/p?q=$5 x"}


def test_lists_and_sections_are_expanded_at_every_depth_and_keys_are_not() -> None:
    values, _ = expanded({"${A}": [{"b": "${A}"}, 3, None]}, A="v")
    assert values == {"${A}": [{"b": "v"}, 3, None]}


def test_the_keys_that_came_from_variables_are_told() -> None:
    result = expand({"a": ["x", "${A}${B:-}"], "b": "$$"}, {"A": "v"}.get, Notes("config.yaml"))
    assert result.variables == {("a", 1): ("A", "B")}


@given(st.text())
def test_escaping_every_dollar_gives_back_any_text(text: str) -> None:
    values, notes = expanded({"k": text.replace("$", "$$")})
    assert values == {"k": text}
    assert not notes.errors
    assert not notes.warnings
