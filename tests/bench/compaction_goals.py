"""The goals of compaction, measured with the handed bench over real sessions, as a Markdown table.

python -m tests.bench.compaction_goals [--split dev] [--bench FOLDER]    (some three minutes)
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
ADAPTER = "tests.bench.compaction_adapter:Ours"
Rows = dict[str, dict[str, Any]]


class Bench:
    """Runs the scripts of the bench; results land in a temporary folder."""

    def __init__(self, folder: Path, split: str, scratch: Path) -> None:
        self._folder, self._split, self._scratch = folder, split, scratch
        paths = [str(ROOT / part) for part in ("", "protocol", "clients/python", "clients/shell")]
        self._env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}

    def script(self, name: str, *arguments: str) -> str:
        """What a script prints."""
        command = [sys.executable, str(self._folder / name), *arguments]
        done = subprocess.run(command, env=self._env, cwd=self._scratch, capture_output=True, text=True, check=True)
        return done.stdout

    def replay(self, *arguments: str, adapter: str = ADAPTER) -> Rows:
        """The sessions of the split, by id."""
        out = self.script("run.py", "--adapter", adapter, "--split", self._split, *arguments)
        return {row["id"]: row for row in map(json.loads, out.splitlines())}

    def lines(self, name: str, *arguments: str) -> list[dict[str, Any]]:
        """The JSON lines of a script."""
        return [json.loads(line) for line in self.script(name, "--adapter", ADAPTER, *arguments).splitlines()]


def mean(rows: Iterable[dict[str, Any]], key: str) -> float:
    """Weighted by requests."""
    listed = list(rows)
    return sum(row[key] * row["requests"] for row in listed) / max(sum(row["requests"] for row in listed), 1)


def recall(rows: Iterable[dict[str, Any]]) -> float:
    """Share of names the agent used again (from its own or tools' rows) that were in the context."""
    need = hit = 0
    for row in rows:
        need += row["recall_need"]["assistant"] + row["recall_need"]["tool"]
        hit += row["recall_hit"]["assistant"] + row["recall_hit"]["tool"]
    return hit / max(need, 1)


def cost(rows: Rows, plain: Rows) -> float:
    """Against the same sessions without any compaction."""
    return sum(row["cost"] for row in rows.values()) / sum(plain[name]["cost"] for name in rows)


def table(bench: Bench, split: str) -> list[tuple[str, str, str, bool]]:
    """(goal, asked, reached, ok)."""
    ours, plain = bench.replay(), bench.replay(adapter="none")
    long = [row for row in ours.values() if row["micro"] + row["batch"]]
    small, small_plain = bench.replay("--window", "64000"), bench.replay("--window", "64000", adapter="none")
    single = {name: row for name, row in small.items() if row["turns"] <= 2 and row["batch"]}
    hostile = [
        row
        for mode in ("fail", "empty", "refuse", "echo", "verbose")
        for row in bench.replay("--mode", mode, "--min-tokens", "50000").values()
    ]
    resumes = bench.lines("run.py", "--split", split, "--resume", "--min-tokens", "50000")
    scale = bench.lines(
        "scale.py", "--opt", "micro_compact_min_reclaim_tokens=0", "--sizes", "300,1000,3000,10000"
    )  # below 300 rows everything is tail
    cases = bench.script("cases.py", "--adapter", ADAPTER, "--split", split).splitlines()[-1]
    every = [*ours.values(), *small.values(), *hostile]
    faults = sum(len(row["violations"]) + row["alternation_introduced"] for row in every)
    markers = max(row["markers_max"] for row in every)
    lost = sum(row["users_missing_micro"] or 0 for row in ours.values())
    hidden = sum(
        max(row["users_text_missing_final"] - row["adapter_stats"]["users_behind_a_pointer"], 0) for row in every
    )
    head, short = sum(row["head_rewritten"] for row in every), sum(row["tail_short"] for row in every)
    occupied, highest = mean(ours.values(), "occ_mean"), max(row["occ_max"] for row in ours.values())
    passes = sum(row["batch"] for row in ours.values()) / (sum(row["raw_tokens"] for row in ours.values()) / 1e6)
    price, hits = cost(ours, plain), mean(long, "cache_hit")
    breaks = 100 * sum(r["prefix_breaks"] for r in long) / max(sum(r["requests"] for r in long), 1)
    kept, over = recall(ours.values()), sum(row["over_window"] for row in [*ours.values(), *hostile])
    same = sum(row["same_on_reload"] and row["same_after"] for row in resumes)
    ms, slope = scale[-2]["median_ms"], scale[-1]["loglog_exponent"]
    runs, runs_kept = (cost(single, small_plain), recall(single.values())) if single else (0.0, 1.0)
    runs_over = sum(row["over_window"] for row in small.values())
    return [
        ("G1", "0 violations, 1 marker", f"{faults}, {markers}", faults == 0 and markers <= 1),
        (
            "G2",
            "user rows lost in micro passes 0, texts gone without a pointer 0",
            f"{lost}, {hidden}",
            lost == hidden == 0,
        ),
        ("G3", "head rewritten 0, tail short 0", f"{head}, {short}", head == short == 0),
        (
            "G4",
            "occupancy ≤ 0.35, highest ≤ 0.95, over the window 0, batch passes per million ≤ 1",
            f"{occupied:.2f}, {highest:.2f}, {over}, {passes:.2f}",
            occupied <= 0.35 and highest <= 0.95 and over == 0 and passes <= 1,
        ),
        (
            "G5",
            "cost ≤ 0.45; cache hit ≥ 0.97, breaks per 100 requests ≤ 2.5 where passes ran",
            f"{price:.2f}; {hits:.3f}, {breaks:.1f}",
            price <= 0.45 and round(hits, 3) >= 0.97 and breaks <= 2.5,
        ),
        ("G6", "recall ≥ 98 %", f"{100 * kept:.1f} %", kept >= 0.98),
        ("G7", "in memory ≤ 2 ms at 10,000 rows, exponent ≤ 0.3", f"{ms:.1f} ms, {slope}", ms <= 2 and slope <= 0.3),
        ("G9", "the same after every restart", f"{same} of {len(resumes)}", same == len(resumes)),
        ("G10", "hostile summarizers: texts gone 0, over the window 0", f"{hidden}, {over}", hidden == over == 0),
        ("G11", "all cases", cases, cases.split("/")[0] == cases.split("/")[1].split()[0]),
        (
            "G12",
            "long single turns at 64k: over 0, cost ≤ 0.70, recall ≥ 97 %",
            f"{runs_over}, {runs:.2f}, {100 * runs_kept:.1f} % ({len(single)} sessions)",
            runs_over == 0 and runs <= 0.7 and runs_kept >= 0.97,
        ),
    ]


def main() -> int:
    """0 when every goal is reached, 1 when one is not."""
    data = Path(os.environ.get("HERMES_SHARED_DATA") or ROOT.parent / "shared" / "data")
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--split", default="dev")
    parser.add_argument("--bench", type=Path, default=data.parent / "bench" / "compaction")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        rows = table(Bench(given.bench, given.split, Path(scratch)), given.split)
    print("| goal | asked | reached | |\n|---|---|---|---|")
    for goal, asked, reached, ok in rows:
        print(f"| {goal} | {asked} | {reached} | {'yes' if ok else 'NO'} |")
    return 0 if all(row[3] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
