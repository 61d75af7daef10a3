from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hermes_daemon.core.ports import ToolSpec
from hermes_daemon.core.window import (
    IMAGE_TOKENS,
    Calibration,
    input_room,
    message_tokens,
    occupancy,
    request_tokens,
    text_tokens,
)
from hermes_protocol.content import ImagePart, Message, TextPart, ToolCall, ToolResult


def test_dense_text_counts_more_than_prose() -> None:
    prose = "The quick brown fox jumps over the lazy dog again and again. " * 10
    table = '{"a1":0.0417,"b2":[99,173,20]},' * 20
    assert 0.18 < text_tokens(prose) / len(prose) < 0.28
    assert 0.4 < text_tokens(table) / len(table) < 0.7
    assert text_tokens("漢" * 120) == 133
    assert text_tokens("") == 0
    assert text_tokens("a") == 1
    assert text_tokens("\ud800") >= 1


@given(st.text(), st.text())
def test_a_text_costs_at_most_its_bytes_and_at_least_one_token(one: str, other: str) -> None:
    both = one + other
    assert text_tokens(both) <= len(both.encode("utf-8", "surrogatepass"))
    assert not both or text_tokens(both) >= 1


def test_every_part_of_a_request_counts() -> None:
    messages = [
        Message("user", (TextPart("x" * 36), ImagePart("image/png", "A" * 100_000))),
        Message("assistant", (ToolCall("c", "t", "x" * 36),)),
        Message("tool", (ToolResult("c", "x" * 36),)),
    ]
    bare = request_tokens(messages)
    assert IMAGE_TOKENS + 20 < bare < IMAGE_TOKENS + 60
    assert bare == sum(map(message_tokens, messages))
    tools = [ToolSpec("t", "d" * 360, {"type": "object"})]
    assert request_tokens(messages, "s" * 360, tools) > bare + 110


def test_the_first_report_sets_the_factor_and_later_ones_move_it() -> None:
    once = Calibration().update(1000, 1200)
    assert once.factor == 1.2
    assert once.tokens(500) == 600
    twice = once.update(1000, 900)
    assert 1.0 < twice.factor < 1.2
    assert twice.samples == 2


def test_reports_that_say_nothing_change_nothing() -> None:
    start = Calibration(1.1, 3)
    assert start.update(1000, 0) == start
    assert start.update(5, 500) == start


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(-5, 10**7))))
def test_no_sequence_of_reports_makes_the_factor_absurd(reports: list[tuple[int, int]]) -> None:
    calibration = Calibration()
    for estimated, reported in reports:
        calibration = calibration.update(estimated, reported)
    assert 0.25 <= calibration.factor <= 4.0


@given(st.floats(0.5, 2.0), st.lists(st.integers(200, 50_000), min_size=12, max_size=12))
def test_a_steady_model_is_learned(truth: float, sizes: list[int]) -> None:
    calibration = Calibration()
    for size in sizes:
        calibration = calibration.update(size, round(size * truth))
    assert abs(calibration.factor - truth) < 0.02


def test_occupancy_is_a_percentage_that_may_pass_one_hundred() -> None:
    assert occupancy(64_000, 128_000) == 50.0
    assert occupancy(5_000, 4_096) > 100
    assert occupancy(0, 0) == 0.0


def test_the_room_for_input_leaves_space_for_an_answer() -> None:
    assert input_room(100_000, 8_000) == 92_000
    assert input_room(4_000, None) == 3_600
    assert input_room(4_000, 1_000_000) == 2_000
