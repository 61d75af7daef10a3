"""OpenTelemetry's standard variables, for a telemetry.otel that is enabled: they win over the file.

https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/ and the page on the OTLP exporter. The
variables alone switch nothing on: they are often set for other programs. What cannot be used is a warning, not an
error, for the same reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote

from hermes_daemon.config.problem import ConfigError, Notes

_ON = frozenset({"true", "yes", "on", "1"})


def overlay(values: dict[str, Any], environ: Mapping[str, str], notes: Notes) -> dict[str, str]:
    """Put the variables over `values` (changed in place); (dotted key -> variable) for those that were."""
    section = values.get("telemetry")
    given = section.get("otel") if isinstance(section, dict) else None
    if not isinstance(section, dict) or not isinstance(given, dict) or str(given.get("enabled", "")).lower() not in _ON:
        return {}
    otel, sources = dict(given), {}
    for variable, (key, read) in _VARIABLES.items():
        text = environ.get(variable, "").strip()
        if not text:  # by the specification an empty variable is an unset one
            continue
        try:
            value = read(text)
        except ValueError as error:
            notes.warnings.append(str(ConfigError(f"{error}; it has no effect", path=variable)))
            continue
        if value is None:
            continue
        otel[key] = {**otel[key], **value} if isinstance(value, dict) and isinstance(otel.get(key), dict) else value
        sources[f"telemetry.otel.{key}"] = variable
    values["telemetry"] = {**section, "otel": otel}
    return sources


def _pairs(text: str) -> dict[str, str]:
    """`key=value,other=value`, percent-encoded. The text is not repeated in the error: it may hold keys."""
    found = {}
    for pair in text.split(","):
        name, equals, value = pair.partition("=")
        if pair.strip() and not (equals and name.strip()):
            raise ValueError("expected name=value pairs with commas between them")
        if pair.strip():
            found[unquote(name.strip())] = unquote(value.strip())
    return found


def _resource(text: str) -> dict[str, str]:
    found = _pairs(text)
    found.pop("service.name", None)  # its own variable and setting win
    return found


def _seconds(text: str) -> float:
    if not text.isdecimal() or int(text) == 0:
        raise ValueError(f"expected milliseconds, got {text[:40]!r}")
    return int(text) / 1000


def _disabled(text: str) -> bool | None:
    """Only the word true, in any case, disables; anything else counts as false."""
    return False if text.lower() == "true" else None


def _protocol(text: str) -> str:
    if text != "http/protobuf":
        raise ValueError(f"this daemon speaks http/protobuf only, not {text[:40]!r}")
    return text


_VARIABLES: dict[str, tuple[str, Callable[[str], Any]]] = {
    "OTEL_SDK_DISABLED": ("enabled", _disabled),
    "OTEL_EXPORTER_OTLP_ENDPOINT": ("endpoint", str),
    "OTEL_EXPORTER_OTLP_PROTOCOL": ("protocol", _protocol),
    "OTEL_EXPORTER_OTLP_HEADERS": ("headers", _pairs),
    "OTEL_EXPORTER_OTLP_TIMEOUT": ("timeout", _seconds),
    "OTEL_SERVICE_NAME": ("service_name", str),
    "OTEL_RESOURCE_ATTRIBUTES": ("attributes", _resource),
}
