from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_daemon.providers.efforts import ADAPTIVE, BUDGETS, EFFORTS, TABLES, effort_fields, taken_efforts
from hermes_daemon.providers.presets import PRESETS
from hermes_daemon.providers.wire import FormatName, Traits, Unsendable


@given(st.sampled_from(sorted(TABLES)), st.sampled_from(EFFORTS))
def test_a_word_is_said_or_refused_with_the_words_there_are(table: str, word: str) -> None:
    if word in TABLES[table]:
        assert effort_fields(table, word, Traits())
        return
    with pytest.raises(Unsendable) as caught:
        effort_fields(table, word, Traits())
    assert all(known in str(caught.value) for known in TABLES[table])


def test_no_word_says_nothing_and_an_unknown_one_is_refused() -> None:
    assert effort_fields("openai", None, Traits()) == {}
    with pytest.raises(Unsendable, match="'much' is no reasoning effort; there are none, minimal, low"):
        effort_fields("openai", "much", Traits())


def test_a_models_own_words_narrow_those_of_its_server() -> None:
    some = Traits(efforts=("low", "high"))
    assert effort_fields("openai", "high", some) == {"reasoning_effort": "high"}
    with pytest.raises(Unsendable, match="it takes low, high"):
        effort_fields("openai", "medium", some)
    with pytest.raises(Unsendable, match="does not reason"):
        effort_fields("openai", "low", Traits(reasoning=False))
    assert effort_fields("openai", "none", Traits(reasoning=False)) == {"reasoning_effort": "none"}


def test_every_preset_names_a_table() -> None:
    assert {preset.quirks.efforts for preset in PRESETS.values()} <= set(TABLES)
    assert all(set(table) <= set(EFFORTS) for table in TABLES.values())


@pytest.mark.parametrize(
    ("table", "word", "fields"),
    [
        ("deepseek", "none", {"thinking": {"type": "disabled"}}),
        ("deepseek", "max", {"thinking": {"type": "enabled"}, "reasoning_effort": "max"}),
        ("openrouter", "xhigh", {"reasoning": {"effort": "xhigh"}}),
        ("template", "none", {"chat_template_kwargs": {"enable_thinking": False}}),
        ("", "ultra", {"reasoning_effort": "ultra"}),
    ],
)
def test_servers_are_told_in_their_own_words(table: str, word: str, fields: dict[str, object]) -> None:
    assert effort_fields(table, word, Traits()) == fields


@pytest.mark.parametrize(
    ("format", "table", "traits", "taken"),
    [
        ("openai_chat", "", Traits(), None),
        ("openai_chat", "levels", Traits(), ("none", "low", "medium", "high")),
        ("openai_chat", "levels", Traits(efforts=("high", "max")), ("high",)),
        ("openai_chat", "", Traits(reasoning=False), ("none",)),
        ("openai_responses", "openai", Traits(efforts=("low",)), ("low",)),
        ("anthropic_messages", "", Traits(adaptive_thinking=True), ADAPTIVE),
        ("anthropic_messages", "", Traits(), ("none", *BUDGETS)),
        ("ollama", "", Traits(), ("none", "low", "medium", "high")),
    ],
)
def test_the_words_a_model_takes_are_those_of_its_format_and_its_own(
    format: FormatName, table: str, traits: Traits, taken: tuple[str, ...] | None
) -> None:
    assert taken_efforts(format, table, traits) == taken
