"""Keeps the hub in line with the settings: what is counted, and where it is exported to."""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib.util import find_spec

from hermes_daemon.core.settings import OtelSettings, TelemetrySettings
from hermes_daemon.telemetry.hub import Hub

log = logging.getLogger(__name__)
INSTALL = "pip install 'hermes-daemon[otel]'"


def installed() -> bool:
    """Whether the extra `otel` is there. Asked without importing it: that takes the export's own thread."""
    try:
        return find_spec("opentelemetry.proto") is not None and find_spec("google.protobuf") is not None
    except (ImportError, ValueError):
        return False


class Outlet:
    """`apply` may be called with every reading of the configuration; an exporter is replaced only by another one."""

    def __init__(self, hub: Hub, version: str, is_installed: Callable[[], bool] = installed) -> None:
        self._hub = hub
        self._version = version
        self._is_installed = is_installed
        self._current: OtelSettings | None = None
        self._close: Callable[[], None] | None = None

    def apply(self, settings: TelemetrySettings) -> None:
        """Count or not, export or not."""
        self._hub.count(settings.metrics)
        wanted = settings.otel if settings.otel.enabled else None
        if wanted == self._current:
            return
        self._current, self._close = wanted, None
        if wanted is None:
            self._hub.export(None)
        elif not self._is_installed():
            self._hub.export(None)
            log.warning("telemetry.otel is enabled, but what it needs is not installed: %s", INSTALL)
        else:
            from hermes_daemon.telemetry.otlp import collector
            from hermes_daemon.telemetry.otlp.exporter import Exporter

            if wrong := collector.fault(wanted.endpoint):
                self._hub.export(None)
                log.warning("telemetry.otel.endpoint: %s; nothing is exported", wrong)
                return
            exporter = Exporter(wanted, self._hub.registry, self._version)
            exporter.start()
            self._hub.export(exporter)
            self._close = exporter.close

    def close(self) -> None:
        """Send what waits, within two seconds. Blocks: not for the event loop."""
        if self._close is not None:
            self._close()
