"""What a provider wants back byte for byte (signatures, encrypted thinking), kept in the `opaque` of a part.

It says which format and model it came from: another model's signature is refused, so it is left out of a request to
any other.
"""

from __future__ import annotations

from typing import Any

import msgspec


class _Sealed(msgspec.Struct):
    format: str
    model: str
    data: Any


def seal(format: str, model: str, data: Any) -> str:
    """The text to keep."""
    return msgspec.json.encode(_Sealed(format, model, data)).decode()


def unseal(text: str | None, format: str, model: str) -> Any:
    """What was kept, or None when it came from elsewhere (or nothing was)."""
    if not text or not text.startswith("{"):
        return None
    try:
        sealed = msgspec.json.decode(text, type=_Sealed)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    return sealed.data if (sealed.format, sealed.model) == (format, model) else None
