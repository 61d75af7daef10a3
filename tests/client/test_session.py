"""A session followed through everything that can happen to its stream."""

from __future__ import annotations

import asyncio

import pytest

from hermes_client import Change, Changes, Connection, Disconnected, Session
from hermes_client.view import from_snapshot
from hermes_protocol import events as e
from hermes_protocol import methods as m
from hermes_protocol.errors import ProtocolError
from tests.support.client_peer import FakeDaemon, fake_daemon


async def until(stream: Changes, kind: type[e.EventData] | None) -> Change:
    """The next change with such a payload; None = the next rebuilt View."""
    async for change in stream:
        if (change.event is None) if kind is None else isinstance(change.payload, kind):
            return change
    raise AssertionError(f"the stream ended before {kind}")


def whole(daemon: FakeDaemon, session: Session) -> bool:
    return session.view == from_snapshot(daemon.journal.snapshot())


def test_a_turn_is_submitted_and_its_end_awaited() -> None:
    async def run() -> None:
        async with fake_daemon() as daemon, await Connection.open(daemon.path) as connection:
            session = await Session.create(connection, "/w", model="scripted/echo")
            ended = await session.run("hello")
            assert ended is not None
            assert ended.status == "completed"
            assert [session.view.text(item) for item in session.view.items] == ["hello", "hello"]
            assert whole(daemon, session)
            await session.close()
            assert (await daemon.asked("hermes/session/unsubscribe"))["sessionId"] == "s1"

    asyncio.run(run())


def test_an_unknown_session_is_refused_at_once() -> None:
    async def run() -> None:
        async with fake_daemon() as daemon, await Connection.open(daemon.path) as connection:
            with pytest.raises(ProtocolError) as caught:
                await Session.open(connection, "nope")
            assert caught.value.kind == "session_not_found"

    asyncio.run(run())


def test_events_in_the_same_read_as_the_answer_of_subscribe_are_not_lost() -> None:
    async def run() -> None:
        async with fake_daemon() as daemon, await Connection.open(daemon.path) as connection:
            for n in range(20):
                daemon.journal.update(title=str(n))
            session = await Session.open(connection, "s1")
            # The order of answers shows that everything before this one was read.
            await connection.request("hermes/daemon/ping", None, m.PingResult)
            assert session.view.session.title == "19"

    asyncio.run(run())


def test_a_gap_is_noticed_and_filled_by_replay() -> None:
    async def run() -> None:
        async with fake_daemon() as daemon, await Connection.open(daemon.path) as connection:
            session = await Session.open(connection, "s1")
            stream = session.changes()
            daemon.journal.update(title="lost on the way")
            daemon.lose()
            daemon.journal.start_turn("seen")
            daemon.flush()
            assert (await until(stream, e.SessionUpdated)).view.session.title == "lost on the way"
            await until(stream, e.TurnStarted)
            subscribed = await daemon.asked("hermes/session/subscribe", 2)
            assert subscribed["since"] == {"epoch": "e1", "seq": 1}
            await connection.request("hermes/daemon/ping", None, m.PingResult)
            assert whole(daemon, session)

    asyncio.run(run())


def test_a_desync_is_answered_by_subscribing_again() -> None:
    async def run() -> None:
        async with fake_daemon() as daemon, await Connection.open(daemon.path) as connection:
            session = await Session.open(connection, "s1")
            stream = session.changes()
            daemon.journal.update(title="x")
            daemon.lose()
            daemon.peers[0].note("hermes/desync", m.DesyncParams("s1", 1, "lag"))
            assert (await until(stream, e.SessionUpdated)).view.session.title == "x"

    asyncio.run(run())


def test_when_too_much_was_missed_the_view_is_rebuilt() -> None:
    async def run() -> None:
        async with fake_daemon() as daemon, await Connection.open(daemon.path) as connection:
            session = await Session.open(connection, "s1")
            stream = session.changes()
            await daemon.stop()
            daemon.echo("while nobody looked", "t9")
            daemon.lose()
            daemon.retained_from = len(daemon.journal.events)
            await daemon.start()
            change = await until(stream, None)
            assert change.view.text(change.view.items[-1]) == "while nobody looked"
            assert whole(daemon, session)

    asyncio.run(run())


