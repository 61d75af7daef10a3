from typing import Any

import pytest

from hermes_daemon.config.decode import decode, expectation
from hermes_daemon.config.problem import Notes
from hermes_daemon.core.settings import ModelEntry, Positive, Settings

ROUNDS = "agent.max_rounds: expected a whole number of at least 1"


def decoded(values: dict[str, Any], expanded: tuple[Any, ...] = ()) -> tuple[Settings, list[str], list[str]]:
    notes = Notes("config.yaml")
    settings = decode(values, notes, expanded)
    return settings, [str(error) for error in notes.errors], notes.warnings


def test_sections_become_structs() -> None:
    settings, errors, warnings = decoded(
        {
            "agent": {"max_rounds": 3},
            "providers": {"lab": {"base_url": "http://x/v1", "models": ["a", {"name": "b", "vision": True}]}},
            "terminal": {"timeout": 5},
        }
    )
    assert not errors + warnings
    assert settings.agent.max_rounds == 3
    assert settings.terminal.timeout == 5.0
    assert settings.providers["lab"].models == ("a", ModelEntry("b", vision=True))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"agent": {"max_rounds": "many"}}, f"{ROUNDS}, got the text 'many'"),
        ({"agent": {"max_rounds": "90"}}, f"{ROUNDS}, got the text '90'"),
        ({"agent": {"max_rounds": 0}}, f"{ROUNDS}, got the number 0"),
        ({"agent": {"max_rounds": True}}, f"{ROUNDS}, got true"),
        ({"agent": []}, "agent: expected a section with names such as `max_rounds`, got a list"),
        ({"model": "openai/gpt"}, "model: expected a section with names such as `default`, got the text 'openai/gpt'"),
        ({"model": {"default": 4}}, "model.default: expected text, got the number 4; put it in quotes"),
        ({"approvals": {"mode": "of"}}, "approvals.mode: expected `manual` or `smart` or `off`, got the text 'of'"),
        ({"approvals": {"allow": "ls"}}, "approvals.allow: expected a list, each entry text, got the text 'ls'"),
        ({"approvals": {"deny": ["a", 1]}}, "approvals.deny[1]: expected text, got the number 1; put it in quotes"),
        ({"terminal": {"timeout": -1}}, "terminal.timeout: expected a number of at least 0, got the number -1"),
        ({"providers": {"x": 1}}, "providers.x: expected a section with names such as `base_url`, got the number 1"),
        ({"providers": {"x": {"models": [{}]}}}, "providers.x.models[0]: `name` is missing: expected text"),
        ({"model": {"max_output": 1.5}}, "model.max_output: expected a whole number or null, got the number 1.5"),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_names_its_key_and_what_was_expected(values: dict[str, Any], message: str) -> None:
    _, errors, _ = decoded(values)
    assert errors == [f"config.yaml: {message}"]


def test_every_fault_is_told_and_the_rest_is_kept() -> None:
    settings, errors, _ = decoded({"agent": {"max_rounds": "x", "api_max_retries": 7}, "logging": {"level": "LOUD"}})
    assert len(errors) == 2
    assert settings.agent.max_rounds == Settings().agent.max_rounds
    assert settings.agent.api_max_retries == 7


def test_an_unknown_key_warns_with_the_nearest_name_at_every_depth() -> None:
    _, errors, warnings = decoded({"agnet": {}, "agent": {"max_round": 1}, "providers": {"x": {"base-url": "u"}}})
    assert not errors
    assert [warning.partition(": ")[2] for warning in warnings] == [
        "agnet: unknown setting (did you mean `agent`?); it has no effect",
        "agent.max_round: unknown setting (did you mean `max_rounds`?); it has no effect",
        "providers.x.base-url: unknown setting (did you mean `base_url`?); it has no effect",
    ]


def test_an_empty_section_and_an_empty_list_are_the_defaults() -> None:
    settings, errors, _ = decoded({"agent": None, "providers": None, "approvals": {"allow": None}})
    assert not errors
    assert settings == Settings()


def test_yes_and_off_are_truth_values_where_one_is_expected_and_words_elsewhere() -> None:
    settings, errors, _ = decoded({"display": {"markdown": "off", "reasoning": "yes"}, "approvals": {"mode": "off"}})
    assert not errors
    assert (settings.display.markdown, settings.display.reasoning, settings.approvals.mode) == (False, True, "off")


def test_text_from_a_variable_may_stand_for_a_number_and_is_not_repeated_when_it_does_not() -> None:
    key = ("agent", "max_rounds")
    assert decoded({"agent": {"max_rounds": "12"}}, (key,))[0].agent.max_rounds == 12
    _, errors, _ = decoded({"agent": {"max_rounds": "sk-secret"}}, (key,))
    assert "expected a whole number" in errors[0]
    assert "sk-secret" not in errors[0]


def test_numbers_that_are_not_finite_are_refused() -> None:
    for number in (float("nan"), float("inf")):
        assert decoded({"terminal": {"timeout": number}})[1]


def test_expectations_are_words() -> None:
    assert expectation(Positive) == "a whole number of at least 1"
    assert expectation(tuple[str, ...]) == "a list, each entry text"
    assert expectation(int | None) == "a whole number or null"
