"""The client against the real daemon: started when missing, followed, killed, followed on."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable, Iterator
from urllib.parse import quote

import pytest

from hermes_client import Changes, Connection, Session
from hermes_client.view import View
from hermes_protocol import events as e
from hermes_protocol import methods as m
from tests.support.client_tmux import Desk, desk
from tests.support.shared_data import case


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    with desk() as made:
        for name in ("HERMES_HOME", "XDG_RUNTIME_DIR", "HOME"):
            monkeypatch.setenv(name, made.environ[name])
        monkeypatch.delenv("HERMES_PROFILE", raising=False)
        yield made


async def until(stream: Changes, holds: Callable[[View], object]) -> View:
    async for change in stream:
        if holds(change.view):
            return change.view
    raise AssertionError("the stream ended")


def said(view: View) -> str:
    """The text of the last answer, finished or not."""
    return next(view.text(item) for item in reversed(view.items) if isinstance(item, e.AgentMessage))


def has_said(text: str) -> Callable[[View], bool]:
    return lambda view: any(isinstance(item, e.AgentMessage) and text in view.text(item) for item in view.items)


def test_a_missing_daemon_is_started_and_a_turn_answered(here: Desk) -> None:
    async def run() -> None:
        assert here.daemon_pid() == 0
        async with await Connection.open() as connection:
            assert here.daemon_pid() != 0
            session = await Session.create(connection, here.work, model="scripted/echo")
            ended = await session.run("hello there")
            assert ended is not None
            assert ended.status == "completed"
            assert said(session.view) == "hello there"
            assert session.view.state == "idle"

    asyncio.run(run())


def test_who_followed_and_who_comes_later_see_the_same(here: Desk) -> None:
    call = json.dumps({"command": "printf 'one\\ntwo\\n'"})
    model = f"scripted/tool?name=terminal&args={quote(call)}"

    async def run() -> None:
        capabilities = m.Capabilities(requests=("permission",))
        async with (
            await Connection.open(capabilities=capabilities) as first,
            await Connection.open(capabilities=capabilities) as second,
        ):
            session = await Session.create(first, here.work, model=model)
            stream = session.changes()
            running = asyncio.create_task(session.run("do it"))
            view = await until(stream, lambda view: view.requests)
            early = await Session.open(second, session.session_id)
            # The clock runs meanwhile, so only the question itself can be the same.
            assert [row.request_id for row in early.view.requests] == [row.request_id for row in view.requests]
            allow = next(option for option in view.requests[0].options if option.kind == "allow_once")
            await session.answer(view.requests[0].request_id, m.Answer(option_id=allow.id))
            ended = await running
            assert ended is not None
            assert ended.status == "completed"
            # Asking for the state comes after every event of the turn, on both connections.
            for connection in (first, second):
                await connection.request("hermes/session/get", m.SessionParams(session.session_id), m.GetResult)
            await early.close()
            late = await Session.open(second, session.session_id)
            assert [type(item) for item in late.view.items] == [type(item) for item in session.view.items]
            assert late.view.items == session.view.items == early.view.items
            assert late.view.queue == session.view.queue
            assert late.view.streaming == session.view.streaming == {}

    asyncio.run(run())


def test_a_late_joiner_gets_the_words_so_far_and_the_rest(here: Desk) -> None:
    async def run() -> None:
        async with await Connection.open() as first, await Connection.open() as second:
            session = await Session.create(first, here.work, model="scripted/words?n=120&delay_ms=10")
            stream = session.changes()
            running = asyncio.create_task(session.run("count"))
            await until(stream, has_said("word15"))
            late = await Session.open(second, session.session_id)
            joined = late.changes()
            assert said(late.view).startswith("word0 word1 ")
            view = await until(joined, lambda view: view.turn is None)
            await running
            assert said(view).split() == [f"word{n}" for n in range(120)]
            assert said(view) == said(session.view)

    asyncio.run(run())


def test_a_killed_daemon_costs_the_turn_but_no_word_and_no_message(here: Desk) -> None:
    async def run() -> None:
        async with await Connection.open() as connection:
            session = await Session.create(connection, here.work, model="scripted/words?n=3000&delay_ms=5")
            stream = session.changes()
            running = asyncio.create_task(session.run("count"))
            seen = said(await until(stream, has_said("word40")))
            os.kill(here.daemon_pid(), signal.SIGKILL)
            ended = await running
            assert ended is None or ended.status == "lost"
            view = await until(stream, lambda view: view.turn is None) if session.view.turn else session.view
            # Deltas are journaled in batches: the kill may cost what came in the last moment, never the order.
            kept = said(view).split()
            assert kept == [f"word{n}" for n in range(len(kept))]
            assert seen.split()[0] == kept[0]
            assert sum(isinstance(item, e.UserMessage) for item in view.items) == 1
            assert connection.welcome is not None
            await session.set_option("model", "scripted/echo")
            ended = await session.run("still here?")
            assert ended is not None
            assert ended.status == "completed"
            assert said(session.view) == "still here?"

    asyncio.run(run())


def test_a_daemon_that_drains_for_its_successor_costs_nothing_at_all(here: Desk) -> None:
    async def run() -> None:
        async with await Connection.open() as connection:
            session = await Session.create(connection, here.work, model="scripted/words?n=150&delay_ms=10")
            stream = session.changes()
            running = asyncio.create_task(session.run("count"))
            await until(stream, has_said("word5"))
            assert connection.welcome is not None
            first = connection.welcome.boot_id
            restart = m.ShutdownParams("drain", restart=True)
            await connection.request("hermes/daemon/shutdown", restart, m.ShutdownResult)
            # Refused by the one that drains, accepted by the next: the same call waits for it.
            second = asyncio.create_task(session.run("again", options=m.TurnOptions(model="scripted/echo")))
            ended = await running
            assert ended is not None
            assert ended.status == "completed"
            again = await second
            assert again is not None
            assert again.status == "completed"
            assert connection.welcome.boot_id != first
            texts = [session.view.text(item) for item in session.view.items if isinstance(item, e.AgentMessage)]
            assert texts == [" ".join(f"word{n}" for n in range(150)), "again"]

    asyncio.run(run())


def test_a_daemon_that_was_stopped_on_purpose_comes_back_when_it_is_needed_and_not_before(here: Desk) -> None:
    async def run() -> None:
        async with await Connection.open() as connection:
            session = await Session.create(connection, here.work, model="scripted/echo")
            lost, told = asyncio.Event(), []

            def state(name: str, reason: str) -> None:
                told.append(reason)
                if "no daemon is running" in reason:
                    lost.set()

            connection.on_state(state)
            assert here.hermes("daemon", "stop").returncode == 0
            await lost.wait()
            assert here.daemon_pid() == 0
            ended = await session.run("and back")
            assert ended is not None
            assert said(session.view) == "and back"
            assert here.daemon_pid() != 0

    asyncio.run(run())


def test_two_messages_sent_at_once_are_two_turns_in_order(here: Desk) -> None:
    async def run() -> None:
        async with await Connection.open() as connection:
            session = await Session.create(connection, here.work, model="scripted/echo")
            first = asyncio.create_task(session.run("one"))
            second = asyncio.create_task(session.run("two"))
            await asyncio.gather(first, second)
            asked = [item.text for item in session.view.items if isinstance(item, e.UserMessage)]
            assert sorted(asked) == ["one", "two"]
            assert session.view.queue == ()

    asyncio.run(run())


def test_what_is_said_right_after_a_stop_is_queued_and_answered_once(here: Desk) -> None:
    case("editor", "editor-stop-then-send")

    async def run() -> None:
        async with await Connection.open() as connection:
            session = await Session.create(connection, here.work, model="scripted/echo")
            for n in range(20):
                stream = session.changes()
                await session.submit(f"long {n}", options=m.TurnOptions(model="scripted/hang?text=busy"))
                async for change in stream:
                    if isinstance(change.payload, e.ItemDelta):
                        break
                stopping = asyncio.create_task(session.interrupt())
                sending = asyncio.create_task(session.run(f"next {n}", options=m.TurnOptions(model="scripted/echo")))
                await stopping
                ended = await sending
                assert ended is not None
                assert ended.status == "completed"
            asked = [item.text for item in session.view.items if isinstance(item, e.UserMessage)]
            assert asked == [f"{word} {n}" for n in range(20) for word in ("long", "next")]

    asyncio.run(run())


def test_the_examples_of_the_docs_do_what_they_say(here: Desk) -> None:
    examples = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "examples")

    def run(name: str, *words: str) -> str:
        done = here.python(os.path.join(examples, name), *words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def calling(command: str) -> str:
        return f"scripted/tool?name=terminal&args={quote(json.dumps({'command': command}))}"

    assert run("ask.py", "hello", "scripted/echo") == "hello\n"
    assert run("rule.py", "list", calling("ls -d .")).startswith("completed\n")
    assert "Only ls is allowed here." in run("rule.py", "clean", calling("rm -r build"))
    for item, told in (("apples", '{"apples":12}'), ("plums", "there is no plums: expected one of apples, pears")):
        model = f"scripted/tool?name=stock&args={quote(json.dumps({'item': item}))}"
        assert told in run("tool.py", "how many", model)
    rows = json.loads(here.hermes("sessions", "list", "--json").stdout)
    rows = rows["sessions"] if isinstance(rows, dict) else rows
    assert "AgentMessage hello" in "".join(run("watch.py", row["sessionId"]) for row in rows)
