"""Counted series as OTLP metrics, cumulative since the start of the daemon."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope, KeyValue
from opentelemetry.proto.metrics.v1 import metrics_pb2 as proto
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from hermes_daemon.core.telemetry import Family, Series
from hermes_daemon.telemetry.otlp.spans import AGENT, key_values

_CUMULATIVE = proto.AGGREGATION_TEMPORALITY_CUMULATIVE


def request(series: Sequence[Series], resource: Mapping[str, str], version: str, *, since: float, now: float) -> bytes:
    """The body of a POST to /v1/metrics. `since` and `now` are seconds since 1970."""
    of_family: dict[Family, list[Series]] = {}
    for one in series:
        of_family.setdefault(one.family, []).append(one)
    metrics = [_metric(family, below, int(since * 1e9), int(now * 1e9)) for family, below in of_family.items()]
    scope = proto.ScopeMetrics(scope=InstrumentationScope(name=AGENT, version=version), metrics=metrics)
    grouped = proto.ResourceMetrics(resource=Resource(attributes=key_values(resource)), scope_metrics=[scope])
    body: bytes = ExportMetricsServiceRequest(resource_metrics=[grouped]).SerializeToString()
    return body


def _metric(family: Family, series: Sequence[Series], since_ns: int, now_ns: int) -> proto.Metric:
    metric = proto.Metric(name=family.otel, description=family.help, unit=family.unit)
    if family.kind == "histogram":
        points = [
            proto.HistogramDataPoint(
                attributes=_labels(one),
                count=sum(one.counts),
                sum=one.value,
                bucket_counts=one.counts,
                explicit_bounds=family.buckets,
                start_time_unix_nano=since_ns,
                time_unix_nano=now_ns,
            )
            for one in series
        ]
        metric.histogram.CopyFrom(proto.Histogram(data_points=points, aggregation_temporality=_CUMULATIVE))
        return metric
    numbers = [
        proto.NumberDataPoint(
            attributes=_labels(one), as_double=one.value, start_time_unix_nano=since_ns, time_unix_nano=now_ns
        )
        for one in series
    ]
    metric.sum.CopyFrom(proto.Sum(data_points=numbers, aggregation_temporality=_CUMULATIVE, is_monotonic=True))
    return metric


def _labels(series: Series) -> list[KeyValue]:
    return key_values(dict(zip(series.family.labels, series.labels, strict=True)))
