"""JSON as models write it when they slip: complete, and with an unambiguous meaning, but not by the letter.

Accepted beyond JSON: a trailing comma, raw control characters inside strings, single-quoted strings, `True`, `False`,
`None`, unquoted names as keys, an unknown escape taken as two characters, a Markdown fence around the whole. A text
that ends before its brackets and quotes are closed is BrokenOff, never completed.
"""

from __future__ import annotations

import math
import re
from typing import Any

_SPACE = re.compile(r"\s*")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?(?![\w.+-])")
_NAME = re.compile(r"[A-Za-z_][\w-]*")
_FENCE = re.compile(r"\s*```(?:json)?[ \t]*\n(.*)\n\s*```\s*", re.DOTALL)
_WORDS: dict[str, Any] = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_ESCAPES = {'"': '"', "'": "'", "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_PLAIN = {'"': re.compile(r'[^"\\]+'), "'": re.compile(r"[^'\\]+")}
_HIGH_SURROGATE = re.compile("[\ud800-\udbff]")
_DEPTH = 200


class NotJson(ValueError):
    """The text has no unambiguous meaning; says what was found where."""


class BrokenOff(NotJson):
    """The text ends before its value does."""


def read_lenient(text: str) -> Any:
    """The value of the text. Raises NotJson or BrokenOff, naming the character position."""
    fenced = _FENCE.fullmatch(text)
    reader = _Reader(fenced.group(1) if fenced else text)
    value = reader.value(0)
    reader.space()
    if reader.at < len(reader.text):
        raise NotJson(f"more text after the value, at character {reader.at}")
    return value


class _Reader:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def space(self) -> None:
        match = _SPACE.match(self.text, self.at)
        self.at = match.end() if match else self.at

    def peek(self) -> str:
        """The next character that is not blank. BrokenOff at the end of the text."""
        self.space()
        if self.at >= len(self.text):
            raise BrokenOff(f"the text ends at character {self.at} before the value is complete")
        return self.text[self.at]

    def value(self, depth: int) -> Any:
        if depth > _DEPTH:
            raise NotJson(f"nested more than {_DEPTH} levels deep")
        character = self.peek()
        if character == "{":
            return self.object(depth)
        if character == "[":
            return self.array(depth)
        if character in "\"'":
            return self.string(character)
        number = _NUMBER.match(self.text, self.at)
        if number:
            self.at = number.end()
            return _number(number)
        return self.word()

    def word(self) -> Any:
        match = _NAME.match(self.text, self.at)
        if match and match.group() in _WORDS:
            self.at = match.end()
            return _WORDS[match.group()]
        if match and match.end() == len(self.text):
            raise BrokenOff(f"the text ends in {match.group()!r}")
        raise NotJson(f"no JSON value at character {self.at}")

    def object(self, depth: int) -> dict[str, Any]:
        self.at += 1
        result: dict[str, Any] = {}
        while self.peek() != "}":
            key = self.key()
            if self.peek() != ":":
                raise NotJson(f"expected ':' after the key {key!r} at character {self.at}")
            self.at += 1
            value = self.value(depth + 1)
            if key in result and result[key] != value:
                raise NotJson(f"the key {key!r} stands twice with different values")
            result[key] = value
            self.separator("}")
        self.at += 1
        return result

    def key(self) -> str:
        quote = self.peek()
        if quote in "\"'":
            return self.string(quote)
        match = _NAME.match(self.text, self.at)
        if not match:
            raise NotJson(f"expected a key at character {self.at}")
        self.at = match.end()
        return match.group()

    def array(self, depth: int) -> list[Any]:
        self.at += 1
        result = []
        while self.peek() != "]":
            result.append(self.value(depth + 1))
            self.separator("]")
        self.at += 1
        return result

    def separator(self, closing: str) -> None:
        character = self.peek()
        if character == ",":
            self.at += 1
        elif character != closing:
            raise NotJson(f"expected ',' or {closing!r} at character {self.at}")

    def string(self, quote: str) -> str:
        pieces: list[str] = []
        self.at += 1
        while True:
            if self.at >= len(self.text):
                raise BrokenOff("the text ends inside a string")
            plain = _PLAIN[quote].match(self.text, self.at)
            if plain:
                pieces.append(plain.group())
                self.at = plain.end()
                continue
            character = self.text[self.at]
            self.at += 1
            if character == quote:
                return _join_surrogates("".join(pieces))
            pieces.append(self.escape())

    def escape(self) -> str:
        if self.at >= len(self.text):
            raise BrokenOff("the text ends inside a string")
        character = self.text[self.at]
        self.at += 1
        if character == "u":
            digits = self.text[self.at : self.at + 4]
            if len(digits) < 4 and self.at + 4 > len(self.text):
                raise BrokenOff("the text ends inside an escape")
            if not re.fullmatch(r"[0-9a-fA-F]{4}", digits):
                raise NotJson(f"\\u needs four hexadecimal digits at character {self.at}")
            self.at += 4
            return chr(int(digits, 16))
        return _ESCAPES.get(character, "\\" + character)


def _number(match: re.Match[str]) -> int | float:
    if not match.group(1) and not match.group(2):
        try:
            return int(match.group())
        except ValueError as error:  # Python's limit on the digits of an integer
            raise NotJson(str(error)) from None
    number = float(match.group())
    if math.isinf(number):
        raise NotJson(f"the number {match.group()} is too large")
    return number


def _join_surrogates(text: str) -> str:
    r"""`\ud83c\udf78` is one character; halves that have no partner stay, for the caller to refuse."""
    if not _HIGH_SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
