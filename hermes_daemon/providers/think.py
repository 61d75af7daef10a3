"""Thinking that a server left inside the text, between `<think>` tags.

Only the very start of an answer is looked at: an opening tag there begins thinking, a closing tag there is a stray
that some servers leave behind and is dropped. Anywhere else a tag is text, for instance in a code sample.
"""

from __future__ import annotations

from typing import Literal

from hermes_daemon.core.ports import ReasoningDelta, TextDelta

OPEN, CLOSE = "<think>", "</think>"


class ThinkFilter:
    """Feed it the text deltas of one answer; it gives text and reasoning, holding back only what may be a tag."""

    def __init__(self) -> None:
        self._state: Literal["start", "thinking", "after", "text"] = "start"
        self._held = ""

    def feed(self, text: str) -> list[TextDelta | ReasoningDelta]:
        """The deltas that are certain now."""
        if self._state == "text":
            return [TextDelta(text)] if text else []
        self._held += text
        out: list[TextDelta | ReasoningDelta] = []
        while self._step(out):
            pass
        return out

    def flush(self) -> list[TextDelta | ReasoningDelta]:
        """What was held back when the answer ended."""
        held, self._held = self._held, ""
        if not held or self._state == "after":
            return []
        return [ReasoningDelta(held) if self._state == "thinking" else TextDelta(held)]

    def _step(self, out: list[TextDelta | ReasoningDelta]) -> bool:
        """One move of the state; False when more text is needed."""
        if self._state == "start":
            return self._start(out)
        if self._state == "thinking":
            return self._thinking(out)
        if self._state == "after":  # the blank lines behind a tag that went are nobody's text
            self._held = self._held.lstrip()
            if self._held:
                self._state = "text"
        if self._state == "text" and self._held:
            out.append(TextDelta(self._held))
            self._held = ""
        return False

    def _start(self, out: list[TextDelta | ReasoningDelta]) -> bool:
        begun = self._held.lstrip()
        for tag, state in ((OPEN, "thinking"), (CLOSE, "after")):
            if begun.startswith(tag):
                self._held = begun[len(tag) :]
                self._state = "thinking" if state == "thinking" else "after"
                return True
        if OPEN.startswith(begun) or CLOSE.startswith(begun):
            return False
        self._state = "text"
        return True

    def _thinking(self, out: list[TextDelta | ReasoningDelta]) -> bool:
        thought, tag, rest = self._held.partition(CLOSE)
        if tag:
            if thought:
                out.append(ReasoningDelta(thought))
            self._held, self._state = rest, "after"
            return True
        keep = next((n for n in range(len(CLOSE) - 1, 0, -1) if self._held.endswith(CLOSE[:n])), 0)
        sure = self._held[: len(self._held) - keep]
        if sure:
            out.append(ReasoningDelta(sure))
            self._held = self._held[len(sure) :]
        return False
