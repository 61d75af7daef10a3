"""The one line that says, once for each home, which tiny local model answers and how to get a better one."""

from __future__ import annotations

import contextlib
import os

MARKER = ".local-model-told"
"""Shared with the one-shot chat: whoever says it first, says it for both."""


class FirstUse:
    """`home` holds the marker. The line is said after the first answer to something typed here."""

    def __init__(self, home: str) -> None:
        self._marker = os.path.join(home, MARKER)
        self._spoken = False

    def spoken(self) -> None:
        """A message of this person was sent."""
        self._spoken = True

    def line(self, model: str) -> str:
        """The line for a turn that `model` completed, or "" when there is none to say (any more)."""
        if not self._spoken or not model.startswith("local/") or os.path.exists(self._marker):
            return ""
        # A home that cannot be written: it is said again next time.
        with contextlib.suppress(OSError):
            os.close(os.open(self._marker, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        return (
            f"{model} answered, a tiny model on this machine: good to see that everything works, not to code with. "
            "For a better one: `hermes config set model.default PROVIDER/MODEL` (docs/howto/models.md)"
        )
