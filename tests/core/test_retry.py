from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hermes_daemon.core.ports import ProviderFailure
from hermes_daemon.core.retry import LONGEST_BACKOFF_S, LONGEST_RETRY_AFTER_S, next_attempt
from hermes_daemon.core.settings import AgentSettings

SETTINGS = AgentSettings(api_max_retries=5)


def failure(retryable: bool = True, retry_after: float | None = None) -> ProviderFailure:
    return ProviderFailure("rate", "slow down", provider="p", retryable=retryable, retry_after=retry_after)


def test_what_cannot_succeed_is_not_tried_again() -> None:
    assert next_attempt(failure(retryable=False), 1, SETTINGS, visible=False, rand=0.5) is None


def test_nothing_is_tried_again_once_a_tool_ran() -> None:
    assert next_attempt(failure(), 1, SETTINGS, visible=True, rand=0.5) is None


def test_the_number_of_attempts_is_bounded_by_the_setting() -> None:
    assert next_attempt(failure(), 5, SETTINGS, visible=False, rand=0.0) is not None
    assert next_attempt(failure(), 6, SETTINGS, visible=False, rand=0.0) is None
    assert next_attempt(failure(), 1, AgentSettings(api_max_retries=0), visible=False, rand=0.0) is None


@given(st.floats(0, LONGEST_RETRY_AFTER_S), st.floats(0, 1, exclude_max=True))
def test_an_asked_wait_is_waited_in_full(asked: float, rand: float) -> None:
    plan = next_attempt(failure(retry_after=asked), 1, SETTINGS, visible=False, rand=rand)
    assert plan is not None
    assert asked <= plan.delay <= asked + 0.25
    assert plan.attempt == 2


def test_a_wait_beyond_the_cap_ends_the_attempts() -> None:
    over = failure(retry_after=LONGEST_RETRY_AFTER_S + 1)
    assert next_attempt(over, 1, SETTINGS, visible=False, rand=0.0) is None


@given(st.integers(1, 5), st.floats(0, 1, exclude_max=True), st.floats(0, 1, exclude_max=True))
def test_each_wait_is_clearly_longer_than_the_one_before(attempt: int, rand: float, other: float) -> None:
    settings = AgentSettings(api_max_retries=10)
    first = next_attempt(failure(), attempt, settings, visible=False, rand=rand)
    second = next_attempt(failure(), attempt + 1, settings, visible=False, rand=other)
    assert first is not None
    assert second is not None
    assert second.delay > first.delay * 1.1
    assert second.delay <= LONGEST_BACKOFF_S * 1.5
