"""What a call costs, from the prices of its model. A cost that cannot be known is absent, never 0."""

from __future__ import annotations

import msgspec

from hermes_protocol.content import Usage


class Price(msgspec.Struct, frozen=True):
    """US dollars for a million tokens. Cached tokens without a price of their own cost what input costs."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None


def with_cost(usage: Usage, price: Price | None) -> Usage:
    """The usage with its cost, unless the server told one or no price is known.

    `usage.input_tokens` counts all prompt tokens; those read from or written to a cache are among them.
    """
    if price is None or usage.cost is not None:
        return usage
    read, written = usage.cache_read_tokens, usage.cache_write_tokens
    plain = max(usage.input_tokens - read - written, 0)
    dollars = plain * price.input + usage.output_tokens * price.output
    dollars += read * (price.input if price.cache_read is None else price.cache_read)
    dollars += written * (price.input if price.cache_write is None else price.cache_write)
    return msgspec.structs.replace(usage, cost=dollars / 1e6)


def count(raw: object, *fields: str) -> int:
    """The number of tokens in the first of these fields that holds one; 0 without any."""
    for field in fields:
        value = raw.get(field) if isinstance(raw, dict) else None
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e12:
            return int(value)
    return 0
