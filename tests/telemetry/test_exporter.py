"""The exporter: what it sends, when it sends again, what it drops, and what it says."""

import json
import logging
import re
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes_daemon.config import load
from hermes_daemon.core.settings import OtelSettings, Settings
from hermes_daemon.core.telemetry import JournalCommitted, Measured, ModelCalled, Told, ToolCalled, TurnMeasured
from hermes_daemon.telemetry.families import EXPORT_DROPPED
from hermes_daemon.telemetry.hub import Hub
from hermes_daemon.telemetry.otlp.collector import Answer, Collector, fault, retry_after, shown
from hermes_daemon.telemetry.otlp.exporter import BACKOFF_S, LONGEST_WAIT_S, Exporter
from hermes_daemon.telemetry.outlet import Outlet
from hermes_daemon.telemetry.registry import Registry
from tests.support.otlp_collector import OtlpCollector
from tests.support.shared_data import case, case_bytes

KEY = "Bearer very-secret-collector-key"
NOW = datetime(2026, 5, 4, 12, 0, 0, tzinfo=UTC)


class Scripted:
    """A collector that gives these answers to spans, one after the other, then 200, and 200 to metrics."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.bodies: list[tuple[str, bytes]] = []

    def post(self, path: str, body: bytes) -> Answer:
        self.bodies.append((path, body))
        if path == "/v1/metrics":
            return Answer(200)
        return self.answers.pop(0) if self.answers else Answer(200)

    def abort(self) -> None:
        return None

    @property
    def spans(self) -> list[bytes]:
        return [body for path, body in self.bodies if path == "/v1/traces"]


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def told(fact: Measured, turn: str | None = "turn_1") -> Told:
    return Told(fact, "session_1", turn, 1000.0)


def exporter(collector: Any, clock: Clock | None = None, **settings: Any) -> tuple[Exporter, Registry]:
    registry = Registry()
    given = OtelSettings(enabled=True, **settings)
    return Exporter(given, registry, "1.2", collector, monotonic=clock or Clock()), registry


def dropped(registry: Registry) -> float:
    return next(one.value for one in registry.series((EXPORT_DROPPED,)))


def test_what_was_taken_is_not_sent_again() -> None:
    collector, clock = Scripted(), Clock()
    made, _ = exporter(collector, clock)
    made.take(told(ModelCalled("lab", "small", "stop")))
    made.step()
    clock.now += 60
    made.step()
    assert len(collector.spans) == 1
    assert [path for path, _ in collector.bodies] == ["/v1/traces", "/v1/metrics", "/v1/metrics"]


def test_a_handed_row_of_answers_is_honoured() -> None:
    """Retry-After as seconds and as a date, a refusal that is final, and a success that is not repeated."""
    answers = json.loads(case_bytes("telemetry", "otlp-retry-after-date", "answers.json"))
    date = format_datetime(NOW + timedelta(seconds=2), usegmt=True)
    script = []
    for status, headers in answers:
        text = re.sub("<now\\+2s as HTTP date>", date, headers.get("Retry-After", ""))
        script.append(Answer(status, "", retry_after(text, format_datetime(NOW, usegmt=True))))
    collector, clock = Scripted(*script), Clock()
    made, registry = exporter(collector, clock)
    made.take(told(ModelCalled("lab", "first", "stop")))

    assert made.step() == 1.0
    clock.now += 0.9
    assert 0 < made.step() <= 0.11  # not before its time
    assert len(collector.spans) == 1
    clock.now += 0.1
    assert made.step() == 2.0
    clock.now += 2.0
    made.step()
    assert len(collector.spans) == 3  # 429, 503, 400: and with that it is given up
    assert len(set(collector.spans)) == 1
    assert dropped(registry) == 1

    made.take(told(ModelCalled("lab", "second", "stop")))
    made.step()
    clock.now += 3600
    made.step()
    assert len(collector.spans) == 4
    assert b"second" in collector.spans[3]
    assert dropped(registry) == 1


@pytest.mark.parametrize("status", [0, 429, 502, 503, 504])
def test_trouble_that_passes_is_waited_for_longer_and_longer(status: int) -> None:
    collector, clock = Scripted(*[Answer(status)] * 9), Clock()
    made, registry = exporter(collector, clock)
    made.take(told(ModelCalled("lab", "small", "stop")))
    for number in range(9):
        wait = made.step()
        expected = BACKOFF_S[min(number, len(BACKOFF_S) - 1)]
        assert 0.79 * expected <= wait <= 1.21 * expected
        clock.now += wait
    made.step()
    assert len(collector.spans) == 10
    assert dropped(registry) == 0


@pytest.mark.parametrize("status", [301, 400, 401, 404, 413, 500])
def test_a_refusal_is_final(status: int) -> None:
    collector = Scripted(Answer(status))
    made, registry = exporter(collector)
    made.take(told(ModelCalled("lab", "small", "stop")))
    made.step()
    made.step()
    assert len(collector.spans) == 1
    assert dropped(registry) == 1


def test_a_collector_cannot_ask_for_an_endless_wait() -> None:
    made, _ = exporter(Scripted(Answer(429, "", 1e9)))
    made.take(told(ModelCalled("lab", "small", "stop")))
    assert made.step() == LONGEST_WAIT_S


def test_the_oldest_go_first_when_too_many_wait_and_are_counted() -> None:
    collector = Scripted()
    made, registry = exporter(collector, queue=3)
    for number in range(5):
        made.take(told(ModelCalled("lab", f"model-{number}-", "stop")))
    made.step()
    (body,) = collector.spans
    assert [b"model-%d-" % number in body for number in range(5)] == [False, False, True, True, True]
    assert dropped(registry) == 2


def test_only_work_of_turns_becomes_spans() -> None:
    collector = Scripted()
    made, _ = exporter(collector)
    made.take(told(JournalCommitted(1.0, 1, True)))
    made.take(told(ModelCalled("lab", "small", "stop"), turn=None))
    made.step()
    assert collector.spans == []


def test_trouble_is_one_line_and_its_end_another(caplog: pytest.LogCaptureFixture) -> None:
    collector, clock = Scripted(*[Answer(0, "connection refused")] * 5), Clock()
    made, _ = exporter(
        collector, clock, endpoint="http://user:pw@collector:4318/?key=k", headers={"authorization": KEY}
    )
    made.take(told(ModelCalled("lab", "small", "stop")))
    with caplog.at_level(logging.INFO):
        for _ in range(8):
            clock.now += made.step()
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "http://collector:4318 cannot be reached: connection refused" in caplog.text
    for secret in ("very-secret", "user", "pw@", "key=k"):
        assert secret not in caplog.text


def test_the_last_batch_is_sent_when_it_is_closed() -> None:
    with OtlpCollector() as collector:
        settings = OtelSettings(enabled=True, endpoint=collector.endpoint, interval=3600.0)
        made = Exporter(settings, Registry(), "1.2")
        made.start()
        made.take(told(ToolCalled("terminal", "c1", "completed", total_ms=5.0)))
        made.close()
        assert [span["name"] for span in collector.spans(1)] == ["execute_tool terminal"]


def test_a_span_ends_when_it_was_told_and_hangs_below_its_turn() -> None:
    with OtlpCollector() as collector:
        settings = OtelSettings(
            enabled=True, endpoint=collector.endpoint, headers={"x-key": KEY}, service_name="mine",
            attributes={"deployment.environment.name": "test"},
        )  # fmt: skip
        made = Exporter(settings, Registry(), "1.2", monotonic=Clock())
        made.take(told(ModelCalled("lab", "small", "rate", True, 1, duration_ms=250.0)))
        made.take(told(TurnMeasured(status="failed", error="provider_error", failed=True, total_ms=500.0)))
        made.step()
        chat, turn = collector.spans(2)
        assert (chat["end"] - chat["start"], turn["end"] - turn["start"]) == (250_000_000, 500_000_000)
        assert chat["end"] == 1000 * 10**9
        assert chat["trace"] == turn["trace"]
        assert (chat["parent"], turn["parent"]) == (turn["id"], "")
        assert (chat["attributes"]["error.type"], turn["attributes"]["error.type"]) == ("rate", "provider_error")
        assert chat["status"] == turn["status"] == 2
        assert collector.resource == {
            "service.name": "mine", "service.version": "1.2", "deployment.environment.name": "test"
        }  # fmt: skip
        assert {headers["x-key"] for _, _, headers in collector.requests} == {KEY}


def test_nobody_at_the_address_is_an_answer_and_no_error() -> None:
    with OtlpCollector() as gone:
        endpoint = gone.endpoint
    answer = Collector(endpoint, {}, 5.0).post("/v1/traces", b"")
    assert answer.status == 0
    assert answer.retryable
    assert "refused" in answer.reason


def test_a_header_that_http_does_not_allow_is_refused_without_showing_it() -> None:
    with OtlpCollector() as collector:
        answer = Collector(collector.endpoint, {"authorization": f"{KEY}\n"}, 5.0).post("/v1/traces", b"")
    assert not answer.taken
    assert not answer.retryable
    assert "secret" not in answer.reason


def test_retry_after_is_seconds_or_a_date_or_nothing() -> None:
    later = format_datetime(NOW + timedelta(seconds=90), usegmt=True)
    stamp = NOW.timestamp()
    assert retry_after("7") == 7.0
    assert retry_after(" 0.5 ") == 0.5
    assert retry_after(later, now=stamp) == 90.0
    assert retry_after(later, format_datetime(NOW + timedelta(seconds=60), usegmt=True), now=0.0) == 30.0
    assert retry_after("Mon, 04 May 2020 12:00:00 GMT", now=stamp) == 0.0
    for nothing in ("", "soon", "-5", "nan", "2026-05-04"):
        assert retry_after(nothing, now=stamp) is None


def test_an_endpoint_is_shown_without_what_may_be_a_key() -> None:
    assert shown("https://u:p@host:1/base/?token=t") == "https://host:1/base"
    assert fault("https://host/base") == fault("http://[::1]:4318") == ""
    for wrong in ("localhost:4318", "", "http://", "http://host:port", "grpc://host:1", "http://[::1"):
        assert "http://localhost:4318" in fault(wrong)


# --- switched on and off ----------------------------------------------------------------------------------------------


def test_a_handed_configuration_that_says_no_makes_no_exporter_and_no_connection(tmp_path: Path) -> None:
    """Both with the key of the case and with ours; and with the variable that disables."""
    text = (case("telemetry", "otlp-disabled-means-off") / "config.yaml").read_text()
    with OtlpCollector() as collector:
        text = text.replace("http://127.0.0.1:4318", collector.endpoint)
        ours = text.replace("otlp:", "otel:")
        on = ours.replace("enabled: false", "enabled: true")
        for number, (written, environ) in enumerate(((text, {}), (ours, {}), (on, {"OTEL_SDK_DISABLED": "true"}))):
            home = tmp_path / str(number)
            home.mkdir()
            (home / "config.yaml").write_text(written)
            loaded = load(str(home), environ)
            assert not loaded.errors
            assert ("otlp" in written) == bool(loaded.warnings)
            hub = Hub(counting=False)
            outlet = Outlet(hub, "1.2")
            outlet.apply(msgspec.structs.replace(loaded.settings.telemetry, metrics=False))
            hub.emit(ModelCalled("lab", "small", "stop"), "s", "t")
            assert not hub.wanted
            outlet.close()
        assert collector.requests == []


def test_without_the_extra_one_warning_names_the_command(caplog: pytest.LogCaptureFixture) -> None:
    on = msgspec.structs.replace(Settings().telemetry, otel=OtelSettings(enabled=True, headers={"authorization": KEY}))
    hub = Hub(counting=False)
    outlet = Outlet(hub, "1.2", lambda: False)
    for _ in range(3):
        outlet.apply(on)
    outlet.close()
    (record,) = caplog.records
    assert "pip install 'hermes-daemon[otel]'" in record.getMessage()
    assert "secret" not in record.getMessage()
    assert hub.wanted == on.metrics


def test_other_settings_replace_the_exporter_and_the_same_do_not() -> None:
    with OtlpCollector() as one, OtlpCollector() as other:
        hub = Hub()
        outlet = Outlet(hub, "1.2")
        base = msgspec.structs.replace(
            Settings().telemetry, otel=OtelSettings(enabled=True, endpoint=one.endpoint, interval=3600.0)
        )
        outlet.apply(base)
        hub.emit(ModelCalled("lab", "first", "stop"), "s", "t")
        outlet.apply(base)
        hub.emit(ModelCalled("lab", "second", "stop"), "s", "t")
        moved = msgspec.structs.replace(base.otel, endpoint=other.endpoint)
        outlet.apply(msgspec.structs.replace(base, otel=moved))
        hub.emit(ModelCalled("lab", "third", "stop"), "s", "t")
        outlet.close()
        assert [span["name"] for span in one.spans(2)] == ["chat first", "chat second"]
        assert [span["name"] for span in other.spans(1)] == ["chat third"]
