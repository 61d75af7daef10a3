"""/queue and /steer."""

from __future__ import annotations

import asyncio

import pytest

from hermes_protocol import events as e
from hermes_protocol.content import By, input_text
from hermes_shell.interactive import commands
from tests.support.client_face import MemoryFace, daemon_and_chat
from tests.support.client_peer import FakeDaemon


def done(
    *lines: str, running: bool = False, queued: tuple[str, ...] = ("one", "two", "three")
) -> tuple[FakeDaemon, MemoryFace]:
    """Run commands in a chat whose session has these inputs waiting."""

    async def run() -> tuple[FakeDaemon, MemoryFace]:
        async with daemon_and_chat() as (daemon, chat, face):
            if running:
                daemon.journal.start_turn("go")
            for text in queued:
                daemon.journal.enqueue(text, By(chat.connection.client_id) if text != "two" else By("x", "bob"))
            daemon.flush()
            await chat.connection.request("hermes/daemon/ping", None, dict)
            for line in lines:
                await asyncio.wait([chat.start(commands.run(chat, line))])
                await chat.connection.request("hermes/daemon/ping", None, dict)
                await asyncio.sleep(0)
            return daemon, face

    return asyncio.run(run())


def waiting(daemon: FakeDaemon) -> list[str]:
    return [input_text(entry.input) for entry in daemon.journal.queue]


def test_what_waits_is_listed_with_who_put_it_there() -> None:
    _, face = done("/queue")
    assert face.text == "  1  one\n  2  two  (bob)\n  3  three"
    assert done("/queue", queued=())[1].text == "nothing is queued"


def test_an_entry_is_edited_moved_and_dropped() -> None:
    daemon, face = done("/queue edit 2 the second", "/queue move 3 1", "/queue drop 2", "/queue resume")
    assert waiting(daemon) == ["three", "the second"]
    assert "changed: the second" in face.text
    assert "removed: one" in face.text
    updated = next(params for method, params in daemon.requests if method == "hermes/queue/update")
    assert updated["expectQueueRev"] == 3


def test_a_paused_queue_says_how_it_goes_on() -> None:
    async def run() -> None:
        async with daemon_and_chat() as (daemon, chat, face):
            daemon.journal.enqueue("later")
            daemon.journal.pause(True)
            daemon.flush()
            await face.until(lambda: chat.view.paused)
            await commands.run(chat, "/queue")
            assert "/queue resume goes on" in face.text
            await commands.run(chat, "/queue resume")
            await face.until(lambda: not chat.view.paused)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("/queue eat 1", "expected nothing, `edit N TEXT`"),
        ("/queue drop 4", "expected a number from 1 to 3, got '4'"),
        ("/queue drop x", "expected a number from 1 to 3, got 'x'"),
        ("/queue edit 1", "expected the words to put in its place"),
        ("/queue move 1 9", "expected TO from 1 to 3, got '9'"),
    ],
)
def test_what_does_not_fit_is_said_and_changes_nothing(line: str, told: str) -> None:
    daemon, face = done(line)
    assert told in face.text
    assert waiting(daemon) == ["one", "two", "three"]


def test_steering_goes_to_the_running_turn_and_without_one_the_words_come_back() -> None:
    daemon, _ = done("/steer left", running=True, queued=())
    (asked,) = [params for method, params in daemon.requests if method == "hermes/turn/steer"]
    assert asked["turnId"].startswith("t")
    daemon, face = done("/steer left", queued=())
    assert face.restored == ["left"]
    assert "no turn is running" in face.text
    assert "expected the words" in done("/steer")[1].text


def test_a_steer_that_came_too_late_is_told() -> None:
    async def run() -> None:
        async with daemon_and_chat() as (daemon, _, face):
            daemon.journal.start_turn("go")
            daemon.journal.emit(e.TurnSteerRequeued("t1", "q1", "t2"))
            daemon.flush()
            await face.shows("too late for the running turn")

    asyncio.run(run())
