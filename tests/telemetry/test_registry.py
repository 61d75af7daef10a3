"""Facts to counters and histograms, and their text, judged by Prometheus' own parser."""

import asyncio
import threading
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from hermes_daemon.core.telemetry import (
    ConnectionClosed,
    DaemonCounted,
    Family,
    JournalCommitted,
    ModelCalled,
    QuestionResolved,
    Series,
    ToolCalled,
    TurnMeasured,
)
from hermes_daemon.server.metrics import GAUGES, render
from hermes_daemon.telemetry import families as f
from hermes_daemon.telemetry.prometheus import exposition
from hermes_daemon.telemetry.registry import MOST_SERIES, Registry
from tests.support.live import live


def values(registry: Registry) -> dict[tuple[str, ...], float]:
    """{(family, *labels): value or sum} of everything counted."""
    return {(one.family.name, *one.labels): one.value for one in registry.series((*f.COUNTED, *f.EXPORTED))}


def parsed(text: str) -> dict[tuple[str, ...], float]:
    """{(sample, label values…): value} as Prometheus reads it."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_a_turn_is_counted_by_its_status_with_its_parts_in_seconds() -> None:
    registry = Registry()
    registry.take(TurnMeasured(status="completed", total_ms=1500.0, model_ms=1000.0, journal_ms=250.0))
    registry.take(TurnMeasured(status="failed", total_ms=10.0))
    found = values(registry)
    assert found["hermes_turns_total", "completed"] == found["hermes_turns_total", "failed"] == 1
    assert found["hermes_turn_seconds", "completed"] == 1.5
    assert found["hermes_turn_part_seconds_total", "model"] == 1.0
    assert found["hermes_turn_part_seconds_total", "journal"] == 0.25
    assert ("hermes_turn_part_seconds_total", "tools") not in found


def test_a_model_call_counts_tokens_by_kind_and_the_conventions_count_cached_input_as_input() -> None:
    registry = Registry()
    registry.take(
        ModelCalled("lab", "small", "stop", False, 1, 2, 500.0, 100.0, 29, 7, 11, 13, 3, 0.25)
    )  # fmt: skip
    found = values(registry)
    kinds = {"input": 29, "output": 7, "cached": 11, "cache_write": 13, "reasoning": 3}
    assert {kind: found["hermes_tokens_total", "lab", "small", kind] for kind in kinds} == kinds
    assert found["hermes_model_retries_total", "lab", "small"] == 2
    assert found["hermes_cost_dollars_total", "lab", "small"] == 0.25
    assert found["hermes_time_to_first_token_seconds", "lab", "small"] == 0.1
    assert found["gen_ai_client_token_usage", "chat", "lab", "small", "input"] == 29
    assert found["gen_ai_client_token_usage", "chat", "lab", "small", "output"] == 7
    assert found["gen_ai_client_operation_duration", "chat", "lab", "small", ""] == 0.5


def test_a_failed_model_call_has_its_kind_as_error_type() -> None:
    registry = Registry()
    registry.take(ModelCalled("lab", "small", "rate", True, 1))
    found = values(registry)
    assert found["hermes_model_calls_total", "lab", "small", "rate"] == 1
    assert ("gen_ai_client_operation_duration", "chat", "lab", "small", "rate") in found
    assert not [key for key in found if key[0] in ("hermes_tokens_total", "gen_ai_client_token_usage")]


def test_the_other_facts_are_counted_too() -> None:
    registry = Registry()
    registry.take(ToolCalled("terminal", "c1", "completed", False, 250.0, 0.0, 300.0, 42))
    registry.take(QuestionResolved("permission", "timeout", 2000.0))
    registry.take(ConnectionClosed("c", 1.0, 10, 1, 2, 3, True))
    registry.take(JournalCommitted(2.0, 5, True))
    registry.take(DaemonCounted())
    found = values(registry)
    assert found["hermes_tool_seconds", "terminal"] == 0.25
    assert found["hermes_tool_output_bytes_total", "terminal"] == 42
    assert found["hermes_questions_total", "permission", "timeout"] == 1
    assert found["hermes_question_seconds", "permission"] == 2
    assert found["hermes_connections_closed_total", "true"] == 1
    assert found["hermes_telemetry_unsent_total",] == 3
    assert found["hermes_journal_commit_seconds", "true"] == 0.002
    assert found["hermes_journal_writes_total",] == 5


@given(st.lists(st.floats(0, 10_000, allow_nan=False), max_size=40))
def test_a_histogram_holds_every_value_in_the_first_bucket_that_is_not_below_it(given: list[float]) -> None:
    family = Family("x_seconds", "histogram", "X.", (), (0.5, 1.0, 100.0))
    registry = Registry((family,))
    for value in given:
        registry.observe(family, (), value)
    (series,) = registry.series((family,)) or (Series(family, (), 0.0, (0, 0, 0, 0)),)
    inside = [0, 0, 0, 0]
    for value in given:
        inside[0 if value <= 0.5 else 1 if value <= 1.0 else 2 if value <= 100.0 else 3] += 1
    assert list(series.counts) == inside
    assert abs(series.value - sum(given)) < 1e-6 * max(1.0, sum(given))


def test_odd_names_cannot_fill_the_memory() -> None:
    registry = Registry()
    for number in range(3 * MOST_SERIES):
        registry.take(ToolCalled(f"tool{number}", "", "completed"))
    cells = [one for one in registry.series() if one.family is f.TOOL_CALLS]
    assert len(cells) == MOST_SERIES + 1
    assert sum(one.value for one in cells) == 3 * MOST_SERIES
    assert ("other", "other") in {one.labels for one in cells}


def test_it_may_be_read_while_threads_count() -> None:
    registry = Registry()

    def work(name: str) -> None:
        for number in range(500):
            registry.take(ToolCalled(f"{name}{number % 50}", "", "completed"))

    threads = [threading.Thread(target=work, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        registry.series()
    for thread in threads:
        thread.join()
    assert sum(one.value for one in registry.series() if one.family is f.TOOL_CALLS) == 1000


LABELS = st.text(st.characters(codec="utf-8", exclude_characters="\r\x85\u2028\u2029\x0b\x0c\x1c\x1d\x1e"), max_size=20)


@given(LABELS, st.floats(allow_nan=False, allow_infinity=False, min_value=0, max_value=1e300))
def test_whatever_a_label_or_value_is_the_parser_reads_it_back(label: str, value: float) -> None:
    family = Family("x_total", "counter", 'Back\\slash\nand "quote".', ("name",))
    text = exposition((family,), [Series(family, (label,), value)])
    assert parsed(text) == {("x_total", label): value}


def test_the_whole_page_of_a_daemon_is_read_by_prometheus(tmp_path: Path) -> None:
    async def story() -> tuple[str, dict[str, Any]]:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path))
            await peer.say(session, "one two three")
            await peer.request("hermes/session/wait", {"sessionId": session, "until": "idle"})
            return render(daemon.daemon), await peer.request("hermes/daemon/metrics")

    text, answered = asyncio.run(story())
    told = {family.name: family for family in text_string_to_metric_families(text)}
    for family in (*GAUGES, *f.COUNTED):
        name = family.name.removesuffix("_total")
        assert told[name].type == family.kind, name
        assert told[name].documentation == family.help
    found = parsed(text)
    assert found["hermes_turns_total", "completed"] == 1
    assert found["hermes_turn_seconds_count", "completed"] == 1
    assert found["hermes_turn_seconds_bucket", "completed", "+Inf"] == 1
    assert found["hermes_model_calls_total", "scripted", "echo", "stop"] == 1
    assert found["hermes_tokens_total", "scripted", "echo", "output"] > 0
    assert found["hermes_journal_writes_total",] > 0
    assert found["hermes_connections", "native"] == found["hermes_sessions",] == found["hermes_ready",] == 1
    assert set(parsed(answered["text"])) >= set(found)
    assert answered["contentType"].startswith("text/plain; version=0.0.4")


def test_what_is_the_case_is_told_before_the_engine_is_open(tmp_path: Path) -> None:
    async def story() -> str:
        async with live(str(tmp_path)) as daemon:
            room, daemon.daemon.room = daemon.daemon.room, None
            try:
                return render(daemon.daemon)
            finally:
                daemon.daemon.room = room

    found = parsed(asyncio.run(story()))
    assert found["hermes_ready",] == 0
    assert found["hermes_resident_memory_bytes",] > 0
