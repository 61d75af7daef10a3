"""What is generally known of well-known models: the bundled file, by the longest pattern that fits a name.

It fills in what neither the settings nor the endpoint say. Prices change: those of the settings win.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping

import msgspec

from hermes_daemon.providers.prices import Price
from hermes_daemon.providers.wire import Traits

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models.json")


class KnownModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry, sizes in tokens. `hosts` are the presets whose price it is; elsewhere the price is unknown."""

    context_length: int | None = None
    max_output: int | None = None
    tools: bool | None = None
    vision: bool | None = None
    reasoning: bool | None = None
    cache: bool | None = None
    efforts: tuple[str, ...] | None = None
    adaptive_thinking: bool = False
    price: Price | None = None
    hosts: tuple[str, ...] = ()


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    noted: str
    notes: tuple[str, ...]
    models: dict[str, KnownModel]


def known_models() -> Mapping[str, KnownModel]:
    """The bundled entries by pattern. A pattern is the beginning of a name."""
    return _read().models


def noted() -> str:
    """The day on which the bundled prices were written down."""
    return _read().noted


@functools.cache
def _read() -> _File:
    with open(PATH, "rb") as file:
        return msgspec.json.decode(file.read(), type=_File)


def known_traits(host: str, name: str) -> Traits:
    """What is known of a model that an endpoint calls `name`; `host` is the preset that the endpoint is."""
    bare = name.rpartition("/")[2].lower()  # gateways put the maker before it
    fitting = [pattern for pattern in known_models() if bare.startswith(pattern)]
    if not fitting:
        return Traits()
    model = known_models()[max(fitting, key=len)]
    price = model.price if host in model.hosts else None
    return Traits(
        context_length=model.context_length,
        max_output=model.max_output,
        tools=model.tools,
        vision=model.vision,
        reasoning=model.reasoning,
        cache=model.cache,
        efforts=model.efforts,
        adaptive_thinking=model.adaptive_thinking,
        price=price,
        price_from=f"bundled {noted()}" if price is not None else "",
    )
