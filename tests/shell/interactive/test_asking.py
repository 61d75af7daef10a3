"""Questions on the screen: clarify, secret and form, their clock, and what others answer meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from hermes_protocol import events as e
from hermes_protocol.content import By
from hermes_protocol.errors import ProtocolError
from hermes_protocol.methods import Answer
from hermes_shell.interactive import commands
from hermes_shell.interactive.asking import Asking, spell
from hermes_shell.interactive.clarify import Clarify
from hermes_shell.interactive.form import Form
from hermes_shell.interactive.painter import Look, Painter
from hermes_shell.interactive.secret import Secret
from tests.support.client_face import chatting, daemon_and_chat
from tests.support.client_journal import Journal
from tests.support.client_peer import FakeDaemon, fake_daemon

PAINTER = Painter(Look(colour=False), lambda: 80, "client-1")
QUESTIONS = (
    e.Question("db", "Which database?", ("postgres", "sqlite"), free_text=False),
    e.Question("days", "Which days?", ("mon", "tue", "wed"), multi=True),
    e.Question("why", "Why?"),
)
SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["port"],
    "properties": {"port": {"type": "integer", "minimum": 1}, "host": {"type": "string"}, "tls": {"type": "boolean"}},
}


def asked(kind: e.RequestKind, **fields: Any) -> e.RequestOpened:
    journal = Journal()
    journal.start_turn("go")
    journal.ask_people(kind, **fields)
    return journal.requests[0]


def text(question: Clarify | Secret | Form) -> str:
    return "\n".join(question.lines(PAINTER))


def test_questions_are_asked_one_after_the_other_and_answered_each_for_itself() -> None:
    question: Any = Clarify(asked("clarify", questions=QUESTIONS))
    assert "? Which database? (1 of 3)\n  1 postgres\n  2 sqlite\n" in text(question)
    question, answer = question.enter("3")
    assert answer is None
    assert "expected a number from 1 to 2, got '3'" in text(question)
    question, answer = question.enter("2")
    assert answer == Answer(answers={"db": e.ClarifyAnswer(choice="sqlite")})
    question, answer = question.enter("1,3")
    assert answer == Answer(answers={"days": e.ClarifyAnswer(choices=("mon", "wed"))})
    question, answer = question.skip()
    assert answer == Answer(answers={"why": e.ClarifyAnswer(skip=True)})
    assert question.wants == "nothing"


def test_what_another_client_answered_meanwhile_is_shown_and_not_asked_again() -> None:
    question: Any = Clarify(asked("clarify", questions=QUESTIONS))
    told = e.QuestionStatus("db", "answered", e.ClarifyAnswer(choice="sqlite"), By("x", "bob"))
    question = question.updated(msgspec.structs.replace(question.request, answered=(told,)))
    assert "Which database? → sqlite (by bob)" in text(question)
    assert "? Which days? (2 of 3)" in text(question)


def test_a_secret_is_in_no_line_and_no_field() -> None:
    question: Any = Secret(asked("secret", prompt="The password of sudo", name="SUDO_PASSWORD"))
    assert question.wants == "hidden"
    question, answer = question.enter("hunter2 ")
    assert answer == Answer(value="hunter2 ")
    assert "hunter2" not in repr(question) + text(question)
    assert Secret(question.request).enter("")[1] == Answer(decline=True)


def test_a_form_is_filled_in_field_by_field_and_sent_whole() -> None:
    question: Any = Form(asked("form", prompt="Where?", form_schema=SCHEMA))
    assert "port (1 of 3)" in text(question)
    question, answer = question.enter("zero")
    assert "port: expected a whole number, got 'zero'" in text(question)
    question, answer = question.enter("8080")
    question, answer = question.enter("")
    assert "host: left out" in text(question)
    question = question.back()
    assert "host (2 of 3)" in text(question)
    question, answer = question.enter("example.org")
    assert answer is None
    question, answer = question.enter("y")
    assert answer == Answer(values={"port": 8080, "host": "example.org", "tls": True})
    assert question.wants == "nothing"


def test_a_form_that_the_daemon_refuses_is_asked_again_from_the_field_it_names() -> None:
    question: Any = Form(asked("form", form_schema=SCHEMA))
    for line in ("8080", "h", "n"):
        question, _ = question.enter(line)
    again = question.refused("$.answer.values.host: expected a name of this network")
    assert (again.place, again.values) == (1, {"port": 8080})
    assert "expected a name of this network" in text(again)
    assert question.refused("no").place == 0


def test_a_form_without_fields_is_sent_with_enter() -> None:
    question: Any = Form(asked("form", prompt="Go on?", form_schema={"type": "object"}))
    assert question.wants == "line"
    question, answer = question.enter("")
    assert answer == Answer(values={})
    assert question.wants == "nothing"


# --- in a chat --------------------------------------------------------------------------------------------------------


def open_question(daemon: FakeDaemon, kind: e.RequestKind, **fields: Any) -> str:
    daemon.journal.start_turn("go")
    request_id = daemon.journal.ask_people(kind, **fields)
    daemon.flush()
    return request_id


def test_two_people_answer_different_questions_of_one_request() -> None:
    async def run() -> None:
        async with (
            fake_daemon() as daemon,
            chatting(daemon, "desk") as (mine, my_face),
            chatting(daemon, "laptop") as (theirs, their_face),
        ):
            open_question(daemon, "clarify", questions=QUESTIONS)
            await my_face.until(lambda: mine.asking.question)
            await their_face.until(lambda: theirs.asking.question)
            mine.asking.enter("2")
            await their_face.shows("Which database? → sqlite by desk")
            theirs.asking.enter("tue")
            await my_face.shows("Which days? → tue by laptop")
            mine.asking.enter("because")
            await their_face.shows("3 questions: answered by desk")
            assert theirs.asking.question is None
            assert mine.asking.question is None

    asyncio.run(run())


def test_skip_and_decline_are_commands() -> None:
    async def run() -> None:
        async with daemon_and_chat() as (daemon, chat, face):
            await commands.run(chat, "/skip")
            assert "nothing to leave out" in face.text
            open_question(daemon, "clarify", questions=QUESTIONS)
            await face.until(lambda: chat.asking.question)
            await commands.run(chat, "/skip")
            await face.shows("Which database? skipped by you")
            await commands.run(chat, "/decline")
            assert chat.asking.question is None
            await face.shows("declined by you")
            await commands.run(chat, "/decline")
            assert "no question is open" in face.text

    asyncio.run(run())


def test_an_answer_the_daemon_refuses_is_asked_for_again_with_its_words() -> None:
    async def run() -> None:
        async with daemon_and_chat() as (daemon, chat, face):
            daemon.refuse["hermes/request/answer"] = [ProtocolError("invalid_params", "$.answer.value: too short")]
            open_question(daemon, "secret", prompt="The token", name="TOKEN")
            await face.until(lambda: chat.asking.question)
            chat.asking.enter("x")
            await face.until(lambda: any("too short" in line for line in chat.live(20)))
            chat.asking.enter("long enough")
            await face.shows("The token: answered by you")
            assert "long enough" not in face.text

    asyncio.run(run())


def test_the_question_is_seen_once_and_its_clock_is_shown_while_it_runs() -> None:
    async def run() -> None:
        async with daemon_and_chat() as (daemon, chat, face):
            request_id = open_question(daemon, "clarify", questions=QUESTIONS)
            assert (await daemon.asked("hermes/request/seen"))["requestId"] == request_id
            daemon.journal.clock(request_id, True, 272_900)
            daemon.flush()
            await face.until(lambda: chat.asking.remaining() is not None)
            assert any("4:32 left" in line or "4:31 left" in line for line in chat.live(20))
            daemon.journal.clock(request_id, False, 100_000)
            daemon.flush()
            await face.until(lambda: chat.asking.remaining() is None)
            assert not any("left to answer" in line for line in chat.live(20))

    asyncio.run(run())


def test_the_time_left_goes_down_with_the_clock_and_not_below_nothing() -> None:
    async def run() -> None:
        async with daemon_and_chat() as (daemon, chat, face):
            moment = [100.0]
            asking = Asking(PAINTER, chat.start, lambda: moment[0])
            asking.show(face, chat.session)
            request_id = open_question(daemon, "secret", name="TOKEN")
            daemon.journal.clock(request_id, True, 61_000)
            daemon.flush()
            await face.until(lambda: chat.view.requests and chat.view.requests[0].running)
            asking.look(chat.view)
            assert asking.remaining() == 61.0
            moment[0] = 130.0
            assert asking.remaining() == 31.0
            moment[0] = 500.0
            assert asking.remaining() == 0.0

    asyncio.run(run())


def test_durations_are_spelled() -> None:
    assert [spell(s) for s in (9.9, 59, 60, 272, 3725)] == ["9 s", "59 s", "1:00", "4:32", "1:02:05"]


def test_a_kind_that_people_cannot_answer_is_not_asked() -> None:
    async def run() -> None:
        async with daemon_and_chat() as (daemon, chat, face):
            open_question(daemon, "clientTool", name="add", args="{}")
            await face.until(lambda: chat.view.requests)
            assert chat.asking.question is None

    asyncio.run(run())


def test_what_the_daemon_says_beside_the_session_is_shown() -> None:
    async def run() -> None:
        async with daemon_and_chat() as (daemon, _, face):
            peer = daemon.peers[0]
            peer.note("window/logMessage", {"type": 2, "message": "the disk is nearly full"})
            peer.note("window/logMessage", {"type": 4, "message": "for the log only"})
            peer.note("hermes/lag", {"sessionId": "s1", "detail": "final"})
            peer.note("hermes/lag", {"sessionId": "s1", "detail": "full"})
            peer.note("hermes/lag", {"sessionId": "another", "detail": "final"})
            peer.note("hermes/desync", {"sessionId": "s1", "lastSeq": 1, "reason": "lag"})
            await face.shows("fell behind")
            assert "daemon: the disk is nearly full" in face.text
            assert "for the log only" not in face.text
            assert face.text.count("answers appear whole") == 1
            assert "word by word again" in face.text

    asyncio.run(run())
