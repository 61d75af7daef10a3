"""Which children run for which session, durably, so that the next start can end what a killed daemon left."""

from __future__ import annotations

from collections.abc import Callable

from hermes_daemon.core.ports import Store
from hermes_daemon.core.records import DropProcess, ProcessRow, PutProcess
from hermes_daemon.tools.terminal.processes import start_time


class SessionProcesses:
    """ports.Processes for one session. What is kept of the commands is redacted first."""

    def __init__(self, store: Store, session_id: str, redact: Callable[[str], str] = str) -> None:
        self._store = store
        self._session_id = session_id
        self._redact = redact

    async def started(self, pid: int, marker: str, command: str) -> None:
        """Return when the child is on record."""
        shown = self._redact(command)[:200]
        row = ProcessRow(pid=pid, started=start_time(pid), marker=marker, session_id=self._session_id, command=shown)
        await self._store.write(PutProcess(row=row), durable=False, patience=None)

    async def ended(self, pid: int) -> None:
        """The child and its group are gone."""
        await self._store.write(DropProcess(pid=pid), durable=False, patience=None)
