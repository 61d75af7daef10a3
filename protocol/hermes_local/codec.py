"""JSON for the hot path: the C scanner and encoder of the standard library without the modules around them.

`import json` pulls in re, enum, functools and collections, 15 ms beside an interpreter that starts in 17. The C parts
it wraps are used here directly; where they are missing or have changed, `json` itself steps in.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class _Grammar:
    """What the C scanner asks of its owner: plain Python values, nothing beyond JSON's own forms."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    array_hook = None
    parse_float = float
    parse_int = int

    @staticmethod
    def parse_constant(name: str) -> float:
        raise ValueError(f"{name} is not JSON")


def _load() -> tuple[Callable[[str], Any], Callable[[Any], str]]:
    try:
        from _json import encode_basestring, make_encoder, make_scanner

        scan = make_scanner(_Grammar)  # type: ignore[arg-type]  # it only reads the attributes above
        write = make_encoder(None, _refuse, encode_basestring, None, ":", ",", False, False, False)
    except (ImportError, TypeError, AttributeError):
        import json

        return json.loads, json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode

    def parse(text: str) -> Any:
        text = text.strip(" \t\r\n")
        try:
            value, end = scan(text, 0)
        except (StopIteration, SystemError):
            # The scanner cannot word its own errors while json.decoder is not loaded; now the time does not matter.
            import json

            return json.loads(text, parse_constant=_Grammar.parse_constant)
        if end != len(text):
            raise ValueError(f"more text after the JSON value, at character {end}")
        return value

    def serialise(value: Any) -> str:
        return "".join(write(value, 0))

    return parse, serialise


def _refuse(value: object) -> object:
    raise TypeError(f"{type(value).__name__} is not a JSON value")


_parse, _serialise = _load()


def decode(body: bytes | str) -> Any:
    """The value of one JSON text; ValueError where it is not one (bad UTF-8 included)."""
    return _parse(body if isinstance(body, str) else body.decode())


def encode(value: Any) -> str:
    """Compact JSON of plain values, other than ASCII unescaped. TypeError or ValueError for anything else.

    Lone surrogates, which file names may hold, become U+FFFD: they have no UTF-8 form.
    """
    text = _serialise(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
