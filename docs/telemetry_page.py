"""The reference page of telemetry, made from the tables of facts and metrics."""

from __future__ import annotations

from hermes_daemon.core.telemetry import FACTS, Family, Measured, attributes
from hermes_daemon.server.metrics import GAUGES
from hermes_daemon.telemetry.families import COUNTED, EXPORTED

HEAD = """\
<!-- Generated from hermes_daemon/core/telemetry.py and telemetry/families.py by `make gen`. Change those. -->
# Telemetry: reference

What the daemon tells of its own work and what it counts. How to get it: [howto/telemetry.md](../howto/telemetry.md).

## Facts: `telemetry/event`

`{name, attrs, sessionId?, turnId?}`. An attribute that is not known is left out. Level `metrics` gets the numbers
and truth values; level `all` gets the texts too: a *word* is one of those named, a *name* was chosen by whoever
configured a provider, wrote a tool or answered as a model.
"""

METRICS = """
## Metrics

As Prometheus has them at /metrics, and their names in the OTLP export. Counters and histograms begin at the start of
the daemon.
"""


def page() -> str:
    """The whole page as Markdown."""
    lines = [HEAD]
    for fact in FACTS:
        lines += _fact(fact)
    lines += [METRICS, "| metric | kind | labels | OTLP | meaning |", "|---|---|---|---|---|"]
    lines += [_metric(family) for family in (*GAUGES, *COUNTED, *EXPORTED)]
    return "\n".join(lines) + "\n"


def _fact(fact: type[Measured]) -> list[str]:
    told = (fact.__doc__ or "").strip()
    lines = [f"### `{fact.event}`", "", f"{told} {_who(fact)}", "", "| attribute | unit | meaning |"]
    lines.append("|---|---|---|")
    lines += [f"| `{row.name}` | {row.unit} | {row.meaning} |" for row in attributes(fact)]
    return [*lines, ""]


def _who(fact: type[Measured]) -> str:
    return f"Opt-in: `{fact.opt_in}`." if fact.opt_in else f"Least level: `{fact.level}`."


def _metric(family: Family) -> str:
    name = f"`{family.name}`" if family not in EXPORTED else ""
    labels = ", ".join(f"`{label}`" for label in family.labels)
    otel = f"`{family.otel}` ({family.unit})" if family.otel else ""
    return f"| {name} | {family.kind} | {labels} | {otel} | {family.help} |"
