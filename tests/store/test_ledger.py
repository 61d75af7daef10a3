"""What the engine needs to begin again."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_daemon.core.records import (
    CloseRequest,
    DropProcess,
    ProcessRow,
    PutGrant,
    PutProcess,
    PutQueue,
    PutReceipt,
    PutRequest,
    PutTurn,
    QueueRow,
    ReceiptRow,
    RequestRow,
    TurnRow,
)
from hermes_daemon.store.sqlite import SqliteStore
from hermes_protocol.content import By, TextBlock, Usage
from hermes_protocol.events import PermissionOption, QueueEntry, RequestOpened, ToolCallAsk
from tests.support.store_rows import HandClock, put_session, with_store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


def test_only_running_turns_are_open_oldest_first(path: Path) -> None:
    def turn(turn_id: str, status: str, second: int) -> TurnRow:
        started = f"2026-03-01T12:00:0{second}.000Z"
        return TurnRow(
            turn_id=turn_id, session_id="s1", status=status, started_at=started, model="m", rounds=2, usage=Usage(1, 2)
        )

    async def work(store: SqliteStore) -> None:
        rows = [turn("t1", "running", 3), turn("t2", "completed", 1), turn("t3", "running", 2)]
        await store.write(put_session(), *(PutTurn(row=row) for row in rows))
        assert store.open_turns() == (rows[2], rows[0])
        await store.write(PutTurn(row=turn("t3", "lost", 2)))
        assert store.open_turns() == (rows[0],)

    with_store(path, work)


def test_the_queue_of_a_session_is_replaced_as_a_whole(path: Path) -> None:
    entry = QueueEntry("q1", "t1", (TextBlock("next"),), By("c1", "chat"), kind="steer", created_at="2026")

    async def work(store: SqliteStore) -> None:
        await store.write(put_session())
        assert store.queue("s1") is None
        for row in (
            QueueRow(session_id="s1", entries=(entry,), rev=1, paused=True),
            QueueRow(session_id="s1", entries=(), rev=2, paused=False),
        ):
            await store.write(PutQueue(row=row))
            assert store.queue("s1") == row

    with_store(path, work)


def test_a_receipt_is_found_by_scope_method_and_key(path: Path) -> None:
    row = ReceiptRow(scope="s1", method="hermes/turn/submit", key="k", body="hash", receipt=b'{"seq":1}', at="2026")

    async def work(store: SqliteStore) -> None:
        await store.write(PutReceipt(row=row))
        assert store.receipt("s1", "hermes/turn/submit", "k") == row
        assert store.receipt("s2", "hermes/turn/submit", "k") is None
        assert store.receipt("s1", "hermes/turn/steer", "k") is None

    with_store(path, work)


def test_receipts_are_kept_for_their_hours_and_then_go(path: Path) -> None:
    def put(key: str, at: str) -> PutReceipt:
        return PutReceipt(row=ReceiptRow(scope="s1", method="m", key=key, body="h", receipt=b"{}", at=at))

    async def work(store: SqliteStore) -> None:
        await store.write(put("old", "2026-02-28T11:59:59.999Z"), put("young", "2026-02-28T12:00:00.001Z"))
        await store.write(*(put(f"o{n}", "2026-01-01T00:00:00.000Z") for n in range(1200)))
        await store.tidy()
        assert store.receipt("s1", "m", "old") is None
        assert store.receipt("s1", "m", "o1199") is None
        assert store.receipt("s1", "m", "young") is not None

    with_store(path, work, HandClock("2026-03-01T12:00:00.000Z"), receipt_hours=24)


def test_open_requests_come_back_whole_and_go_when_closed(path: Path) -> None:
    def request(request_id: str, reason: str = "") -> RequestOpened:
        return RequestOpened(
            request_id,
            "s1",
            "permission",
            turn_id="t",
            tool_call=ToolCallAsk("c", "terminal", "rm", "{}"),
            options=(PermissionOption("once", "allow_once", "Once"),),
            form_schema={"type": "object"},
            reason=reason,
        )

    async def work(store: SqliteStore) -> None:
        await store.write(put_session(), *(PutRequest(row=RequestRow(request=request(f"r{n}"))) for n in (2, 1)))
        await store.write(PutRequest(row=RequestRow(request=request("r2", "changed"))))
        assert [row.request for row in store.open_requests()] == [request("r2", "changed"), request("r1")]
        await store.write(CloseRequest(request_id="r2"), CloseRequest(request_id="never"))
        assert [row.request.request_id for row in store.open_requests()] == ["r1"]

    with_store(path, work)


def test_processes_and_grants_are_kept(path: Path) -> None:
    rows = tuple(ProcessRow(pid=n, started=str(n), marker="m", session_id="s1", command="sleep 9") for n in (5, 7))

    async def work(store: SqliteStore) -> None:
        await store.write(*(PutProcess(row=row) for row in rows), PutGrant(grant="terminal:ls *"), PutGrant(grant="a"))
        await store.write(PutGrant(grant="terminal:ls *"))
        assert store.processes() == rows
        assert store.grants() == ("terminal:ls *", "a")
        await store.write(DropProcess(pid=5), DropProcess(pid=99))
        assert store.processes() == rows[1:]

    with_store(path, work)
