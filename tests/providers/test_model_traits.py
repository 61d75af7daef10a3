from __future__ import annotations

from typing import Any

import pytest

from hermes_daemon.core.settings import ModelEntry
from hermes_daemon.providers.model_data import known_models, known_traits
from hermes_daemon.providers.model_traits import joined_traits
from hermes_daemon.providers.prices import Price
from hermes_daemon.providers.wire import Traits

GATEWAY = {
    "id": "maker/m",
    "context_length": 9000,
    "architecture": {"input_modalities": ["text", "image"]},
    "supported_parameters": ["tools", "reasoning"],
    "top_provider": {"max_completion_tokens": 700},
    "pricing": {"prompt": "0.0000025", "completion": "0.00001", "input_cache_read": "0.000001"},
}


def joined(entry: ModelEntry | None = None, listed: dict[str, Any] | None = None, known: Traits | None = None,
           learned: int | None = None) -> Traits:  # fmt: skip
    return joined_traits(entry or ModelEntry("m"), listed or {}, known or Traits(), learned)


def test_nothing_known_is_nothing_claimed() -> None:
    assert joined() == Traits()


def test_settings_win_over_lists_and_lists_over_what_is_generally_known() -> None:
    known = Traits(context_length=1, max_output=2, vision=False, reasoning=True, price=Price(9, 9), cache=True)
    from_list = joined(listed=GATEWAY, known=known)
    assert (from_list.context_length, from_list.max_output, from_list.vision) == (9000, 700, True)
    assert (from_list.tools, from_list.reasoning, from_list.cache) == (True, True, True)
    assert from_list.price == Price(2.5, 10.0, 1.0)
    entry = ModelEntry("m", 5000, 50, tools=False, vision=False, input_price=1, output_price=2, efforts=("low",))
    own = joined(entry, GATEWAY, known)
    assert (own.context_length, own.max_output, own.tools, own.vision) == (5000, 50, False, False)
    assert (own.price, own.efforts) == (Price(1, 2), ("low",))


def test_half_a_price_is_none() -> None:
    assert joined(ModelEntry("m", input_price=1.0)).price is None
    assert joined(listed={"pricing": {"prompt": "0.1"}}).price is None
    assert joined(listed={"pricing": {"prompt": "-1", "completion": "x"}}).price is None
    assert joined(listed={"pricing": {"prompt": "0", "completion": "0"}}).price == Price(0, 0)  # free, not unknown


@pytest.mark.parametrize(
    "listed",
    [
        {"capabilities": {"vision": True, "function_calling": True}},
        {"capabilities": {"image_input": {"supported": True}, "tools": {"supported": True}}},
    ],
)
def test_capabilities_in_other_words(listed: dict[str, Any]) -> None:
    assert (joined(listed=listed).vision, joined(listed=listed).tools) == (True, True)


def test_a_learned_window_bounds_a_configured_one_and_replaces_others() -> None:
    assert joined(ModelEntry("m", 5000), learned=4000).context_length == 4000
    assert joined(ModelEntry("m", 5000), learned=9000).context_length == 5000
    assert joined(known=Traits(context_length=5000), learned=9000).context_length == 9000


def test_well_known_models_are_found_by_family_and_behind_a_gateway() -> None:
    assert known_traits("openai", "gpt-4o-mini-2024-07-18").price == Price(0.15, 0.6, 0.075)
    assert known_traits("anthropic", "claude-sonnet-4-5-20250929").price == Price(3, 15, 0.3, 3.75)
    assert known_traits("anthropic", "claude-opus-4-6").adaptive_thinking
    behind = known_traits("openrouter", "anthropic/claude-sonnet-4-5")
    assert (behind.context_length, behind.price) == (200_000, None)  # the gateway sets its own price
    assert known_traits("", "nobody-knows") == Traits()


def test_the_bundled_data_is_sane() -> None:
    for name, model in known_models().items():
        assert name == name.lower(), name
        assert (model.price is None) == (not model.hosts), name
        assert model.max_output is None or model.context_length is None or model.max_output <= model.context_length
        if model.price is not None:
            assert 0 < model.price.input <= model.price.output, name
