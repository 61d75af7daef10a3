from tests.bench.figure import Figure, interleaved, percentile
from tests.bench.report import goal, page, plot, used

FAST = Figure("fast", 30.0, "ms", goal=4.0, of="ratio", comparison=10.0, compared_with="nothing", note="whole")
SLOW = Figure("slow", 20_000, "events/s", better="higher", goal=30_000)


def test_a_goal_of_a_ratio_is_held_against_the_ratio() -> None:
    assert (FAST.ratio, FAST.ok, goal(FAST), used(FAST)) == (3.0, True, "ratio ≤ 4", 0.75)


def test_a_goal_that_wants_more_is_missed_below() -> None:
    assert (SLOW.ok, goal(SLOW), used(SLOW)) == (False, "≥ 30,000 events/s", 1.5)


def test_a_figure_without_a_goal_is_neither_reached_nor_missed() -> None:
    figure = Figure("info", 1.0, "ms")
    assert (figure.ok, used(figure)) == (None, None)


def test_measurements_alternate_and_the_first_round_does_not_count() -> None:
    order: list[str] = []

    def one() -> float:
        order.append("a")
        return 100.0 if len(order) < 3 else 1.0

    def other() -> float:
        order.append("b")
        return 2.0

    assert interleaved(one, other, 3) == (1.0, 2.0)
    assert order == ["a", "b", "b", "a", "a", "b", "b", "a"]


def test_a_percentile_is_a_value_that_was_measured() -> None:
    assert percentile([float(n) for n in range(100)], 0.99) == 99.0
    assert percentile([5.0], 0.99) == 5.0


def test_the_page_tells_machine_goals_and_what_was_missed() -> None:
    text = page([FAST, SLOW], {"cores": 2, "python": "3.11.2", "system": "Linux x86_64", "measured": "2026-11-30"})
    assert "2 cores, Python 3.11.2" in text
    assert "1 of 2 goals are reached" in text
    assert "| fast | 30 ms | 10 ms (nothing) | 3.00 | ratio ≤ 4 | yes |" in text
    assert "| slow | 20,000 events/s |  |  | ≥ 30,000 events/s | **no** |" in text
    assert "- fast: whole." in text


def test_the_plot_has_a_bar_for_every_figure_with_a_goal() -> None:
    svg = plot([FAST, SLOW, Figure("info", 1.0, "ms")])
    assert svg.count("<rect") == 3
    assert "info" not in svg
