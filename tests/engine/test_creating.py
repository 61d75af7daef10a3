"""Sessions are created once for a key, also when the first try could not be written."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

from hermes_daemon.core.ports import StorageError
from hermes_daemon.core.records import Op
from hermes_daemon.core.settings import DatabaseSettings, Settings
from hermes_daemon.engine.identity import SystemClock
from hermes_daemon.engine.parts import Parts
from hermes_daemon.engine.sessions import Sessions
from hermes_daemon.middleware.registry import Registry
from hermes_daemon.store.sqlite import SqliteStore
from hermes_protocol.content import By
from hermes_protocol.methods import CreateParams
from tests.support.live import ScriptedModels, TestTools


class FullOnce:
    """ports.Store whose first write does not fit."""

    def __init__(self, store: SqliteStore) -> None:
        self._store, self._full = store, True

    def write(self, *ops: Op, durable: bool = True, patience: float | None = 0.0) -> Awaitable[None]:
        if self._full:
            self._full = False
            failed = asyncio.get_running_loop().create_future()
            failed.set_exception(StorageError("the disk is full"))
            return failed
        return self._store.write(*ops, durable=durable, patience=patience)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def test_those_who_waited_for_a_create_that_failed_make_one_session_together(tmp_path: Path) -> None:
    async def story() -> None:
        store = SqliteStore.open(str(tmp_path / "state.db"), DatabaseSettings(), SystemClock())
        parts = Parts(FullOnce(store), ScriptedModels(), TestTools([]), SystemClock(), Settings, str, Registry(), {})
        sessions = Sessions(parts, lambda *_: None)
        params = CreateParams("/", key="one key")
        tries = [sessions.create(params, By("me", "me", "native")) for _ in range(5)]
        first, *others = await asyncio.gather(*tries, return_exceptions=True)
        assert isinstance(first, StorageError)
        assert len({each.session.session_id for each in others if not isinstance(each, BaseException)}) == 1
        assert len(store.sessions(limit=10).rows) == 1
        await store.close()

    asyncio.run(story())
