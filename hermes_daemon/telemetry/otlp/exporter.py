"""Carries facts to an OTLP collector, on a thread of its own: a collector that is slow, wrong or away costs no turn.

What waits is bounded; the oldest goes first when it is full, and is counted. Trouble is one line in the log, its end
another.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec

from hermes_daemon.core.settings import OtelSettings
from hermes_daemon.core.telemetry import ModelCalled, Told, ToolCalled, TurnMeasured
from hermes_daemon.telemetry.families import COUNTED, EXPORT_DROPPED, EXPORTED
from hermes_daemon.telemetry.otlp.collector import Answer, Collector, Posting, shown
from hermes_daemon.telemetry.registry import Registry

log = logging.getLogger(__name__)
BATCH: Final = 512
BACKOFF_S: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0)
LONGEST_WAIT_S: Final = 600.0
CLOSE_S: Final = 2.0
_SPANS: Final = (TurnMeasured, ModelCalled, ToolCalled)


class _Batch(msgspec.Struct, frozen=True):
    body: bytes
    size: int


class Exporter:
    """telemetry.hub.Exporting. `start` begins the thread; `step` is one go of it, for whoever has an own clock."""

    def __init__(
        self,
        settings: OtelSettings,
        registry: Registry,
        version: str,
        collector: Posting | None = None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._registry = registry
        self._version = version
        self._collector = collector or Collector(settings.endpoint, settings.headers, settings.timeout)
        self._monotonic = monotonic
        self._resource = {**settings.attributes, "service.name": settings.service_name, "service.version": version}
        self._since = time.time()
        self._lock = threading.Lock()
        self._waiting: deque[Told] = deque()
        self._batch: _Batch | None = None
        self._attempts = 0
        self._not_before = 0.0
        self._metrics_at = 0.0
        self._troubled = False
        self._dropped_in_trouble = 0
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="otlp-export", daemon=True)

    # --- on the event loop ---

    def start(self) -> None:
        """Begin to carry."""
        self._thread.start()

    def take(self, told: Told) -> None:
        """Put a fact in the queue, if it is work of a turn; the rest goes out as metrics."""
        if told.turn_id is None or not isinstance(told.fact, _SPANS):
            return
        with self._lock:
            full = len(self._waiting) >= self._settings.queue
            if full:
                self._waiting.popleft()
            self._waiting.append(told)
            waiting = len(self._waiting)
        if full:
            self._drop(1)
        if waiting == BATCH:
            self._wake.set()

    def stop(self) -> None:
        """Send once what waits, and end; returns at once."""
        self._stopping.set()
        self._wake.set()

    def close(self, limit_s: float = CLOSE_S) -> None:
        """`stop`, and wait for the end, but not for a collector that does not answer. Blocks for up to `limit_s`."""
        self.stop()
        if self._thread.is_alive():
            self._thread.join(limit_s / 2)
            self._collector.abort()
            self._thread.join(limit_s / 2)

    # --- on the thread ---

    def _run(self) -> None:
        try:
            wait_s = self._settings.interval  # nothing is imported or sent while the daemon is starting
            while not self._stopping.is_set():
                self._wake.wait(wait_s)
                self._wake.clear()
                wait_s = self.step()
            self._not_before = 0.0
            self.step()
        except Exception as error:  # a bug here must not look like a missing collector
            log.error("telemetry export has ended: %s", error, exc_info=error)

    def step(self) -> float:
        """Send what is due; the seconds until something may be due again."""
        now = self._monotonic()
        if now < self._not_before:
            return self._not_before - now
        while self._batch is not None or self._waiting:
            if not self._send_spans():
                return max(0.0, self._not_before - self._monotonic())
        if now >= self._metrics_at or self._stopping.is_set():
            self._send_metrics()
            self._metrics_at = now + self._settings.interval
        return self._settings.interval

    def _send_spans(self) -> bool:
        """Send one batch. False when it must be sent again later."""
        from hermes_daemon.telemetry.otlp import spans

        if self._batch is None:
            with self._lock:
                told = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
            self._batch = _Batch(spans.request(told, self._resource, self._version), len(told))
        answer = self._collector.post("/v1/traces", self._batch.body)
        if not answer.taken and answer.retryable and not self._stopping.is_set():
            self._postpone(answer)
            return False
        if not answer.taken:
            self._drop(self._batch.size)
            self._say_trouble(answer)
        else:
            self._say_well()
        self._batch, self._attempts = None, 0
        return True

    def _send_metrics(self) -> None:
        """Counts are cumulative: what is not taken now is in the next ones."""
        from hermes_daemon.telemetry.otlp import metrics

        series = self._registry.series((*COUNTED, *EXPORTED))
        body = metrics.request(series, self._resource, self._version, since=self._since, now=time.time())
        answer = self._collector.post("/v1/metrics", body)
        if answer.taken:
            self._say_well()
            return
        if answer.retryable:
            self._postpone(answer)
        else:
            self._say_trouble(answer)

    def _postpone(self, answer: Answer) -> None:
        backoff = BACKOFF_S[min(self._attempts, len(BACKOFF_S) - 1)] * random.uniform(0.8, 1.2)  # noqa: S311
        wait = backoff if answer.retry_after is None else min(answer.retry_after, LONGEST_WAIT_S)
        self._attempts += 1
        self._not_before = self._monotonic() + wait
        self._say_trouble(answer)

    def _drop(self, number: int) -> None:
        self._registry.count(EXPORT_DROPPED, (), number)
        self._dropped_in_trouble += number

    # --- what is said ---

    def _say_trouble(self, answer: Answer) -> None:
        if self._troubled:
            return
        self._troubled = True
        said = f"answers {answer.status} {answer.reason}" if answer.status else f"cannot be reached: {answer.reason}"
        log.warning("the OTLP collector at %s %s; turns go on, telemetry waits or is dropped, and nothing more is said "
                    "until it works", shown(self._settings.endpoint), said)  # fmt: skip

    def _say_well(self) -> None:
        if self._troubled:
            lost = self._dropped_in_trouble
            log.info("the OTLP collector at %s takes telemetry again; %d spans were lost",
                     shown(self._settings.endpoint), lost)  # fmt: skip
        self._troubled, self._dropped_in_trouble, self._attempts = False, 0, 0
