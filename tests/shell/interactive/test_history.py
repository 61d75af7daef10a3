"""/older, /rewind, /fork, /archive."""

from __future__ import annotations

import asyncio

import msgspec

from hermes_client import Session
from hermes_protocol import methods as m
from hermes_shell.interactive import commands
from tests.support.client_face import daemon_and_chat
from tests.support.client_peer import FakeDaemon


def spoken(daemon: FakeDaemon, *texts: str) -> None:
    for text in texts:
        daemon.echo(text, daemon.journal.new_id("t"))
    daemon.flush()


def items(daemon: FakeDaemon) -> None:
    """hermes/session/items over the journal, newest first as it is asked for."""

    def answer(params: dict[str, object]) -> m.ItemsResult:
        asked = msgspec.convert(params, m.ItemsParams)
        place = next(n for n, item in enumerate(daemon.journal.items) if item.item_id == asked.before)
        page = daemon.journal.items[max(0, place - asked.limit) : place]
        return m.ItemsResult(tuple(reversed(page)), page[0].item_id if place > asked.limit else None)

    daemon.extra["hermes/session/items"] = answer


def test_what_was_said_before_is_printed_on_demand_until_there_is_no_more() -> None:
    async def run() -> None:
        async with daemon_and_chat() as (daemon, chat, face):
            spoken(daemon, *(f"text {n}" for n in range(4)))
            items(daemon)
            chat.show(await Session.open(chat.connection, "s1", tail=2))
            face.printed.clear()
            await commands.run(chat, "/older 4")
            assert face.text.index("4 earlier items") < face.text.index("› text 1") < face.text.index("› text 2")
            assert "text 0" not in face.text
            await commands.run(chat, "/older")
            assert "› text 0" in face.text
            await commands.run(chat, "/older")
            assert "everything this session holds was shown" in face.text
            await commands.run(chat, "/older none")
            assert "expected how many" in face.text

    asyncio.run(run())


def test_a_rewind_takes_messages_back_into_the_input_line() -> None:
    async def run() -> None:
        async with daemon_and_chat() as (daemon, chat, face):
            spoken(daemon, "one", "two", "three")
            await face.shows("› three  (chat)\n\nthree")
            await commands.run(chat, "/rewind 2")
            await face.shows("rewound: the last 4 items above are taken back")
            assert face.restored == ["two"]
            assert [chat.view.text(item) for item in chat.view.items] == ["one", "one"]
            await commands.run(chat, "/rewind 2")
            assert "expected a number from 1 to 1" in face.text

    asyncio.run(run())


def test_a_fork_is_gone_to_and_named() -> None:
    async def run() -> None:
        async with daemon_and_chat() as (daemon, chat, face):
            daemon.extra["hermes/session/fork"] = lambda _: m.CreateResult(daemon.journal.session, 1, "e1")
            old = chat.session
            await commands.run(chat, "/fork another way")
            assert (await daemon.asked("hermes/session/fork"))["title"] == "another way"
            assert "forked from s1" in face.text
            assert chat.session is not old

    asyncio.run(run())


def test_a_session_is_archived_and_put_back() -> None:
    async def run() -> None:
        async with daemon_and_chat() as (daemon, chat, face):
            await commands.run(chat, "/archive")
            assert daemon.journal.session.archived
            await commands.run(chat, "/archive off")
            assert not daemon.journal.session.archived
            await commands.run(chat, "/archive on")
            assert "expected nothing, or `off`" in face.text

    asyncio.run(run())


def test_attach_lists_only_sessions_somebody_works_in() -> None:
    async def run() -> None:
        async with daemon_and_chat() as (daemon, chat, face):
            await commands.run(chat, "/attach")
            assert "s1" not in face.text
            daemon.journal.update(state="running", clients=2, open_requests=1)
            await commands.run(chat, "/attach")
            assert "asks, running, 2 here" in face.text
            await commands.run(chat, "/attach 1")
            assert "this is the session you are in" in face.text

    asyncio.run(run())
