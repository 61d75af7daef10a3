"""OpenTelemetry's own variables over telemetry.otel."""

from pathlib import Path

import pytest

from hermes_daemon.config import Configuration, load
from hermes_daemon.config.loading import Loaded

ON = "telemetry: {otel: {enabled: true, headers: {x-tenant: mine}, endpoint: 'http://file:4318'}}"
KEY = "collector-key-0123456789"


def loaded(home: Path, text: str, **environ: str) -> Loaded:
    (home / "config.yaml").write_text(text)
    return load(str(home), environ)


def test_the_variables_win_over_the_file(tmp_path: Path) -> None:
    found = loaded(
        tmp_path,
        ON,
        OTEL_EXPORTER_OTLP_ENDPOINT="https://env:4318",
        OTEL_EXPORTER_OTLP_HEADERS=f"authorization=Bearer%20{KEY}, x-other = 1",
        OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf",
        OTEL_EXPORTER_OTLP_TIMEOUT="2500",
        OTEL_SERVICE_NAME="mine",
        OTEL_RESOURCE_ATTRIBUTES="service.name=theirs,deployment.environment.name=lab",
    )
    otel = found.settings.telemetry.otel
    assert not found.errors
    assert not found.warnings
    assert otel.endpoint == "https://env:4318"
    assert otel.headers == {"x-tenant": "mine", "authorization": f"Bearer {KEY}", "x-other": "1"}
    assert (otel.timeout, otel.service_name) == (2.5, "mine")
    assert otel.attributes == {"deployment.environment.name": "lab"}
    assert found.sources["telemetry.otel.endpoint"] == "OTEL_EXPORTER_OTLP_ENDPOINT"


@pytest.mark.parametrize("word", ["true", "TRUE", "True"])
def test_disabled_means_off(tmp_path: Path, word: str) -> None:
    found = loaded(tmp_path, ON, OTEL_SDK_DISABLED=word)
    assert not found.settings.telemetry.otel.enabled
    assert found.sources["telemetry.otel.enabled"] == "OTEL_SDK_DISABLED"


@pytest.mark.parametrize("word", ["false", "1", "yes", "", "off"])
def test_only_the_word_true_disables(tmp_path: Path, word: str) -> None:
    assert loaded(tmp_path, ON, OTEL_SDK_DISABLED=word).settings.telemetry.otel.enabled


@pytest.mark.parametrize(
    "text", ["", "telemetry:", "telemetry: {otel: {enabled: false}}", "telemetry: {metrics: true}"]
)
def test_variables_of_other_programs_switch_nothing_on_and_are_not_judged(tmp_path: Path, text: str) -> None:
    found = loaded(
        tmp_path, text, OTEL_EXPORTER_OTLP_ENDPOINT="http://env:4318", OTEL_EXPORTER_OTLP_PROTOCOL="grpc"
    )  # fmt: skip
    assert not found.settings.telemetry.otel.enabled
    assert found.settings.telemetry.otel.endpoint == "http://localhost:4318"
    assert not found.warnings
    assert not found.errors


def test_what_cannot_be_used_is_a_warning_that_names_the_variable_and_no_value_of_a_header(tmp_path: Path) -> None:
    found = loaded(
        tmp_path,
        ON,
        OTEL_EXPORTER_OTLP_PROTOCOL="grpc",
        OTEL_EXPORTER_OTLP_TIMEOUT="soon",
        OTEL_EXPORTER_OTLP_HEADERS=KEY,
    )
    assert not found.errors
    text = "\n".join(found.warnings)
    assert len(found.warnings) == 3
    assert "OTEL_EXPORTER_OTLP_PROTOCOL: this daemon speaks http/protobuf only, not 'grpc'; it has no effect" in text
    assert "OTEL_EXPORTER_OTLP_TIMEOUT: expected milliseconds, got 'soon'" in text
    assert "OTEL_EXPORTER_OTLP_HEADERS: expected name=value pairs" in text
    assert KEY not in text
    assert found.settings.telemetry.otel.headers == {"x-tenant": "mine"}


def test_headers_are_secrets_wherever_they_come_from(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(ON.replace("mine", "Token file-key-0123456789"))
    configuration = Configuration(str(tmp_path), {"OTEL_EXPORTER_OTLP_HEADERS": f"authorization=Bearer%20{KEY}"})
    assert {KEY, "file-key-0123456789"} <= configuration.secret_values()
