"""Measure everything in one run and write docs/performance.md, .svg and .json.

python -m tests.bench                 all of it
python -m tests.bench ping stream     only these, printed and not written
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.bench.figure import Figure
from tests.bench.report import goal, machine, page, plot

BENCHES = ("command", "ping", "turn", "stream", "many", "telemetry", "middleware", "sizes", "providers", "disk")
DOCS = Path(__file__).resolve().parents[2] / "docs"


def main(argv: Sequence[str]) -> int:
    """0 when everything was measured, whether the goals are reached or not; 2 for an unknown name."""
    unknown = [name for name in argv if name not in BENCHES]
    if unknown:
        print(f"no bench {', '.join(unknown)}; there are {', '.join(BENCHES)}", file=sys.stderr)
        return 2
    figures: list[Figure] = []
    for name in argv or BENCHES:
        for figure in importlib.import_module(f"tests.bench.bench_{name}").measure():
            figures.append(figure)
            ratio = f"  {figure.ratio:.2f} x {figure.compared_with}" if figure.ratio is not None else ""
            state = {True: "reached", False: "NOT reached", None: ""}[figure.ok]
            print(f"{figure.name}: {figure.value:,.2f} {figure.unit}{ratio}  {goal(figure)} {state}", flush=True)
    if not argv:
        on = machine()
        rows = {"machine": on, "figures": [figure.as_row() for figure in figures]}
        (DOCS / "performance.json").write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        (DOCS / "performance.md").write_text(page(figures, on), encoding="utf-8")
        (DOCS / "performance.svg").write_text(plot(figures), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