def test_one_submit_is_one_turn_although_its_answer_was_lost() -> None:
    async def run() -> None:
        async with fake_daemon() as daemon, await Connection.open(daemon.path) as connection:
            session = await Session.open(connection, "s1")

            def act_and_die(text: str, turn_id: str) -> None:
                daemon.on_submit = daemon.echo
                daemon.echo(text, turn_id)
                daemon.drop()

            daemon.on_submit = act_and_die
            ended = await session.run("once")
            assert ended is not None
            submits = [params["key"] for name, params in daemon.requests if name == "hermes/turn/submit"]
            assert len(submits) == 2
            assert len(set(submits)) == 1
            assert sum(isinstance(item, e.UserMessage) for item in session.view.items) == 1

    asyncio.run(run())


def test_a_turn_that_ended_unseen_is_none() -> None:
    async def run() -> None:
        async with fake_daemon() as daemon, await Connection.open(daemon.path) as connection:
            session = await Session.open(connection, "s1")
            daemon.on_submit = daemon.journal.start_turn
            running = asyncio.create_task(session.run("long"))
            await daemon.asked("hermes/turn/submit")
            await daemon.stop()
            daemon.journal.end_turn("lost")
            daemon.lose()
            daemon.retained_from = len(daemon.journal.events)
            await daemon.start()
            assert await running is None

    asyncio.run(run())


def test_a_session_deleted_meanwhile_ends_the_iteration_with_the_reason() -> None:
    async def run() -> None:
        async with fake_daemon() as daemon, await Connection.open(daemon.path) as connection:
            session = await Session.open(connection, "s1")
            stream = session.changes()
            daemon.refuse["hermes/session/subscribe"] = [ProtocolError("session_deleted", "it was deleted")]
            daemon.drop()
            with pytest.raises(ProtocolError, match="it was deleted"):
                await until(stream, None)

    asyncio.run(run())


def test_closing_the_connection_ends_the_iteration() -> None:
    async def run() -> None:
        async with fake_daemon() as daemon:
            connection = await Connection.open(daemon.path)
            session = await Session.open(connection, "s1")
            stream = session.changes()
            await connection.close()
            assert [change async for change in stream] == []
            with pytest.raises(Disconnected):
                await session.submit("too late")

    asyncio.run(run())


def test_a_question_is_answered_and_the_second_answer_learns_who_was_first() -> None:
    async def run() -> None:
        async with (
            fake_daemon() as daemon,
            await Connection.open(daemon.path, client=m.Client(name="one")) as first,
            await Connection.open(daemon.path, client=m.Client(name="two")) as second,
        ):
            mine, theirs = await Session.open(first, "s1"), await Session.open(second, "s1")
            stream = theirs.changes()
            daemon.journal.start_turn("go")
            request_id = daemon.journal.ask(daemon.journal.start_call())
            daemon.flush()
            await until(stream, e.RequestOpened)
            theirs.seen(request_id)
            assert (await daemon.asked("hermes/request/seen"))["requestId"] == request_id
            await mine.answer(request_id, m.Answer(option_id="session"))
            resolved = (await until(stream, e.RequestResolved)).payload
            assert isinstance(resolved, e.RequestResolved)
            assert resolved.by is not None
            assert (resolved.outcome, resolved.by.name) == ("allow_session", "one")
            with pytest.raises(ProtocolError) as caught:
                await theirs.answer(request_id, m.Answer(option_id="deny"))
            assert caught.value.kind == "already_resolved"

    asyncio.run(run())


def test_an_interrupt_names_the_turn_that_is_shown_as_running() -> None:
    async def run() -> None:
        async with fake_daemon() as daemon, await Connection.open(daemon.path) as connection:
            session = await Session.open(connection, "s1")
            daemon.on_submit = daemon.journal.start_turn
            running = asyncio.create_task(session.run("long"))
            stream = session.changes()
            await until(stream, e.TurnStarted)
            result = await session.interrupt()
            assert result.status == "interrupting"
            assert (await daemon.asked("hermes/turn/interrupt"))["turnId"] == result.turn_id
            ended = await running
            assert ended is not None
            assert ended.status == "interrupted"
            assert (await session.interrupt()).status == "notActive"

    asyncio.run(run())


def test_options_and_titles_are_set_and_seen() -> None:
    async def run() -> None:
        async with fake_daemon() as daemon, await Connection.open(daemon.path) as connection:
            session = await Session.open(connection, "s1")
            await session.set_option("model", "scripted/words")
            await session.rename("a good name")
            await connection.request("hermes/daemon/ping", None, m.PingResult)
            assert session.view.options.model == "scripted/words"
            assert session.view.session.title == "a good name"

    asyncio.run(run())
