"""How much a model thinks: one vocabulary for all, said to each server in its own words. Data and one function.

A word that a server has no counterpart for is refused with the words it has, never rounded to another one. Servers that
nobody knows are told the word as it is; they refuse by themselves what they do not take.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hermes_daemon.providers.wire import FormatName, Traits, Unsendable

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra")

# Anthropic's thinking budgets in tokens; 1024 is the least the API takes.
BUDGETS = {"minimal": 1024, "low": 4096, "medium": 8192, "high": 16_384, "xhigh": 32_768, "max": 65_536}
# The same for models that choose their own budget: the words of output_config.effort.
ADAPTIVE = ("none", "low", "medium", "high", "xhigh", "max")


def _said(*words: str) -> dict[str, dict[str, Any]]:
    return {word: {"reasoning_effort": word} for word in words}


def _template(word: str) -> dict[str, Any]:
    """Servers that fill a chat template: thinking is an argument of the template, the effort one of some."""
    return {"reasoning_effort": word, "chat_template_kwargs": {"enable_thinking": True, "reasoning_effort": word}}


# The fields a word becomes, by the table that a preset names.
TABLES: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "": _said(*EFFORTS),
    "openai": _said("none", "minimal", "low", "medium", "high", "xhigh", "max"),
    "responses": {
        word: {"reasoning": {"effort": word, "summary": "auto"}}
        for word in ("none", "minimal", "low", "medium", "high", "xhigh", "max")
    },
    "openrouter": {
        word: {"reasoning": {"effort": word}} for word in ("none", "minimal", "low", "medium", "high", "xhigh")
    },
    "levels": _said("none", "low", "medium", "high"),
    "gemini": _said("none", "minimal", "low", "medium", "high"),
    "mistral": _said("none", "high"),
    "deepseek": {
        "none": {"thinking": {"type": "disabled"}},
        **{word: {"thinking": {"type": "enabled"}, "reasoning_effort": word} for word in ("low", "high", "max")},
    },
    "template": {
        "none": {"chat_template_kwargs": {"enable_thinking": False}},
        **{word: _template(word) for word in ("low", "medium", "high")},
    },
    "ollama": {"none": {"think": False}, **{word: {"think": word} for word in ("low", "medium", "high")}},
}


def taken_efforts(format: FormatName, table: str, traits: Traits) -> tuple[str, ...] | None:
    """The words that a model takes in this format; None where the server is left to say no."""
    if traits.reasoning is False:
        return ("none",)
    if format == "anthropic_messages":
        words: tuple[str, ...] = ADAPTIVE if traits.adaptive_thinking else ("none", *BUDGETS)
    else:
        words = tuple(TABLES[{"openai_responses": "responses", "ollama": "ollama"}.get(format, table)])
    if traits.efforts is not None:
        return tuple(word for word in words if word in traits.efforts)
    return None if words == EFFORTS else words


def effort_fields(table: str, word: str | None, traits: Traits) -> Mapping[str, Any]:
    """The fields of the body that ask for this effort; none for None. Raises Unsendable."""
    if word is None:
        return {}
    known = TABLES[table]
    taken = tuple(w for w in known if traits.efforts is None or w in traits.efforts)
    check_effort(word, taken, traits)
    return known[word]


def check_effort(word: str, taken: tuple[str, ...], traits: Traits) -> None:
    """Raises Unsendable, naming the words, unless the model takes this one."""
    if word not in EFFORTS:
        raise Unsendable(f"{word!r} is no reasoning effort; there are {', '.join(EFFORTS)}.")
    if traits.reasoning is False and word != "none":
        raise Unsendable(f"This model does not reason, so it takes no effort {word!r}; leave it out or say none.")
    if word not in taken and not (traits.reasoning is False and word == "none"):
        raise Unsendable(
            f"This model takes no reasoning effort {word!r}; it takes {', '.join(taken) or 'none at all'}."
        )
