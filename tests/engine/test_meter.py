"""The clock of a turn, with time in the hands of the test."""

import pytest

from hermes_daemon.engine.meter import Meter, ms, seconds_between
from hermes_protocol.content import Usage
from hermes_protocol.events import Failure, TurnCount, TurnEnded


class HandClock:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.at = 100.0

    def now(self) -> str:
        return "2026-01-01T00:00:00.000Z"

    def monotonic(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.at += seconds


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


def test_parts_add_up_and_middleware_inside_a_prompt_is_counted_once(clock: HandClock) -> None:
    meter = Meter(clock, 2.0)
    with meter.during("prompt"):
        clock.at += 1.0
        with meter.during("middleware"):
            clock.at += 0.5
    with meter.during("journal"):
        clock.at += 0.25
    fact = meter.measured(TurnEnded("completed"), "lab/small")
    assert (fact.prompt_ms, fact.middleware_ms, fact.journal_ms) == (1000.0, 500.0, 250.0)
    assert (fact.queue_ms, fact.total_ms) == (2000.0, 1750.0)
    assert fact.first_token_ms is None


def test_a_block_that_raises_is_counted_too(clock: HandClock) -> None:
    meter = Meter(clock)

    def fails() -> None:
        with meter.during("journal"):
            clock.at += 1.0
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert meter.spent["journal"] == 1.0


def test_what_middleware_is_wrapped_around_is_not_its_time(clock: HandClock) -> None:
    meter = Meter(clock)
    began = meter.now()
    clock.at += 5.0
    meter.wrapped(began, 4.5)
    assert meter.spent["middleware"] == 0.5


def test_tools_side_by_side_are_counted_once(clock: HandClock) -> None:
    meter = Meter(clock)
    meter.tool_began()
    clock.at += 1.0
    meter.tool_began()
    clock.at += 1.0
    meter.tool_ended()
    clock.at += 1.0
    meter.tool_ended()
    clock.at += 10.0
    meter.tool_began()
    clock.at += 0.5
    meter.tool_ended()
    assert meter.measured(TurnEnded("completed"), "").tools_ms == 3500.0


def test_the_first_token_is_the_first_of_the_turn(clock: HandClock) -> None:
    meter = Meter(clock)
    clock.at += 0.75
    assert meter.token_came() == 100.75
    clock.at += 1.0
    meter.token_came()
    assert meter.measured(TurnEnded("completed"), "").first_token_ms == 750.0


def test_how_it_ended_is_told_by_words_of_ours_only(clock: HandClock) -> None:
    usage = Usage(1, 2, 3, 4, 5, 0.5)
    ended = TurnEnded("failed", "some reason", usage, Failure("provider_error", "a message"), turns=TurnCount(2, 1))
    fact = Meter(clock).measured(ended, "lab/small")
    assert (fact.status, fact.error, fact.failed) == ("failed", "provider_error", True)
    assert (fact.rounds, fact.deterministic_rounds) == (2, 1)
    assert (fact.input_tokens, fact.output_tokens, fact.cached_tokens, fact.cache_write_tokens) == (1, 2, 3, 4)
    assert (fact.reasoning_tokens, fact.cost) == (5, 0.5)
    assert "message" not in str(fact)
    assert "reason" not in str(fact).replace("reasoning_tokens", "")


def test_times_of_the_clock_are_subtracted_and_never_negative() -> None:
    assert seconds_between("2026-01-01T00:00:00.250Z", "2026-01-01T00:00:02.000Z") == 1.75
    assert seconds_between("2026-01-01T00:00:02.000Z", "2026-01-01T00:00:00.000Z") == 0.0
    assert seconds_between("", "2026-01-01T00:00:00.000Z") == 0.0
    assert ms(0.0012345) == 1.234
