"""Metrics as text in the format that Prometheus scrapes, version 0.0.4.

https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate

from hermes_daemon.core.telemetry import Family, Series

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPED = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def exposition(families: Iterable[Family], series: Iterable[Series]) -> str:
    """The text: every family with HELP and TYPE, also one that has no series yet."""
    lines_of: dict[Family, list[str]] = {family: [] for family in families}
    for one in series:
        lines_of.setdefault(one.family, []).extend(_lines(one))
    lines: list[str] = []
    for family, below in lines_of.items():
        lines += [f"# HELP {family.name} {_help(family.help)}", f"# TYPE {family.name} {family.kind}", *below]
    return "\n".join(lines) + "\n"


def _lines(series: Series) -> list[str]:
    family, labels = series.family, dict(zip(series.family.labels, series.labels, strict=True))
    if family.kind != "histogram":
        return [f"{family.name}{_labels(labels)} {_number(series.value)}"]
    bounds = [_number(bound) for bound in family.buckets] + ["+Inf"]
    sums = list(accumulate(series.counts))
    lines = [
        f"{family.name}_bucket{_labels({**labels, 'le': bound})} {count}"
        for bound, count in zip(bounds, sums, strict=True)
    ]
    lines.append(f"{family.name}_sum{_labels(labels)} {_number(series.value)}")
    lines.append(f"{family.name}_count{_labels(labels)} {sums[-1]}")
    return lines


def _labels(labels: dict[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{value.translate(_ESCAPED)}"' for name, value in labels.items()) + "}"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 2**53 else repr(float(value))


def _help(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")
