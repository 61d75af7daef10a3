"""Every kind of question over the wire (protocol section 8): clarify, secret and form, their clocks and their ends."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes_daemon.core.ports import Answered, Ask, ToolContext, ToolOutcome
from hermes_daemon.engine.mailbox import digest
from hermes_protocol.events import Question
from hermes_protocol.methods import AnswerParams
from tests.support.live import Live, Peer, TestTool, live
from tests.support.loops import SkippingLoop, run
from tests.support.shared_data import case

KINDS = {"requests": ["permission", "clarify", "secret", "form"], "maxLatencyMs": 0}
ASKING = "scripted/tool?name=ask"
WRITING = 'scripted/tool?name=write&args={"text":"x"}'
FORM = {"type": "object", "properties": {"port": {"type": "integer"}}, "required": ["port"]}
CLARIFY = Ask("clarify", (Question("a", "Which?", ("x", "y")), Question("b", "Why?"), Question("c", "When?")))


class Asking:
    """A read-only tool `ask` that asks this, and what it was answered."""

    def __init__(self, request: Ask) -> None:
        self.request = request
        self.answers: list[Answered] = []
        self.tool = TestTool("ask", self._run, read_only=True)

    async def _run(self, args: dict[str, Any], ctx: ToolContext) -> ToolOutcome:
        answered = await ctx.ask(self.request)
        self.answers.append(answered)
        ctx.progress(f"got {answered.value}\n")
        return ToolOutcome(f"{answered.outcome} {answered.value} {answered.values}")


async def write(args: dict[str, Any], ctx: ToolContext) -> ToolOutcome:
    return ToolOutcome("done")


def writing() -> list[TestTool]:
    return [TestTool("write", write)]


async def able(daemon: Live, name: str = "able", **capabilities: Any) -> Peer:
    return await daemon.peer(name, capabilities=KINDS | capabilities)


async def opened(peer: Peer, session: str) -> str:
    await peer.submit(session, "go")
    request: str = (await peer.event("request.opened"))["data"]["requestId"]
    return request


async def joined(daemon: Live, session: str, name: str, **capabilities: Any) -> Peer:
    peer = await able(daemon, name, **capabilities)
    await peer.request("hermes/session/subscribe", {"sessionId": session})
    return peer


def answers(request_id: str, **given: Any) -> dict[str, Any]:
    return {"requestId": request_id, "answer": {"answers": given}}


def events(peer: Peer, *kinds: str) -> list[dict[str, Any]]:
    told = [frame["params"] for frame in peer.order if frame.get("method") == "hermes/event"]
    return [event for event in told if event["kind"] in kinds]


# --- clarify ---


def test_two_clients_answer_the_questions_of_one_request_and_the_first_of_each_counts(tmp_path: Path) -> None:
    asking = Asking(CLARIFY)

    async def story() -> None:
        async with live(str(tmp_path), tools=[asking.tool]) as daemon:
            ann = await able(daemon, "ann")
            session = await ann.session(str(tmp_path), model=ASKING)
            bob = await joined(daemon, session, "bob")
            request = await opened(ann, session)
            first = await ann.request("hermes/request/answer", answers(request, a={"choice": "x"}))
            assert (first["outcome"], "late" in first) == ("open", False)
            assert (await bob.event("request.answered"))["data"]["answer"] == {"choice": "x"}
            both = answers(request, a={"choice": "y"}, b={"text": "because"})
            second = await bob.request("hermes/request/answer", both)
            assert (second["outcome"], second["late"]) == ("open", ["a"])
            error = await bob.refused("hermes/request/answer", answers(request, a={"choice": "y"}))
            assert (error["code"], error["data"]["by"]["name"]) == (-32046, "ann")
            late = await able(daemon, "late")
            snapshot = (await late.request("hermes/session/subscribe", {"sessionId": session}))["snapshot"]
            rows = {row["id"]: row for row in snapshot["openRequests"][0]["answered"]}
            assert {name: row["by"]["name"] for name, row in rows.items()} == {"a": "ann", "b": "bob"}
            listed = (await late.request("hermes/request/list"))["requests"][0]["answered"]
            assert listed == snapshot["openRequests"][0]["answered"]
            last = await late.request("hermes/request/answer", answers(request, c={"skip": True}))
            assert last["outcome"] == "answered"
            resolved = await ann.event("request.resolved")
            assert (resolved["seq"], resolved["data"]["by"]["name"]) == (last["seq"], "late")
            await ann.event("turn.ended")
            told = [(event["data"]["questionId"], event["data"]["status"]) for event in events(ann, "request.answered")]
            assert told == [("a", "answered"), ("b", "answered"), ("c", "skipped")]
            (given,) = asking.answers
            assert [(one.id, one.status) for one in given.answers] == told

    run(story())


def test_a_time_out_keeps_what_was_answered(tmp_path: Path) -> None:
    asking = Asking(CLARIFY)
    loop = SkippingLoop()

    async def story() -> None:
        async with live(str(tmp_path), tools=[asking.tool]) as daemon:
            peer = await able(daemon)
            session = await peer.session(str(tmp_path), model=ASKING)
            request = await opened(peer, session)
            assert (await peer.event("request.clock"))["data"]["running"] is True
            await peer.request("hermes/request/answer", answers(request, b={"text": "so"}))
            loop.skip(301)
            resolved = await peer.event("request.resolved")
            assert resolved["data"]["outcome"] == "timeout"
            told = {event["data"]["questionId"]: event["data"]["status"] for event in events(peer, "request.answered")}
            assert told == {"a": "timed_out", "b": "answered", "c": "timed_out"}
            await peer.event("turn.ended")
            assert {one.id: one.status for one in asking.answers[0].answers} == told
            error = await peer.refused("hermes/request/answer", answers(request, a={"choice": "x"}))
            assert (error["code"], error["data"]["outcome"]) == (-32046, "timeout")
            assert "nobody answered it in time" in error["message"]

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(story())


# --- secrets and forms ---


def test_a_secret_reaches_the_waiting_tool_and_nothing_else(tmp_path: Path) -> None:
    secret = "hunter-two-five-nine"
    asking = Asking(Ask("secret", prompt="The password?", name="SUDO_PASSWORD"))

    async def story() -> None:
        async with live(str(tmp_path), tools=[asking.tool]) as daemon:
            ann = await able(daemon, "ann")
            session = await ann.session(str(tmp_path), model=ASKING)
            bob = await joined(daemon, session, "bob")
            await ann.submit(session, "go")
            asked = (await ann.event("request.opened"))["data"]
            assert (asked["kind"], asked["name"]) == ("secret", "SUDO_PASSWORD")
            given = {"requestId": asked["requestId"], "answer": {"value": secret}, "key": "once"}
            first = await ann.request("hermes/request/answer", given)
            await bob.event("turn.ended")
            assert await ann.request("hermes/request/answer", given) == first
            resolved = events(bob, "request.resolved")[0]["data"]
            assert (resolved["outcome"], resolved["value"]) == ("answered", "provided")
            assert [one.value for one in asking.answers] == [secret]
            for peer in (ann, bob):
                await peer.request("hermes/session/items", {"sessionId": session})
                assert secret.encode() not in msgspec.json.encode(peer.order)
            assert b"[secret]" in msgspec.json.encode(bob.order)

    run(story())
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.name == "state.db" for path in kept)
    for path in kept:
        assert secret.encode() not in path.read_bytes(), path


def test_a_form_is_taken_when_it_fits_its_schema_and_stays_open_when_not(tmp_path: Path) -> None:
    asking = Asking(Ask("form", prompt="Where?", schema=FORM))

    async def story() -> None:
        async with live(str(tmp_path), tools=[asking.tool]) as daemon:
            peer = await able(daemon)
            session = await peer.session(str(tmp_path), model=ASKING)
            await peer.submit(session, "go")
            asked = (await peer.event("request.opened"))["data"]
            assert asked["schema"] == FORM
            wrong = {"requestId": asked["requestId"], "answer": {"values": {"port": "x"}}, "key": "k"}
            error = await peer.refused("hermes/request/answer", wrong)
            assert (error["code"], error["data"]["path"]) == (-32602, "$.answer.values.port")
            right = {"requestId": asked["requestId"], "answer": {"values": {"port": 80}}, "key": "k"}
            assert (await peer.request("hermes/request/answer", right))["outcome"] == "answered"
            await peer.event("turn.ended")
            assert asking.answers[0].values == {"port": 80}

    run(story())


def test_a_tool_that_asks_for_what_cannot_be_asked_fails_its_call(tmp_path: Path) -> None:
    asking = Asking(Ask("form", schema={"type": "object", "properties": {"a": {"type": "object"}}}))

    async def story() -> None:
        async with live(str(tmp_path), tools=[asking.tool]) as daemon:
            peer = await able(daemon)
            session = await peer.session(str(tmp_path), model=ASKING)
            await peer.say(session, "go")
            page = await peer.request("hermes/session/items", {"sessionId": session})
            assert "$.schema.properties.a" in page["items"][1]["error"]
            assert not events(peer, "request.opened")

    run(story())


def test_while_people_are_asked_the_session_waits(tmp_path: Path) -> None:
    asking = Asking(Ask("secret", prompt="?", name="n"))

    async def story() -> None:
        async with live(str(tmp_path), tools=[asking.tool]) as daemon:
            peer = await able(daemon)
            session = await peer.session(str(tmp_path), model=ASKING)
            request = await opened(peer, session)
            assert (await peer.request("hermes/session/get", {"sessionId": session}))["state"] == "waiting"
            status = await peer.request("hermes/daemon/status")
            assert status["openRequests"] == 1
            await peer.request("hermes/request/answer", {"requestId": request, "answer": {"value": "v"}})
            await peer.event("turn.ended")

    run(story())


def test_the_time_people_take_is_not_the_tools(tmp_path: Path) -> None:
    asking = Asking(Ask("secret", prompt="?", name="n"))

    async def story() -> None:
        async with live(str(tmp_path), tools=[asking.tool]) as daemon:
            peer = await able(daemon)
            session = await peer.session(str(tmp_path), model=ASKING)
            began = time.monotonic()
            request = await opened(peer, session)
            asked = time.monotonic()
            for _ in range(300):
                await peer.request("hermes/daemon/ping")
            held = time.monotonic() - asked
            await peer.request("hermes/request/answer", {"requestId": request, "answer": {"value": "v"}})
            await peer.event("turn.ended")
            whole = time.monotonic() - began
            page = await peer.request("hermes/session/items", {"sessionId": session})
            assert page["items"][1]["durationMs"] <= (whole - held) * 1000 + 1

    run(story())


def test_a_tool_that_fails_with_the_secret_in_its_words_does_not_tell_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    secret = "hunter-two-five-nine"

    async def login(args: dict[str, Any], ctx: ToolContext) -> ToolOutcome:
        answered = await ctx.ask(Ask("secret", prompt="?", name="n"))
        raise RuntimeError(f"login with {answered.value} failed")

    async def story() -> None:
        async with live(str(tmp_path), tools=[TestTool("ask", login, read_only=True)]) as daemon:
            peer = await able(daemon)
            session = await peer.session(str(tmp_path), model=ASKING)
            request = await opened(peer, session)
            given = {"requestId": request, "answer": {"value": secret}, "key": "k"}
            await peer.request("hermes/request/answer", given)
            await peer.event("turn.ended")
            page = await peer.request("hermes/session/items", {"sessionId": session})
            assert "login with [secret] failed" in page["items"][1]["error"]
            receipt = daemon.room.parts.store.receipt(f"request:{request}", "hermes/request/answer", "k")
            assert receipt is not None
            assert receipt.body != digest(msgspec.convert(given, AnswerParams)), "a short secret is guessed from a hash"

    caplog.set_level("DEBUG")
    run(story())
    assert "tool ask failed" in caplog.text
    assert secret not in caplog.text
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or not path.is_file() or secret.encode() not in path.read_bytes(), path


def test_lists_of_sessions_are_told_when_a_question_opens_and_when_it_ends(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path), tools=writing()) as daemon:
            lister = await daemon.peer("lister", capabilities={"events": {"sessions": True}})
            peer = await able(daemon)
            session = await peer.session(str(tmp_path), model=WRITING)
            request = await opened(peer, session)
            while (await lister.note("hermes/session/changed"))["summary"].get("openRequests", 0) != 1:
                pass
            await peer.request("hermes/request/answer", {"requestId": request, "answer": {"optionId": "allow_once"}})
            while (await lister.note("hermes/session/changed"))["summary"].get("openRequests", 0) != 0:
                pass

    run(story())


# --- who is there ---


def test_a_client_that_tells_what_it_shows_starts_the_clock_by_saying_seen(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path), tools=writing()) as daemon:
            peer = await able(daemon, seen=True)
            session = await peer.session(str(tmp_path), model=WRITING)
            request = await opened(peer, session)
            await peer.request("hermes/daemon/ping")
            (row,) = (await peer.request("hermes/request/list"))["requests"]
            assert (row.get("running", False), row["remainingMs"]) == (False, 300_000)
            peer.send({"jsonrpc": "2.0", "method": "hermes/request/seen", "params": {"requestId": request}})
            assert (await peer.event("request.seen"))["data"]["by"]["name"] == "able"
            assert (await peer.event("request.clock"))["data"]["running"] is True

    run(story())


def test_who_has_once_said_seen_is_waited_for_from_then_on(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path), tools=writing()) as daemon:
            peer = await able(daemon)
            session = await peer.session(str(tmp_path), model=WRITING)
            request = await opened(peer, session)
            assert (await peer.event("request.clock"))["data"]["running"] is True
            peer.send({"jsonrpc": "2.0", "method": "hermes/request/seen", "params": {"requestId": request}})
            await peer.event("request.seen")
            await peer.request("hermes/request/answer", {"requestId": request, "answer": {"optionId": "allow_once"}})
            await peer.event("turn.ended")
            request = await opened(peer, session)
            await peer.request("hermes/daemon/ping")
            (row,) = (await peer.request("hermes/request/list"))["requests"]
            assert not row.get("running")
            second = await joined(daemon, session, "second")  # it says nothing of what it shows: sent is enough
            assert (await second.event("request.clock"))["data"]["running"] is True

    run(story())


def test_the_clock_does_not_start_before_the_question_has_left_for_a_client_that_does_not_read(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path), tools=writing()) as daemon:
            watcher = await daemon.peer("watcher", capabilities={"requests": []})
            session = await watcher.session(str(tmp_path))
            deaf = await daemon.peer("deaf", capabilities=KINDS, small_buffer=True)
            await deaf.request("hermes/session/subscribe", {"sessionId": session})
            await watcher.say(session, "x" * 700_000)  # more than its socket holds, less than it is desynced for
            change = {"sessionId": session, "id": "model", "value": WRITING}
            await watcher.request("hermes/session/setOption", change)
            await opened(watcher, session)
            await watcher.request("hermes/daemon/ping")
            (row,) = (await watcher.request("hermes/request/list"))["requests"]
            assert not row.get("running")
            await deaf.event("request.opened")
            assert (await watcher.event("request.clock"))["data"]["running"] is True

    run(story())


def test_subscribing_again_is_not_leaving(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path), tools=writing()) as daemon:
            peer = await able(daemon)
            session = await peer.session(str(tmp_path), model=WRITING, options={"unattended": "deny"})
            request = await opened(peer, session)
            await peer.event("request.clock")
            await peer.request("hermes/session/subscribe", {"sessionId": session})
            await peer.request("hermes/request/answer", {"requestId": request, "answer": {"optionId": "allow_once"}})
            assert (await peer.event("turn.ended"))["data"]["status"] == "completed"
            assert len(events(peer, "request.clock")) == 1

    run(story())


def test_an_observer_is_no_audience_and_may_not_answer(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path), tools=writing()) as daemon:
            owner = await daemon.peer("owner", capabilities={"requests": []})
            session = await owner.session(str(tmp_path), model=WRITING)
            observer = await daemon.peer("o", client={"id": "o", "name": "o", "role": "observer"}, capabilities=KINDS)
            await observer.request("hermes/session/subscribe", {"sessionId": session})
            request = await opened(owner, session)
            given = {"requestId": request, "answer": {"optionId": "allow_once"}}
            error = await observer.refused("hermes/request/answer", given)
            assert error["data"]["kind"] == "permission_denied"
            (row,) = (await owner.request("hermes/request/list", {"sessionId": session}))["requests"]
            assert not row.get("running")
            await owner.request("hermes/request/answer", given)
            assert (await owner.event("turn.ended"))["data"]["status"] == "completed"

    run(story())


# --- when nobody is there ---


@pytest.mark.parametrize("kind", ["permission", "clarify", "secret", "form"])
def test_an_unattended_session_that_denies_hangs_on_no_kind_of_question(tmp_path: Path, kind: str) -> None:
    requests = {
        "clarify": CLARIFY,
        "secret": Ask("secret", prompt="?", name="n"),
        "form": Ask("form", prompt="?", schema=FORM),
    }
    asking = Asking(requests.get(kind, CLARIFY))

    async def story() -> None:
        async with live(str(tmp_path), tools=[asking.tool, *writing()]) as daemon:
            peer = await daemon.peer(capabilities={"requests": []})
            model = WRITING if kind == "permission" else ASKING
            session = await peer.session(str(tmp_path), model=model, options={"unattended": "deny"})
            await peer.say(session, "go")
            assert [event["data"]["outcome"] for event in events(peer, "request.resolved")] == ["policy"]
            assert [one.outcome for one in asking.answers] == ([] if kind == "permission" else ["policy"])

    run(story())


def test_only_a_rule_by_name_allows_while_nobody_is_there(tmp_path: Path) -> None:
    config = 'approvals:\n  unattended:\n    nightly: ["write"]\n    strict: ["other"]\n'

    async def story() -> None:
        async with live(str(tmp_path), tools=writing(), config=config) as daemon:
            peer = await daemon.peer(capabilities={"requests": []})
            outcomes = {}
            for rule in ("nightly", "strict", "deny"):
                session = await peer.session(str(tmp_path), model=WRITING, options={"unattended": rule})
                await peer.say(session, "go")
                outcomes[rule] = events(peer, "request.resolved")[-1]["data"]
            assert {rule: data["outcome"] for rule, data in outcomes.items()} == {
                "nightly": "allow_once",
                "strict": "policy",
                "deny": "policy",
            }
            assert outcomes["nightly"]["by"] == {"clientId": "", "name": "the rule nightly", "via": "policy"}
            unknown = {"cwd": str(tmp_path), "options": {"unattended": "nightly2"}}
            error = await peer.refused("hermes/session/create", unknown)
            assert (error["code"], error["data"]["path"]) == (-32602, "$.options.unattended")
            assert "wait, deny, nightly, strict" in error["message"]
            change = {"sessionId": session, "id": "unattended", "value": "maybe"}
            assert (await peer.refused("hermes/session/setOption", change))["data"]["path"] == "$.value"

    run(story())


def test_a_session_that_becomes_unattended_by_option_lets_go_of_what_is_open(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path), tools=writing()) as daemon:
            peer = await daemon.peer(capabilities={"requests": []})
            session = await peer.session(str(tmp_path), model=WRITING)
            await opened(peer, session)
            change = {"sessionId": session, "id": "unattended", "value": "deny"}
            await peer.request("hermes/session/setOption", change)
            assert (await peer.event("request.resolved"))["data"]["outcome"] == "policy"

    run(story())


@pytest.mark.parametrize("kind", ["permission", "clarify"])
def test_when_all_who_are_left_have_declined_nobody_is_waited_for(tmp_path: Path, kind: str) -> None:
    asking = Asking(CLARIFY)

    async def story() -> None:
        async with live(str(tmp_path), tools=[asking.tool, *writing()]) as daemon:
            one = await able(daemon, "one")
            session = await one.session(str(tmp_path), model=WRITING if kind == "permission" else ASKING)
            two = await joined(daemon, session, "two")
            request = await opened(one, session)
            decline = {"requestId": request, "answer": {"decline": True}, "key": "no"}
            first = await one.request("hermes/request/answer", decline)
            assert first["outcome"] == "declined"
            assert await one.request("hermes/request/answer", decline) == first
            two.close()
            assert (await one.event("request.resolved"))["data"]["outcome"] == "policy"
            await one.event("turn.ended")

    run(story())


# --- handed cases ---


def test_a_question_ends_with_the_daemon_and_answering_it_later_runs_nothing(tmp_path: Path) -> None:
    case("approvals", "approval-fossils")
    ran: list[str] = []

    async def dangerous(args: dict[str, Any], ctx: ToolContext) -> ToolOutcome:
        ran.append(args["text"])
        return ToolOutcome("done")

    async def story() -> None:
        home = str(tmp_path)
        async with live(home, tools=[TestTool("write", dangerous)]) as daemon:
            peer = await able(daemon)
            session = await peer.session(home, model=WRITING)
            first = await opened(peer, session)
            await peer.request("hermes/turn/interrupt", {"sessionId": session})
            await peer.event("turn.ended")
            assert (await peer.request("hermes/request/list"))["requests"] == []
            second = await opened(peer, session)
            store = daemon.room.parts.store
            (open_row,) = store.open_requests()
            await _crash(daemon)
        async with live(home, tools=[TestTool("write", dangerous)]) as daemon:
            peer = await able(daemon)
            result = await peer.request("hermes/session/subscribe", {"sessionId": session})
            assert result["snapshot"]["openRequests"] == []
            assert result["snapshot"]["summary"].get("openRequests", 0) == 0
            assert (await peer.request("hermes/daemon/status"))["openRequests"] == 0
            given = {"requestId": second, "answer": {"optionId": "allow_once"}}
            error = await peer.refused("hermes/request/answer", given)
            assert (error["code"], error["data"]["outcome"]) == (-32046, "lost")
            error = await peer.refused("hermes/request/answer", given | {"requestId": first})
            assert error["data"]["kind"] == "request_not_found"  # of a life before
            assert open_row.request.request_id == second
        assert ran == []

    run(story())


async def _crash(daemon: Live) -> None:
    """The store takes nothing any more, as after a kill: what is open stays open for the next start."""
    await daemon.room.parts.store.close()


def test_an_answer_that_comes_too_late_says_why_and_harms_nothing(tmp_path: Path) -> None:
    case("approvals", "approval-late-answer")
    loop = SkippingLoop()

    async def story() -> None:
        async with live(str(tmp_path), tools=writing()) as daemon:
            one = await able(daemon, "one")
            session = await one.session(str(tmp_path), model=WRITING)
            two = await joined(daemon, session, "two")
            told = []
            for end in ("answer", "timeout", "interrupt"):
                request = await opened(one, session)
                await one.event("request.clock")
                given = {"requestId": request, "answer": {"optionId": "allow_once"}}
                if end == "answer":
                    await two.request("hermes/request/answer", given)
                elif end == "timeout":
                    loop.skip(301)
                else:
                    await one.request("hermes/turn/interrupt", {"sessionId": session})
                for peer in (one, two):
                    assert (await peer.event("request.resolved"))["data"]["requestId"] == request
                await one.event("turn.ended")
                told.append(await one.refused("hermes/request/answer", given))
            assert [error["code"] for error in told] == [-32046] * 3
            assert [error["data"]["outcome"] for error in told] == ["allow_once", "timeout", "interrupted"]
            assert "two already answered" in told[0]["message"]
            assert "in time" in told[1]["message"]
            assert "interrupted" in told[2]["message"]
            await one.request(
                "hermes/session/setOption", {"sessionId": session, "id": "model", "value": "scripted/echo"}
            )
            assert (await one.say(session, "and on"))["data"]["status"] == "completed"

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(story())


def test_an_answer_with_its_key_is_known_after_a_restart(tmp_path: Path) -> None:
    async def story() -> None:
        home = str(tmp_path)
        async with live(home, tools=writing()) as daemon:
            peer = await able(daemon)
            session = await peer.session(home, model=WRITING)
            request = await opened(peer, session)
            given = {"requestId": request, "answer": {"optionId": "allow_once"}, "key": "k"}
            first = await peer.request("hermes/request/answer", given)
            await peer.event("turn.ended")
        async with live(home, tools=writing()) as daemon:
            peer = await able(daemon)
            assert await peer.request("hermes/request/answer", given) == first
            other = given | {"answer": {"optionId": "deny"}}
            assert (await peer.refused("hermes/request/answer", other))["code"] == -32047

    run(story())
