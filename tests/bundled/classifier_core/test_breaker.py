"""The breaker by its laws: what it lets through, and when."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hermes_daemon.bundled.classifier_core.breaker import Breaker, State

STEPS = st.lists(
    st.tuples(st.sampled_from(["enter", "enter", "wait", "succeed", "answer", "fail", "release"]), st.integers(0, 3)),
    max_size=60,
)


@given(STEPS, st.integers(1, 4))
def test_whatever_happens_at_most_one_tries_while_it_is_half_open_and_changes_follow_each_other(
    steps: list[tuple[str, int]], most: int
) -> None:
    time = 0.0
    changes: list[tuple[State, State]] = []
    breaker = Breaker(most, 10.0, lambda: time, lambda before, after: changes.append((before, after)))
    tickets: list[int] = []
    failed_in_a_row = 0
    for step, which in steps:
        before = breaker.state
        if step == "enter":
            ticket = breaker.enter()
            assert (ticket is not None) == (before == "closed" or (breaker.state == "half-open" != before))
            if ticket is not None:
                tickets.append(ticket)
            continue
        if step == "wait":
            time += 4.0
            continue
        if not tickets:
            continue
        ticket = tickets.pop(which % len(tickets))
        act = {"succeed": breaker.succeeded, "answer": breaker.answered, "fail": breaker.failed,
               "release": breaker.released}  # fmt: skip
        known = breaker.failures
        act[step](ticket)
        if before == "open":
            assert breaker.state == "open"
        if before == "closed" and step == "answer":
            assert breaker.failures == known
        failed_in_a_row = breaker.failures
        assert (breaker.state == "closed") <= (failed_in_a_row < most)
    states = ["closed", *(after for _, after in changes)]
    assert [before for before, _ in changes] == states[:-1]
    allowed = {("closed", "open"), ("open", "half-open"), ("half-open", "open"), ("half-open", "closed")}
    assert set(changes) <= allowed


def test_a_try_that_was_given_back_is_the_next_ones_without_waiting_again() -> None:
    time = 0.0
    breaker = Breaker(1, 10.0, lambda: time)
    ticket = breaker.enter()
    assert ticket is not None
    breaker.failed(ticket)
    assert breaker.retry_after == 10.0
    time = 10.0
    attempt = breaker.enter()
    assert attempt is not None
    assert breaker.enter() is None
    breaker.released(attempt)
    again = breaker.enter()
    assert again is not None
    breaker.succeeded(attempt)
    assert breaker.state == "half-open"
    breaker.failed(again)
    assert (breaker.state, breaker.retry_after) == ("open", 10.0)


def test_a_reply_of_no_use_is_enough_to_close_it_after_a_time_out() -> None:
    time = 0.0
    breaker = Breaker(1, 10.0, lambda: time)
    ticket = breaker.enter()
    assert ticket is not None
    breaker.failed(ticket)
    time = 10.0
    attempt = breaker.enter()
    assert attempt is not None
    breaker.answered(attempt)
    assert breaker.state == "closed"
