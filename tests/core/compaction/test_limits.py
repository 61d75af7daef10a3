from __future__ import annotations

import pytest

from hermes_daemon.core.compaction.limits import limits
from hermes_daemon.core.settings import CompressionSettings


@pytest.mark.parametrize(
    ("window", "tail"), [(32_000, 6_400), (128_000, 10_000), (600_000, 15_000), (2_000_000, 25_000)]
)
def test_the_tail_is_a_fortieth_of_the_window_within_bounds(window: int, tail: int) -> None:
    assert limits(CompressionSettings(), window).tail == tail


def test_a_small_window_is_used_to_three_quarters_at_least() -> None:
    half = CompressionSettings(threshold=0.5)
    assert limits(half, 128_000).threshold == 96_000
    assert limits(half, 1_000_000).threshold == 500_000
    assert limits(CompressionSettings(threshold_tokens=50_000), 128_000).threshold == 50_000


def test_the_threshold_leaves_room_for_an_answer() -> None:
    assert limits(CompressionSettings(threshold=1.0), 100_000, max_output=40_000).threshold == 60_000


def test_the_gate_follows_the_window_unless_it_is_given() -> None:
    assert limits(CompressionSettings(), 100_000).gate == 9_000
    assert limits(CompressionSettings(), 400_000).gate == 12_000
    assert limits(CompressionSettings(micro_compact_min_reclaim_tokens=5), 400_000).gate == 5
    assert limits(CompressionSettings(micro_compact_compat="seed"), 400_000).gate == 0


def test_the_markers_budget_grows_with_what_it_stands_for_up_to_twice() -> None:
    ours = limits(CompressionSettings(), 128_000)
    assert ours.marker(0) == 4_000
    assert ours.marker(90_000) == 6_000
    assert ours.marker(10**7) == 8_000
    assert limits(CompressionSettings(), 1_000_000).marker(0) == 30_000


def test_real_tokens_become_raw_ones_by_the_calibration() -> None:
    assert limits(CompressionSettings(), 128_000, calibration=2.0).threshold == 51_200
