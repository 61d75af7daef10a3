"""The figures as a page, a table and a plot."""

from __future__ import annotations

import datetime
import os
import platform
from typing import Any
from xml.sax.saxutils import escape

from tests.bench.figure import Figure

WIDTH, ROW, LEFT, SCALE = 860, 30, 400, 260


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "measured": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }


def page(figures: list[Figure], on: dict[str, Any]) -> str:
    """docs/performance.md."""
    rows = [_row(figure) for figure in figures]
    reached = sum(figure.ok is True for figure in figures)
    judged = sum(figure.ok is not None for figure in figures)
    return "\n".join(
        [
            "<!-- Written by `make bench`. -->",
            "# Performance",
            "",
            f"Measured in one run on {on['cores']} cores, Python {on['python']}, {on['system']}, {on['measured']}:",
            f"{reached} of {judged} goals are reached. Each figure stands beside what was measured in turns with it;",
            "all are medians. Ratios carry over to other machines, times do not.",
            "`make bench` measures again and writes this page.",
            "",
            "![Each figure as a share of its goal](performance.svg)",
            "",
            "| figure | value | beside it | ratio | goal | reached |",
            "|---|---|---|---|---|---|",
            *rows,
            "",
            *[f"- {figure.name}: {figure.note}." for figure in figures if figure.note],
            "",
        ]
    )


def _row(figure: Figure) -> str:
    beside = f"{_number(figure.comparison)} {figure.unit} ({figure.compared_with})" if figure.comparison else ""
    ratio = f"{figure.ratio:.2f}" if figure.ratio is not None else ""
    state = {True: "yes", False: "**no**", None: ""}[figure.ok]
    return f"| {figure.name} | {_number(figure.value)} {figure.unit} | {beside} | {ratio} | {goal(figure)} | {state} |"


def goal(figure: Figure) -> str:
    """The goal in words: `ratio ≤ 4`, `≥ 30,000 events/s`."""
    if figure.goal is None:
        return ""
    sign = "≤" if figure.better == "lower" else "≥"
    return f"ratio {sign} {figure.goal:g}" if figure.of == "ratio" else f"{sign} {figure.goal:,g} {figure.unit}"


def used(figure: Figure) -> float | None:
    """The share of the goal that is used: at most 1 where the goal is reached; None without a goal."""
    if figure.goal is None or not figure.judged:
        return None
    return figure.judged / figure.goal if figure.better == "lower" else figure.goal / figure.judged


def plot(figures: list[Figure]) -> str:
    """An SVG of bars, one a figure with a goal: the goal is the line, shorter is better."""
    bars = [(figure, share) for figure in figures if (share := used(figure)) is not None]
    height = ROW * len(bars) + 60
    middle = LEFT + SCALE
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
        f'font-size="13" role="img" aria-label="Each figure as a share of its goal">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="{middle}" y="20" text-anchor="middle" fill="#555">goal</text>',
        f'<line x1="{middle}" y1="28" x2="{middle}" y2="{height - 20}" stroke="#555" stroke-dasharray="4 3"/>',
    ]
    for index, (figure, share) in enumerate(bars):
        parts += _bar(figure, share, 40 + index * ROW)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _bar(figure: Figure, share: float, y: int) -> list[str]:
    length = min(share, 1.6) * SCALE
    colour = "#2e7d5b" if figure.ok else "#b3452c"
    name = escape(figure.name.replace("`", ""))
    unit = "" if figure.of == "ratio" else f" {figure.unit}"
    label = escape(f"{_number(figure.judged or 0)}{unit} ({goal(figure)})")
    inside = length > 150
    x, ink = (LEFT + 6.0, "#fff") if inside else (LEFT + length + 6, "#222")
    return [
        f'<text x="{LEFT - 10}" y="{y + 14}" text-anchor="end" fill="#222">{name}</text>',
        f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="18" rx="2" fill="{colour}"/>',
        f'<text x="{x:.1f}" y="{y + 14}" fill="{ink}" font-size="12">{label}</text>',
    ]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
