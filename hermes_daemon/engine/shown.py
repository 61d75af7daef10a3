"""What people are shown of running tools: whole lines without secrets, and both ends of what is too long."""

from __future__ import annotations

from collections.abc import Callable

MAX_HELD = 8_192


class LineRedactor:
    """Redacts a stream. A secret may be cut anywhere by the pipe, so only whole lines pass; a key block is held to
    its end."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        self._redact = redact
        self._held = ""

    def feed(self, text: str) -> str:
        """What may be shown now."""
        self._held += text
        end = self._held.rfind("\n") + 1
        block = self._held.find("-----BEGIN ")
        if block >= 0 and "-----END " not in self._held[block:]:
            end = min(end, block)
        if len(self._held) - end > MAX_HELD:
            end = len(self._held)
        ready, self._held = self._held[:end], self._held[end:]
        return self._redact(ready) if ready else ""

    def rest(self) -> str:
        """What was held back, at the end of the stream."""
        held, self._held = self._held, ""
        return self._redact(held) if held else ""


def clip(text: str, chars: int) -> tuple[str, str]:
    """The first 40 % and the last 60 % of `chars` characters."""
    head = chars * 2 // 5
    return text[:head], text[len(text) - (chars - head) :]
