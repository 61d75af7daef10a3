"""The chat against a daemon's side of the wire, without a terminal."""

from __future__ import annotations

import asyncio

import msgspec

from hermes_client import Session
from hermes_protocol import events as e
from hermes_protocol import methods as m
from hermes_protocol.content import By
from hermes_protocol.errors import ProtocolError
from tests.support.client_face import chatting, daemon_and_chat
from tests.support.client_peer import fake_daemon


def test_a_message_is_sent_and_its_answer_printed() -> None:
    async def run() -> None:
        async with daemon_and_chat() as (_, chat, face):
            chat.submit("hello")
            await face.shows("› hello\n\nhello")
            assert not chat.sending

    asyncio.run(run())


def test_messages_typed_while_a_turn_runs_are_queued_in_order() -> None:
    async def run() -> None:
        async with daemon_and_chat() as (daemon, chat, face):
            daemon.on_submit = daemon.journal.start_turn
            for text in ("one", "two", "three"):
                chat.submit(text)
            await face.until(lambda: len(chat.view.queue) == 2)
            assert [line.strip() for line in chat.live(10)] == ["queued: two", "queued: three"]

    asyncio.run(run())


def test_what_is_typed_while_the_daemon_is_away_is_sent_when_it_is_back() -> None:
    async def run() -> None:
        async with daemon_and_chat() as (daemon, chat, face):
            await daemon.stop()
            await face.until(lambda: chat.connection.state == "lost")
            chat.submit("one")
            chat.submit("two")
            assert [line.strip() for line in chat.live(10)] == ["sending: one", "sending: two"]
            assert chat.situation().connection == "lost"
            daemon.boot = 2
            await daemon.start()
            await face.shows("› two\n\ntwo")
            assert face.text.index("› one") < face.text.index("› two")
            assert "the daemon was restarted; connected again" in face.text
            assert face.text.count("connected again") == 1

    asyncio.run(run())


def test_a_message_goes_to_the_session_it_was_typed_in() -> None:
    async def run() -> None:
        async with daemon_and_chat() as (daemon, chat, face):
            other = await Session.open(chat.connection, "s1")
            other.session_id = "s2"
            await daemon.stop()
            await face.until(lambda: chat.connection.state == "lost")
            chat.submit("for the first")
            chat.show(other)
            await daemon.start()
            assert (await daemon.asked("hermes/turn/submit"))["sessionId"] == "s1"

    asyncio.run(run())


def test_a_message_that_is_refused_is_given_back() -> None:
    async def run() -> None:
        async with daemon_and_chat() as (daemon, chat, face):
            daemon.refuse["hermes/turn/submit"] = [
                ProtocolError("storage_error", "the disk is full", hint="Free some.")
            ]
            chat.submit("precious words")
            await face.until(lambda: face.restored)
            assert face.restored == ["precious words"]
            await face.shows("the disk is full Free some.")

    asyncio.run(run())


def test_ctrl_c_interrupts_the_turn_and_twice_leaves() -> None:
    async def run() -> None:
        async with daemon_and_chat() as (daemon, chat, face):
            daemon.on_submit = daemon.journal.start_turn
            chat.submit("long")
            await face.until(lambda: chat.view.turn)
            chat.press_interrupt()
            assert chat.situation().hint == "Ctrl-C again leaves"
            await face.shows("interrupted")
            assert chat.hint == ""
            chat.press_interrupt()
            assert face.code is None
            chat.press_interrupt()
            assert face.code == 0

    asyncio.run(run())


def test_typing_on_disarms_ctrl_c() -> None:
    async def run() -> None:
        async with daemon_and_chat() as (_, chat, face):
            chat.press_interrupt()
            chat.typed()
            chat.press_interrupt()
            assert face.code is None

    asyncio.run(run())


def test_a_permission_is_seen_answered_and_gone() -> None:
    async def run() -> None:
        async with daemon_and_chat() as (daemon, chat, face):
            daemon.journal.start_turn("go")
            request_id = daemon.journal.ask(daemon.journal.start_call(title="Run make"))
            daemon.flush()
            await face.until(lambda: chat.asking.question)
            assert (await daemon.asked("hermes/request/seen"))["requestId"] == request_id
            assert any("Allow Run make" in line for line in chat.live(20))
            chat.asking.press("2")
            await face.shows("Run make: allowed for this session by you")
            assert chat.asking.question is None

    asyncio.run(run())


def test_a_no_carries_its_reason() -> None:
    async def run() -> None:
        async with daemon_and_chat() as (daemon, chat, face):
            daemon.journal.start_turn("go")
            daemon.journal.ask(daemon.journal.start_call(title="Run make"))
            daemon.flush()
            await face.until(lambda: chat.asking.question)
            chat.asking.press("4")
            chat.asking.back()
            chat.asking.press("4")
            chat.asking.enter("use ninja")
            await face.shows("denied by you (use ninja)")
            answer = (await daemon.asked("hermes/request/answer"))["answer"]
            assert answer == {"optionId": "deny", "feedback": "use ninja"}

    asyncio.run(run())


