"""A stand-in for an OTLP collector: an HTTP server that decodes what it gets with OpenTelemetry's own messages."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

Answering = Callable[[int], tuple[int, Mapping[str, str]]]
PATIENCE = 30.0


class OtlpCollector:
    """Serves from `with` on. `answer(n)` gives status and headers of the n-th request for spans; metrics get 200."""

    def __init__(self, answer: Answering = lambda number: (200, {}), port: int = 0) -> None:
        self.requests: list[tuple[str, int, Mapping[str, str]]] = []
        self.resource: dict[str, Any] = {}
        self._spans: list[dict[str, Any]] = []
        self._metrics: dict[str, list[Any]] = {}
        self._answer = answer
        self._changed = threading.Condition()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status, headers = collector._take(self.path, body, dict(self.headers))
                self.send_response(status)
                for name, value in {**headers, "Content-Length": "0"}.items():
                    self.send_header(name, value)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                return None

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.port = self._server.server_port
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> OtlpCollector:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _take(self, path: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, Mapping[str, str]]:
        with self._changed:
            number = sum(1 for seen, _, _ in self.requests if seen == path)
            answer = self._answer(number) if path == "/v1/traces" else (200, {})
            self.requests.append((path, answer[0], headers))
            if answer[0] == 200:
                self._read(path, body)
            self._changed.notify_all()
            return answer

    def _read(self, path: str, body: bytes) -> None:
        if path == "/v1/traces":
            for group in ExportTraceServiceRequest.FromString(body).resource_spans:
                self.resource = plain(group.resource.attributes)
                for scope in group.scope_spans:
                    self._spans += [_span(span) for span in scope.spans]
        elif path == "/v1/metrics":
            for group in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                for scope in group.scope_metrics:
                    self._metrics |= {metric.name: _points(metric) for metric in scope.metrics}

    def wait(self, condition: Callable[[], Any]) -> Any:
        """What `condition` gives as soon as that is true; it is asked after every request."""
        with self._changed:
            assert self._changed.wait_for(condition, PATIENCE), (self.requests, self._spans, sorted(self._metrics))
            return condition()

    def spans(self, number: int) -> list[dict[str, Any]]:
        """So many spans, as soon as they are there."""
        found: list[dict[str, Any]] = self.wait(lambda: len(self._spans) >= number and list(self._spans))
        return found

    def metric(self, name: str, has: Callable[[Sequence[Any]], Any] = len) -> list[Any]:
        """The points of a metric in the last export that fits: (attributes, value or (count, sum))."""
        found: list[Any] = self.wait(lambda: name in self._metrics and has(self._metrics[name]) and self._metrics[name])
        return found


def plain(attributes: Any) -> dict[str, Any]:
    """OTLP attributes as a dict."""
    return {one.key: _value(one.value) for one in attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    return [_value(one) for one in value.array_value.values] if kind == "array_value" else getattr(value, kind)


def _span(span: Any) -> dict[str, Any]:
    return {
        "name": span.name,
        "trace": span.trace_id.hex(),
        "id": span.span_id.hex(),
        "parent": span.parent_span_id.hex(),
        "kind": span.kind,
        "start": span.start_time_unix_nano,
        "end": span.end_time_unix_nano,
        "status": span.status.code,
        "attributes": plain(span.attributes),
    }


def _points(metric: Any) -> list[Any]:
    if metric.WhichOneof("data") == "histogram":
        assert all(sum(point.bucket_counts) == point.count for point in metric.histogram.data_points)
        return [(plain(point.attributes), (point.count, point.sum)) for point in metric.histogram.data_points]
    return [(plain(point.attributes), point.as_double) for point in metric.sum.data_points]
