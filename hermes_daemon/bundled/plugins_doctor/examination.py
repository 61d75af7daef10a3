"""All checks, and how their rows are shown."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from hermes_daemon.api import DoctorRow, PluginContext, Refused, ToolContext

from .records import Record, Records
from .seams import seam_rows


class Examination:
    """The service `plugins_doctor`. It reads; its records are written by the plugin when something is loaded."""

    def __init__(self, ctx: PluginContext, records: Records) -> None:
        self._ctx, self._records = ctx, records

    def rows_now(self) -> tuple[DoctorRow, ...]:
        """The rows of every check. It looks at the disk."""
        seams = seam_rows(self._ctx, self._host(), self._ctx.manifest, ToolContext)
        others = [record for record in self._records.living() if record.pid != os.getpid()]
        own = Record(os.getpid(), "", self._ctx.loaded_plugins())
        stale = stale_rows([own, *others], self._ctx.source_digest)
        return (*self._ctx.findings(), *seams, *stale)

    async def rows(self) -> tuple[DoctorRow, ...]:
        """`rows_now`, off the event loop."""
        return await asyncio.to_thread(self.rows_now)

    def _host(self) -> Any:
        try:
            return self._ctx.host
        except Refused:
            return None


def stale_rows(records: Sequence[Record], digest: Callable[[str], str]) -> Iterator[DoctorRow]:
    """A warning for each plugin that a process runs from source that has changed since."""
    for record in records:
        for plugin in record.plugins:
            now = digest(plugin.path) if plugin.path and plugin.digest else plugin.digest
            if now == plugin.digest:
                continue
            what = "has changed" if now else "is gone"
            yield DoctorRow(
                "stale_import", plugin.id, "warn",
                f"process {record.pid} runs what it loaded before; the source in {plugin.path} {what}. "
                "Reload the plugins, or restart it",
            )  # fmt: skip


def failed(rows: Sequence[DoctorRow]) -> bool:
    """Whether any row is a fail."""
    return any(row.severity == "fail" for row in rows)


def as_table(rows: Sequence[DoctorRow]) -> str:
    """A line for each row, in columns."""
    if not rows:
        return "No plugins, and nothing to say about them."
    cells = [(row.severity, row.check, row.plugin, row.detail) for row in rows]
    widths = [max(len(row[at]) for row in cells) for at in range(3)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]]).rstrip()
        for row in cells
    )


def as_json(rows: Sequence[DoctorRow]) -> str:
    """The rows as an array of objects with check, plugin, severity and detail."""
    return msgspec.json.format(msgspec.json.encode([_object(row) for row in rows])).decode()


def _object(row: DoctorRow) -> dict[str, str]:
    return {"check": row.check, "plugin": row.plugin, "severity": row.severity, "detail": row.detail}
