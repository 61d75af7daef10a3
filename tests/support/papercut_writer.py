"""Files papercuts from a process of its own: DATABASE WHO COUNT MODE (report, or capture with a quota of COUNT's)."""

from __future__ import annotations

import asyncio
import sys

from hermes_daemon.bundled.papercuts.backlog import MIGRATIONS, Table
from hermes_daemon.bundled.papercuts.cut import Report, report_signature
from hermes_daemon.bundled.papercuts.filing import Filing, QuotaSpent
from hermes_daemon.store.plugin_database import open_database


async def main(path: str, who: str, count: int, mode: str) -> int:
    """How many were filed."""
    filing = Filing(open_database(path, MIGRATIONS), Table(), str, quota=20)
    sys.stdin.readline()  # both begin at once
    filed = 0
    for number in range(count):
        report = Report("tool", "low", "it works", f"{'same' if number % 2 else who} {number % 4}")
        if mode == "report":
            await filing.report(report)
            filed += 1
            continue
        try:
            await filing.by_itself(report, "capture", report_signature)
            filed += 1
        except QuotaSpent:
            continue
    return filed


if __name__ == "__main__":
    print(asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])))
