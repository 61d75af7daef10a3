"""Why a call got no answer."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

Reason: TypeAlias = Literal[
    "not_configured", "breaker_open", "text_limits", "unusable_body", "service_error", "cancelled"
]
REASONS: Final[tuple[Reason, ...]] = (
    "not_configured", "breaker_open", "text_limits", "unusable_body", "service_error", "cancelled",
)  # fmt: skip


class Declined(Exception):
    """The call is declined. `problem` is for people and names no text that was classified. `failure`: the service is
    down, which counts for the breaker."""

    def __init__(self, reason: Reason, problem: str = "", *, failure: bool = False) -> None:
        super().__init__(f"{reason}: {problem}" if problem else reason)
        self.reason, self.problem, self.failure = reason, problem, failure
