"""Another process holds the database's lock for longer than anybody waits; the clock is the test's own. The handed
case sessions/db-lock-seconds: what runs is kept in memory and written later, a new message is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hermes_daemon.core.ports import StorageError
from hermes_daemon.core.settings import DatabaseSettings, Settings
from hermes_daemon.engine.parts import Parts
from hermes_daemon.engine.sessions import Sessions
from hermes_daemon.middleware.registry import Registry
from hermes_daemon.store.sqlite import SqliteStore
from hermes_daemon.store.writer import LOCK_PATIENCE_S
from hermes_protocol.content import By, TextBlock
from hermes_protocol.methods import CreateParams, SubmitParams
from tests.support.live import ScriptedModels, TestTools
from tests.support.store_lock import locked_by_another_process
from tests.support.store_rows import HandClock

ME = By("c1", "test")


def test_a_lock_held_for_a_minute_refuses_what_is_new_and_loses_nothing_of_what_runs(tmp_path: Path) -> None:
    path, clock = tmp_path / "state.db", HandClock()

    async def story() -> None:
        store = SqliteStore.open(str(path), DatabaseSettings(), clock)
        parts = Parts(store, ScriptedModels(), TestTools([]), clock, Settings, str, Registry(), {})
        sessions = Sessions(parts, lambda *_: None)
        created = await sessions.create(CreateParams("/", model="scripted/words?n=20&delay_ms=1"), ME)
        session = sessions.get(created.session.session_id)
        await session.admission.submit(SubmitParams(session.session_id, (TextBlock("go"),), "one"), ME)
        with locked_by_another_process(path) as lock:
            late = asyncio.ensure_future(
                session.admission.submit(SubmitParams(session.session_id, (TextBlock("more"),), "two"), ME)
            )
            assert "holds its lock" in await store.health_other_than("ok")
            clock.seconds += LOCK_PATIENCE_S + 50
            with pytest.raises(StorageError, match="another process holds its lock"):
                await late
            assert session.busy
            assert len(store.items(session.session_id, limit=10).rows) == 1
            lock.release()
            await session.admission.idle()
        assert store.health == "ok"
        texts = [message.text for message in store.messages(session.session_id)]
        assert texts == ["go", " ".join(f"word{number}" for number in range(20))]
        await session.admission.submit(SubmitParams(session.session_id, (TextBlock("more"),), "two"), ME)
        await session.admission.idle()
        users = [message.text for message in store.messages(session.session_id) if message.role == "user"]
        assert users == ["go", "more"]
        await store.close()

    asyncio.run(story())
