"""How many tokens a session's messages are, measured once, and corrected by what each model reported."""

from __future__ import annotations

from hermes_daemon.core.window import Calibration, message_tokens
from hermes_protocol.content import Message


class Estimates:
    """Kept for as long as the session is in memory."""

    def __init__(self) -> None:
        self._calibrations: dict[str, Calibration] = {}
        self._sizes: dict[Message, int] = {}

    def calibration(self, model: str) -> Calibration:
        """The learned factor between our token estimate and this model's count."""
        return self._calibrations.get(model, Calibration())

    def calibrate(self, model: str, estimated: int, reported: int) -> None:
        """Learn from a provider's report."""
        self._calibrations[model] = self.calibration(model).update(estimated, reported)

    def size_of(self, message: Message) -> int:
        """The raw estimate of a message, kept: a long history is measured once."""
        size = self._sizes.get(message)
        if size is None:
            size = self._sizes[message] = message_tokens(message)
        return size
