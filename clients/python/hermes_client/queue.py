"""The inputs of a session that wait for their turn: edit, order, drop, let run."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence

from hermes_client.connection import Connection
from hermes_protocol import methods as m
from hermes_protocol.content import InputBlock, TextBlock


class Queue:
    """`expect_rev` (the View's `queue_rev`) refuses a change where others changed the queue meanwhile:
    ProtocolError `stale_revision`. An entry that is gone is `queue_not_found`."""

    def __init__(self, connection: Connection, session_id: str) -> None:
        self._connection = connection
        self._session_id = session_id

    async def list(self) -> m.QueueResult:
        """What waits now, as the daemon has it."""
        return await self._ask("list", m.QueueParams(self._session_id))

    async def update(
        self, queue_id: str, text: str | Iterable[InputBlock], *, expect_rev: int | None = None
    ) -> m.QueueResult:
        """Put other words in an entry's place."""
        blocks = (TextBlock(text),) if isinstance(text, str) else tuple(text)
        return await self._ask("update", m.QueueUpdateParams(self._session_id, queue_id, blocks, expect_rev, _key()))

    async def reorder(self, order: Sequence[str], *, expect_rev: int | None = None) -> m.QueueResult:
        """Queue ids, first to run first; those not named keep their order behind them."""
        return await self._ask("reorder", m.QueueReorderParams(self._session_id, tuple(order), expect_rev, _key()))

    async def remove(self, queue_id: str, *, expect_rev: int | None = None) -> m.QueueResult:
        """Take an entry out."""
        return await self._ask("remove", m.QueueRemoveParams(self._session_id, queue_id, expect_rev, _key()))

    async def resume(self) -> m.QueueResult:
        """Let a paused queue run."""
        return await self._ask("resume", m.QueueParams(self._session_id, _key()))

    async def _ask(self, verb: str, params: object) -> m.QueueResult:
        return await self._connection.request(f"hermes/queue/{verb}", params, m.QueueResult, resend=True)


def _key() -> str:
    return uuid.uuid4().hex
