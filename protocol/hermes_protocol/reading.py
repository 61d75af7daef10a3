"""Reading what a later minor version wrote: words that this version does not know are "other", never a reason to stop.

A client reads results and events with `read`. What fits is decoded at the usual price; the second look is only taken
where it does not. The daemon reads params strictly: there an unknown word is the caller's mistake.
"""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

OTHER = "other"
MOST_MENDED = 1000
_PLACE = r" - at `\$(?P<path>[^`]*)`"
_WORD = re.compile(r"Invalid (?P<enum>enum )?value .*" + _PLACE, re.DOTALL)
_MISSING = re.compile(r"Object missing required field .*" + _PLACE)
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]")


def read(data: bytes | msgspec.Raw, decoder: msgspec.json.Decoder[T]) -> T:
    """`data` as the decoder's type. An unknown word of an enum becomes "other" where the type has that, else the field
    takes its default; rows of a list that cannot be read (an item of an unknown type) are left out.

    msgspec.ValidationError, the first one met, where that is not enough; msgspec.DecodeError for what is no JSON.
    """
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as error:
        value = msgspec.json.decode(data)
        emptied: set[str] = set()
        told = error
        for _ in range(MOST_MENDED):
            if not _mend(value, str(told), emptied):
                break
            try:
                return msgspec.convert(value, decoder.type)  # type: ignore[no-any-return]
            except msgspec.ValidationError as next_error:
                told = next_error
        raise


def _mend(value: Any, told: str, emptied: set[str]) -> bool:
    """Change `value` where `told` says that it does not fit; False when it is not about an unknown word."""
    if (missing := _MISSING.fullmatch(told)) is not None:
        return missing["path"] in emptied and _leave_out(value, _steps(missing["path"]))
    unknown = _WORD.fullmatch(told)
    if unknown is None or not (steps := _steps(unknown["path"])):
        return False
    *above, last = steps
    parent = _at(value, above)
    if not unknown["enum"] or not isinstance(parent, dict):
        return _leave_out(value, steps)
    if parent[last] != OTHER:
        parent[last] = OTHER
        return True
    del parent[last]
    emptied.add(unknown["path"].removesuffix(f".{last}"))
    return True


def _leave_out(value: Any, steps: list[str | int]) -> bool:
    """Take the innermost row of a list that `steps` lead through out of it."""
    for depth in range(len(steps) - 1, -1, -1):
        place = steps[depth]
        if isinstance(place, int):
            del _at(value, steps[:depth])[place]
            return True
    return False


def _at(value: Any, steps: list[str | int]) -> Any:
    for step in steps:
        value = value[step]
    return value


def _steps(path: str) -> list[str | int]:
    """The keys and places of a path such as `.items[2].status`; empty for one through the values of a dict."""
    found = list(_STEP.finditer(path))
    if "".join(match[0] for match in found) != path:
        return []
    return [match[1] if match[1] is not None else int(match[2]) for match in found]
