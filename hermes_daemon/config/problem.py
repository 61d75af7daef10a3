"""What is wrong with a configuration, said so that it can be found and mended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

Key: TypeAlias = tuple[str | int, ...]
Place: TypeAlias = tuple[int, int]


class ConfigError(Exception):
    """One fault: the file (or variable) it is in, the 1-based line and column, the dotted key, and a sentence."""

    def __init__(self, message: str, *, path: str, place: Place | None = None, key: Key = ()) -> None:
        self.message, self.path, self.key = message, path, dotted(key)
        self.line: int | None = place[0] if place else None
        self.column: int | None = place[1] if place else None
        where = path if place is None else f"{path}:{place[0]}:{place[1]}"
        super().__init__(f"{where}: {self.key}: {message}" if key else f"{where}: {message}")


class Notes:
    """Collects the errors and warnings of one reading of one file. Lines come from `places` by key."""

    def __init__(self, path: str, places: Mapping[Key, Place] | None = None) -> None:
        self.path = path
        self.places = places or {}
        self.errors: list[ConfigError] = []
        self.warnings: list[str] = []

    def error(self, message: str, key: Key = (), place: Place | None = None) -> None:
        """The value at `key` cannot be used, or the text at `place` cannot be read."""
        self.errors.append(ConfigError(message, path=self.path, place=place or self._place(key), key=key))

    def warn(self, message: str, key: Key = ()) -> None:
        """Something that is probably not what was meant."""
        self.warnings.append(str(ConfigError(message, path=self.path, place=self._place(key), key=key)))

    def _place(self, key: Key) -> Place | None:
        while key and key not in self.places:
            key = key[:-1]
        return self.places.get(key) if key else None


def dotted(key: Key) -> str:
    """`providers."my.endpoint".models[0].name`: the way keys are written in messages and on the command line."""
    words = ""
    for part in key:
        if isinstance(part, int):
            words += f"[{part}]"
        else:
            plain = part and all(letter.isalnum() or letter in "-_" for letter in part)
            words += ("." if words else "") + (part if plain else f'"{part}"')
    return words


def parse_key(text: str) -> Key:
    """The inverse of `dotted`; ValueError when the text is no key."""
    key: list[str | int] = []
    at = 0
    while at < len(text):
        if text[at] == "[":
            end = text.find("]", at)
            if end < 0 or not text[at + 1 : end].isdigit():
                raise ValueError(f"{text!r}: expected a number in brackets after {text[:at]!r}")
            key.append(int(text[at + 1 : end]))
            at = end + 1
            continue
        if key:
            if text[at] != ".":
                raise ValueError(f"{text!r}: expected a dot after {text[:at]!r}")
            at += 1
        if text[at : at + 1] == '"':
            end = text.find('"', at + 1)
            if end < 0:
                raise ValueError(f'{text!r}: the name that begins with {text[at:]} has no closing "')
            key.append(text[at + 1 : end])
            at = end + 1
        else:
            end = min((found for found in (text.find(".", at), text.find("[", at)) if found >= 0), default=len(text))
            if end == at:
                raise ValueError(f"{text!r}: expected a name after {text[:at]!r}")
            key.append(text[at:end])
            at = end
    return tuple(key)


def nearest(name: str, known: Iterable[str]) -> str:
    """` (did you mean X?)`, or nothing when no known name is near."""
    import difflib  # Only a mistake pays for it.

    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f" (did you mean `{close[0]}`?)" if close else ""
