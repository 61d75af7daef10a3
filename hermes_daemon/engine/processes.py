"""Which children run for which session, durably, so that the next start can end what a killed daemon left."""

from __future__ import annotations

from hermes_daemon.core.ports import Store
from hermes_daemon.core.records import DropProcess, ProcessRow, PutProcess
from hermes_daemon.tools.terminal.processes import start_time


class SessionProcesses:
    """ports.Processes for one session."""

    def __init__(self, store: Store, session_id: str) -> None:
        self._store = store
        self._session_id = session_id

    async def started(self, pid: int, marker: str, command: str) -> None:
        """Return when the child is on record."""
        row = ProcessRow(
            pid=pid, started=start_time(pid), marker=marker, session_id=self._session_id, command=command[:200]
        )
        await self._store.write(PutProcess(row=row), durable=False, patience=None)

    async def ended(self, pid: int) -> None:
        """The child and its group are gone."""
        await self._store.write(DropProcess(pid=pid), durable=False, patience=None)
