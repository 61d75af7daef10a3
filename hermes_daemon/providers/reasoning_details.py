"""Thinking as gateways tell it: a list of typed pieces that have to go back as they were, signatures included. Pure."""

from __future__ import annotations

from typing import Any

_TEXTS = ("text", "summary", "data")


class ReasoningDetails:
    """Puts the pieces of `reasoning_details` together. Pieces of one index and type are one entry."""

    def __init__(self) -> None:
        self._entries: list[tuple[Any, dict[str, Any], dict[str, list[str]]]] = []

    def add(self, pieces: Any) -> str:
        """Take one delta's list; the words in it that a person can read."""
        read: list[str] = []
        for piece in pieces if isinstance(pieces, list) else ():
            if not isinstance(piece, dict) or not isinstance(piece.get("type"), str):
                continue
            fields, texts = self._entry(piece)
            for name, value in piece.items():
                if name in _TEXTS and isinstance(value, str):
                    texts.setdefault(name, []).append(value)
                    if name != "data":
                        read.append(value)
                elif value is not None:
                    fields[name] = value
        return "".join(read)

    def whole(self) -> list[dict[str, Any]]:
        """The entries, each as one piece."""
        return [
            {**fields, **{name: "".join(parts) for name, parts in texts.items()}} for _, fields, texts in self._entries
        ]

    def _entry(self, piece: dict[str, Any]) -> tuple[dict[str, Any], dict[str, list[str]]]:
        key = (piece["type"], piece.get("index"), piece.get("id"))
        if self._entries and self._entries[-1][0] == key:
            return self._entries[-1][1:]
        if piece.get("index") is not None:
            for known, fields, texts in self._entries:
                if known == key:
                    return fields, texts
        entry = (key, dict[str, Any](), dict[str, list[str]]())
        self._entries.append(entry)
        return entry[1:]
