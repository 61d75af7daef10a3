"""Payloads as hooks may see them: keys of secrets blacked out, depth and size bounded."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

HIDDEN = "[REDACTED]"
DEPTH = 8
TOTAL = 50_000
_SECRET = re.compile(r"^(api_?key|authorization|proxy_authorization|cookie|set_cookie|.*_api_key)$", re.IGNORECASE)


def sanitised(value: Any, total: int = TOTAL) -> Any:
    """A plain copy of dicts, lists and atoms with at most about `total` characters: first with strings of 8,000 and
    sequences of 200, then of 1,000 and 50, at last a preview."""
    plain = msgspec.to_builtins(value, builtin_types=(bytes,), enc_hook=repr)
    for strings, sequences in ((8000, 200), (1000, 50)):
        bounded = _bounded(plain, strings, sequences, DEPTH)
        text = msgspec.json.encode(bounded)
        if len(text) <= total:
            return bounded
    return {
        "_truncated": True,
        "original_type": type(value).__name__,
        "preview": text[:1000].decode("utf-8", "replace"),
    }


def _bounded(value: Any, strings: int, sequences: int, depth: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= strings else value[:strings] + "…"
    if isinstance(value, (dict, list, tuple)) and not depth:
        return "…"
    if isinstance(value, dict):
        return {
            key: HIDDEN if _SECRET.match(str(key).replace("-", "_")) else _bounded(each, strings, sequences, depth - 1)
            for key, each in list(value.items())[:sequences]
        }
    if isinstance(value, (list, tuple)):
        return [_bounded(each, strings, sequences, depth - 1) for each in value[:sequences]]
    return value


def blackened(value: Any, redact: Callable[[str], str]) -> Any:
    """A copy of plain dicts, lists and atoms, whole: keys of secrets blacked out, every text redacted."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {
            key: HIDDEN if _SECRET.match(str(key).replace("-", "_")) else blackened(each, redact)
            for key, each in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [blackened(each, redact) for each in value]
    return value
