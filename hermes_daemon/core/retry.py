"""Whether and when a failed model call is tried again. A pure rule; the engine waits and calls.

What was only *shown* does not forbid another attempt: the engine discards the partial item and the text comes anew.
What was *executed* does: once a tool of this round has run, asking again could run it twice.
"""

from __future__ import annotations

import msgspec

from hermes_daemon.core.ports import ProviderFailure
from hermes_daemon.core.settings import AgentSettings

FIRST_DELAY_S = 0.5
LONGEST_BACKOFF_S = 30.0
LONGEST_RETRY_AFTER_S = 120.0


class RetryPlan(msgspec.Struct, frozen=True):
    """Try again: `attempt` is the number of the coming attempt (2 = the first repetition), after `delay` seconds."""

    attempt: int
    delay: float
    reason: str


def next_attempt(
    failure: ProviderFailure, attempt: int, settings: AgentSettings, *, visible: bool, rand: float
) -> RetryPlan | None:
    """The plan after attempt number `attempt` (from 1) failed, or None when the failure is final.

    `visible` says that this attempt already had an effect that cannot be taken back (a tool ran); partial text alone
    is no such effect. `rand` in [0, 1) spreads clients that failed together. A wait the endpoint asked for is always
    waited in full; one above 120 s is not waited at all, because a person is better told than left waiting.
    """
    if visible or not failure.retryable or attempt > settings.api_max_retries:
        return None
    if failure.retry_after is not None:
        if failure.retry_after > LONGEST_RETRY_AFTER_S:
            return None
        # Never before the asked time, and not all clients in the same instant after it.
        return RetryPlan(attempt + 1, failure.retry_after + 0.25 * rand, failure.message)
    # With at most half a step of jitter each wait is longer than the one before.
    backoff = min(FIRST_DELAY_S * 2 ** (attempt - 1), LONGEST_BACKOFF_S)
    return RetryPlan(attempt + 1, backoff * (1 + rand / 2), failure.message)