def test_two_questions_are_asked_one_after_the_other() -> None:
    async def run() -> None:
        async with daemon_and_chat() as (daemon, chat, face):
            daemon.journal.start_turn("go")
            for title in ("first", "second"):
                daemon.journal.ask(daemon.journal.start_call(title=title))
            daemon.flush()
            await face.until(lambda: chat.asking.question)
            chat.asking.press("1")
            await face.shows("first: allowed once")
            assert any("Allow second" in line for line in chat.live(30))

    asyncio.run(run())


def test_a_question_answered_by_another_client_disappears_and_says_by_whom() -> None:
    async def run() -> None:
        async with (
            fake_daemon() as daemon,
            chatting(daemon, "desk") as (mine, my_face),
            chatting(daemon, "laptop") as (theirs, their_face),
        ):
            daemon.journal.start_turn("go")
            daemon.journal.ask(daemon.journal.start_call(title="Run make"))
            daemon.flush()
            await my_face.until(lambda: mine.asking.question)
            await their_face.until(lambda: theirs.asking.question)
            theirs.asking.press("1")
            await my_face.shows("Run make: allowed once by laptop")
            assert mine.asking.question is None
            assert "by you" in their_face.text

    asyncio.run(run())


def test_an_answer_that_came_too_late_is_no_error() -> None:
    async def run() -> None:
        async with daemon_and_chat() as (daemon, chat, face):
            daemon.journal.start_turn("go")
            request_id = daemon.journal.ask(daemon.journal.start_call(title="Run make"))
            daemon.flush()
            await face.until(lambda: chat.asking.question)
            daemon.journal.resolve(request_id, "deny")
            chat.asking.press("1")
            await face.shows("denied")
            await daemon.asked("hermes/request/answer")
            await chat.connection.request("hermes/daemon/ping", None, dict)
            assert "already" not in face.text

    asyncio.run(run())


def test_a_session_in_which_nothing_was_said_is_removed_and_another_is_not() -> None:
    async def run() -> None:
        removed: list[object] = []
        async with daemon_and_chat(made=True) as (daemon, chat, _):
            daemon.extra["hermes/session/delete"] = lambda params: removed.append(params) or {}
            assert chat.farewell() == ""
            await chat.end()
            assert removed == [{"sessionId": "s1"}]
        async with daemon_and_chat(made=True) as (daemon, chat, face):
            daemon.extra["hermes/session/delete"] = lambda params: removed.append(params) or {}
            chat.submit("hello")
            await face.shows("hello\n\nhello")
            assert "hermes attach s1" in chat.farewell()
            await chat.end()
            assert len(removed) == 1

    asyncio.run(run())


def test_the_last_calls_output_opens_below_and_closes_again() -> None:
    async def run() -> None:
        async with daemon_and_chat() as (daemon, chat, face):
            daemon.journal.start_turn("go")
            call = daemon.journal.start_call(title="Run make")
            daemon.journal.delta(call, "\n".join(f"line {n}" for n in range(40)))
            daemon.journal.complete(call)
            daemon.flush()
            await face.shows("more lines")
            chat.toggle()
            assert "line 39" in "\n".join(chat.live(100))
            narrow = chat.live(10)
            assert len(narrow) == 10
            assert "32 more lines" in narrow[-1]
            chat.toggle()
            assert chat.live(100) == []

    asyncio.run(run())


def test_the_local_model_is_introduced_once() -> None:
    async def run() -> None:
        async with fake_daemon() as daemon:
            daemon.journal.update(model="local/smollm2")
            async with chatting(daemon) as (chat, face):
                for text in ("one", "two"):
                    chat.submit(text)
                    await face.shows(f"› {text}\n\n{text}")
                assert face.text.count("a tiny model on this machine") == 1
            async with chatting(daemon) as (chat, face):
                chat.submit("three")
                await face.shows("› three\n\nthree")
                assert "tiny model" not in face.text

    asyncio.run(run())


def test_a_daemon_that_goes_away_on_purpose_says_so() -> None:
    async def run() -> None:
        async with daemon_and_chat() as (daemon, chat, face):
            daemon.peers[0].note("hermes/daemon/state", {"state": "draining", "reason": "an upgrade", "restart": True})
            await face.shows("the daemon is draining; another one takes its place: an upgrade")
            assert chat.situation().connection == "draining"

    asyncio.run(run())


def test_other_clients_are_counted() -> None:
    async def run() -> None:
        async with daemon_and_chat() as (daemon, chat, face):
            daemon.journal.update(clients=3)
            daemon.flush()
            await face.until(lambda: chat.situation().others == 2)
            alone = msgspec.structs.replace(daemon.journal.session, clients=1)
            daemon.peers[0].note("hermes/session/changed", m.SessionChangedParams("s1", alone))
            await face.until(lambda: chat.situation().others == 0)

    asyncio.run(run())


def test_a_session_that_somebody_deleted_says_who_and_is_followed_no_longer() -> None:
    async def run() -> None:
        async with daemon_and_chat() as (daemon, chat, face):
            daemon.journal.emit(e.SessionDeleted(By("x", "bob")))
            daemon.flush()
            await face.shows("this session was deleted by bob; /new begins another")
            stream = chat.session.changes()
            assert [change async for change in stream] == []

    asyncio.run(run())
