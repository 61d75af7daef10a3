"""Sessions named by the beginning of their id."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from hermes_client import Connection
from hermes_protocol.errors import ProtocolError
from hermes_shell.interactive.session_ids import find
from tests.support.client_peer import FakeDaemon, fake_daemon


def rows(daemon: FakeDaemon, *ids: str) -> Any:
    """One session a page."""

    def page(params: dict[str, Any]) -> Any:
        at = int(params.get("cursor", 0))
        row = msgspec.structs.replace(daemon.journal.session, session_id=ids[at])
        return {"sessions": [row], **({"nextCursor": str(at + 1)} if at + 1 < len(ids) else {})}

    return page


def test_a_whole_id_and_a_unique_beginning_are_found_and_others_are_told() -> None:
    async def run() -> None:
        async with fake_daemon() as daemon, await Connection.open(daemon.path) as connection:
            daemon.extra["hermes/session/list"] = rows(daemon, "s_abc", "s_abd", "s_xyz")
            assert await find(connection, "s1") == "s1"
            assert await find(connection, "s_x") == "s_xyz"
            with pytest.raises(ProtocolError, match="2 sessions begin with 's_ab': s_abc, s_abd"):
                await find(connection, "s_ab")
            with pytest.raises(ProtocolError, match="no session 's_q'"):
                await find(connection, "s_q")

    asyncio.run(run())
