"""Call ids as a server takes them, where it is picky. The ids of the history stay what they are."""

from __future__ import annotations

import hashlib
import re

_PLAIN = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_NINE = re.compile(r"[a-zA-Z0-9]{9}")


def plain_id(call_id: str) -> str:
    """Letters, digits, `_` and `-`, 64 at most: what Anthropic and the Responses API take. Fitting ids stay."""
    return call_id if _PLAIN.fullmatch(call_id) else f"call_{_digest(call_id)[:24]}"


def nine_id(call_id: str) -> str:
    """Nine letters or digits: what Mistral takes. Fitting ids stay."""
    return call_id if _NINE.fullmatch(call_id) else _digest(call_id)[:9]


def _digest(call_id: str) -> str:
    return hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()
