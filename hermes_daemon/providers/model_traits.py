"""What is known of a model, joined from four places: the settings, what its endpoint lists, what a refusal taught, and
the bundled data; in this order, field by field. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from hermes_daemon.core.settings import ModelEntry
from hermes_daemon.providers.prices import Price
from hermes_daemon.providers.wire import Traits

T = TypeVar("T")

# Where servers tell a model's window; the first that is there counts.
WINDOW_FIELDS = (
    "context_length", "max_context_length", "max_model_len", "context_window", "max_input_tokens",
    "loaded_context_length", "n_ctx",
)  # fmt: skip
OUTPUT_FIELDS = ("max_completion_tokens", "max_output_tokens", "max_output_length", "max_tokens")
A_MILLION = 1_000_000


def joined_traits(entry: ModelEntry, listed: Mapping[str, Any], known: Traits, learned: int | None) -> Traits:
    """The traits of a model. A window that a refusal named bounds a configured one and replaces any other."""
    window = entry.context_length or listed_window(listed) or known.context_length
    if learned is not None:
        window = min(learned, entry.context_length) if entry.context_length else learned
    prices = ((_configured_price(entry), "settings"), (_listed_price(listed), "endpoint"))
    price, price_from = next((told for told in prices if told[0] is not None), (known.price, known.price_from))
    return Traits(
        context_length=window,
        max_output=entry.max_output or _listed_output(listed) or known.max_output,
        tools=_first(entry.tools, _listed_tools(listed), known.tools),
        vision=_first(entry.vision, _listed_vision(listed), known.vision),
        reasoning=_first(entry.reasoning, _listed_reasoning(listed), known.reasoning),
        cache=_first(entry.cache, known.cache),
        efforts=_first(entry.efforts, known.efforts),
        adaptive_thinking=bool(_first(entry.adaptive_thinking, known.adaptive_thinking)),
        price=price,
        price_from=price_from,
    )


def listed_window(row: Mapping[str, Any]) -> int | None:
    """The window in tokens that an endpoint's list tells, or None."""
    return _number(row, WINDOW_FIELDS)


def _first(*values: T | None) -> T | None:
    return next((value for value in values if value is not None), None)


def _number(row: Mapping[str, Any], fields: tuple[str, ...]) -> int | None:
    sources = [source for source in (row, row.get("meta"), row.get("top_provider")) if isinstance(source, Mapping)]
    for source in sources:
        for field in fields:
            value = source.get(field)
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value
    return None


def _listed_output(row: Mapping[str, Any]) -> int | None:
    return _number(row, OUTPUT_FIELDS)


def _listed_tools(row: Mapping[str, Any]) -> bool | None:
    return _has(row.get("supported_parameters"), "tools", _capability(row, "function_calling", "tools"))


def _listed_reasoning(row: Mapping[str, Any]) -> bool | None:
    return _has(row.get("supported_parameters"), "reasoning", _capability(row, "reasoning", "thinking"))


def _listed_vision(row: Mapping[str, Any]) -> bool | None:
    shape = row.get("architecture")
    modalities = shape.get("input_modalities") if isinstance(shape, Mapping) else None
    return _has(modalities, "image", _capability(row, "vision", "image_input"))


def _has(listed: Any, word: str, otherwise: bool | None) -> bool | None:
    return word in listed if isinstance(listed, list) and listed else otherwise


def _capability(row: Mapping[str, Any], *names: str) -> bool | None:
    told = row.get("capabilities")
    if not isinstance(told, Mapping):
        return None
    for name in names:
        value = told.get(name)
        if isinstance(value, Mapping):
            value = value.get("supported")
        if isinstance(value, bool):
            return value
    return None


def _configured_price(entry: ModelEntry) -> Price | None:
    """A price needs both halves: with one of them the cost would be a guess."""
    if entry.input_price is None or entry.output_price is None:
        return None
    return Price(entry.input_price, entry.output_price, entry.cache_read_price, entry.cache_write_price)


def _listed_price(row: Mapping[str, Any]) -> Price | None:
    """Gateways list dollars for a token, as texts."""
    told = row.get("pricing")
    if not isinstance(told, Mapping):
        return None
    fields = ("prompt", "completion", "input_cache_read", "input_cache_write")
    put, got, read, written = (_dollars(told.get(field)) for field in fields)
    return None if put is None or got is None else Price(put, got, read, written)


def _dollars(text: Any) -> float | None:
    if not isinstance(text, str | int | float) or isinstance(text, bool):
        return None
    try:
        value = float(text) * A_MILLION
    except ValueError:
        return None
    return round(value, 9) if 0 <= value < A_MILLION else None
