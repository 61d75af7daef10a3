"""The rows of `hermes watch`."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
from collections.abc import AsyncIterator, Callable

from hermes_client import Connection
from hermes_protocol import events as e
from hermes_protocol import methods as m
from hermes_shell.overview import Overview, Row, amount, lines, spent
from tests.support.client_journal import Journal, stamp
from tests.support.client_peer import FakeDaemon, fake_daemon

NOW = datetime.datetime.fromisoformat(stamp(90_000))


class Watched:
    """An Overview over a FakeDaemon's one session; `until` waits for a row that fits."""

    def __init__(self, daemon: FakeDaemon, connection: Connection) -> None:
        self.daemon = daemon
        self.moved = asyncio.Event()
        self.overview = Overview(connection, self.moved.set)

    async def until(self, holds: Callable[[Row], object]) -> Row:
        async with asyncio.timeout(10):
            while True:
                self.moved.clear()
                found = [row for row in self.overview.rows(NOW) if holds(row)]
                if found:
                    return found[0]
                await self.moved.wait()

    def tell(self, **fields: object) -> None:
        """The daemon announces the session's row as it is, with these fields."""
        self.daemon.journal.update(**fields)
        self.daemon.flush()
        for peer in self.daemon.peers:
            peer.note("hermes/session/changed", m.SessionChangedParams("s1", self.daemon.journal.session))


@contextlib.asynccontextmanager
async def watched() -> AsyncIterator[Watched]:
    async with fake_daemon() as daemon, await Connection.open(daemon.path) as connection:
        made = Watched(daemon, connection)
        await made.overview.load()
        yield made
        await made.overview.close()


def test_an_idle_session_is_a_row_and_is_not_followed() -> None:
    async def run() -> None:
        async with watched() as here:
            (row,) = here.overview.rows(NOW)
            assert (row.session_id, row.state, row.turn_seconds, row.tool) == ("s1", "idle", None, "")
            assert "hermes/session/subscribe" not in [name for name, _ in here.daemon.requests]

    asyncio.run(run())


def test_what_runs_is_followed_for_its_tool_its_time_and_its_questions() -> None:
    async def run() -> None:
        async with watched() as here:
            journal = here.daemon.journal
            journal.start_turn("go")
            call = journal.start_call(title="Run make")
            here.tell(state="running", clients=2)
            row = await here.until(lambda row: row.tool)
            assert (row.tool, row.state, row.clients) == ("Run make", "running", 1)
            assert row.turn_seconds is not None
            assert 89 < row.turn_seconds < 90
            assert (await here.daemon.asked("hermes/session/subscribe"))["detail"] == "final"
            journal.ask(call)
            here.daemon.flush()
            row = await here.until(lambda row: row.open_requests)
            assert (row.question, row.state) == ("allow Run make", "waiting")
            journal.end_turn()
            here.tell(state="idle")
            await here.until(lambda row: row.state == "idle" and not row.tool)
            await here.daemon.asked("hermes/session/unsubscribe")

    asyncio.run(run())


def test_an_archived_session_is_left_out_and_a_new_one_comes_in() -> None:
    async def run() -> None:
        async with watched() as here:
            other = Journal("s2").session
            here.daemon.peers[0].note("hermes/session/changed", m.SessionChangedParams("s2", other))
            await here.until(lambda row: row.session_id == "s2")
            here.tell(archived=True)
            async with asyncio.timeout(10):
                while len(here.overview.rows()) > 1:
                    here.moved.clear()
                    await here.moved.wait()
            assert [row.session_id for row in here.overview.rows()] == ["s2"]

    asyncio.run(run())


def test_a_deleted_session_is_gone() -> None:
    async def run() -> None:
        async with watched() as here:
            here.daemon.journal.start_turn("go")
            here.tell(state="running")
            await here.until(lambda row: row.turn_seconds)
            here.daemon.journal.emit(e.SessionDeleted())
            here.daemon.flush()
            async with asyncio.timeout(10):
                while here.overview.rows():
                    here.moved.clear()
                    await here.moved.wait()

    asyncio.run(run())


def test_a_deleted_session_that_was_idle_is_gone_too() -> None:
    async def run() -> None:
        async with watched() as here:
            row = here.daemon.journal.session
            here.daemon.peers[0].note("hermes/session/changed", m.SessionChangedParams("s1", row, deleted=True))
            async with asyncio.timeout(10):
                while here.overview.rows():
                    here.moved.clear()
                    await here.moved.wait()
            assert "hermes/session/subscribe" not in [name for name, _ in here.daemon.requests]

    asyncio.run(run())


def test_a_restarted_daemon_is_said_and_its_sessions_listed_again() -> None:
    async def run() -> None:
        async with watched() as here:
            here.daemon.journal.start_turn("go")
            here.tell(state="running")
            await here.until(lambda row: row.turn_seconds)
            await here.daemon.stop()
            await here.until(lambda _: "the daemon is away" in here.overview.notice)
            here.daemon.boot = 2
            here.daemon.journal.update(title="after")
            here.daemon.journal.end_turn("lost")
            here.daemon.sent = len(here.daemon.journal.events)
            here.daemon.journal.session = here.daemon.journal.session
            await here.daemon.start()
            row = await here.until(lambda row: row.title == "after")
            assert "the daemon was restarted at" in here.overview.notice
            assert row.session_id == "s1"

    asyncio.run(run())


def row(session_id: str, **fields: object) -> Row:
    whole = {
        "title": "",
        "cwd": "/w",
        "state": "idle",
        "model": "m",
        "input_tokens": 0,
        "output_tokens": 0,
        "cost": None,
        "occupancy_pct": None,
        "clients": 0,
        "open_requests": 0,
        "updated_at": "",
    }
    return Row(session_id, **{**whole, **fields})  # type: ignore[arg-type]


def test_the_table_says_state_turn_tokens_and_what_goes_on() -> None:
    running = row("a", state="running", input_tokens=12_000, output_tokens=345, occupancy_pct=41.6, clients=2,
                  turn_seconds=185.0, tool="Run make", title="Fix it")  # fmt: skip
    asks = row("b", state="waiting", open_requests=1, question="allow rm x")
    header, first, second = lines([running, asks], None)
    assert header.split() == ["SESSION", "STATE", "TURN", "MODEL", "TOKENS", "FULL", "HERE", "TITLE", "NOW"]
    assert first.split() == [">", "a", "running", "3:05", "m", "12.3k", "42", "%", "2", "Fix", "it", "Run", "make"]
    assert second.startswith("?")
    assert second.endswith("? allow rm x")
    assert all(len(line) <= 30 for line in lines([running, asks], 30))


def test_amounts_and_times_are_short() -> None:
    assert [amount(n) for n in (0, 999, 1000, 999_949, 999_950, 4_500_000)] == [
        *("0", "999", "1.0k", "999.9k", "1.0M", "4.5M")
    ]
    assert [spent(s) for s in (0.4, 59.9, 60, 185, 3723)] == ["0 s", "59 s", "1:00", "3:05", "1:02:03"]


def test_questions_of_every_kind_are_named() -> None:
    from hermes_shell.overview import asked

    clarify = e.RequestOpened("r", "s", "clarify", questions=(e.Question("a", "One?"), e.Question("b", "Two?")))
    assert asked(clarify) == "One? / Two?"
    assert asked(e.RequestOpened("r", "s", "secret", name="TOKEN")) == "TOKEN"
    assert asked(e.RequestOpened("r", "s", "form")) == "form"
