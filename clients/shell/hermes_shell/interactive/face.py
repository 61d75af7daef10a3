"""What the chat needs of a terminal. Two kinds exist: a screen with a live region, and plain lines."""

from __future__ import annotations

from typing import Protocol


class Face(Protocol):
    """Where the chat shows itself."""

    def print(self, text: str) -> None:
        """Put `text` (may hold colours) into the scrollback, with a newline after it. Order is kept."""
        ...

    def redraw(self) -> None:
        """Something outside the scrollback changed: live text, question, queue, status."""
        ...

    def restore(self, text: str) -> None:
        """Give text back to the person for editing, because it could not be sent."""
        ...

    def leave(self, code: int) -> None:
        """End the chat with this exit code."""
        ...
