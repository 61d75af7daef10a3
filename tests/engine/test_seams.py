"""What hosts promise to plugins: the seams S3, S4, S5, S6, S13, S18, S19 and S21, and T8 to T10 of sessions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes_daemon.core.ports import Chunk, Reply, Request, TextDelta, ToolContext, ToolOutcome
from hermes_daemon.engine.host import EngineHost
from hermes_daemon.middleware.directives import Directive
from hermes_daemon.middleware.payloads import Operation, PointContext, ToolDone
from hermes_daemon.middleware.registry import Registry
from hermes_daemon.middleware.styles import ExecutionBlocked
from hermes_protocol.content import Message, TextPart, Usage
from tests.support.live import Live, Peer, TestTool
from tests.support.middleware_talk import WRITE, answered, fact, items, tell


class Spy:
    """A tool that tells what it was called with."""

    def __init__(self, read_only: bool = True) -> None:
        self.calls: list[dict[str, Any]] = []
        self.tool = TestTool("write", self.run, read_only=read_only)

    async def run(self, args: dict[str, Any], ctx: ToolContext) -> ToolOutcome:
        self.calls.append(args)
        return ToolOutcome(f"wrote {args['text']}")


def deciding(*wishes: Directive | Exception) -> Registry:
    registry = Registry()
    for index, wish in enumerate(wishes):

        def link(operation: Operation, _: Any, wish: Any = wish) -> Any:
            if isinstance(wish, Exception):
                raise wish
            return wish

        registry.use("pre_tool_call", link, owner=f"p{index}")
    return registry


# --- S3: directives ---------------------------------------------------------------------------------------------------


def test_a_block_wins_over_an_earlier_approve_and_each_wish_has_a_receipt(tmp_path: Path) -> None:
    """S3: block, approve, none, in this order of strength, whatever the order of asking."""
    spy = Spy()
    registry = deciding(Directive("approve", "sure?", id="d1"), Directive("block", "not today", id="d2"))

    async def story(daemon: Live, peer: Peer) -> None:
        session = await peer.session("/", model=WRITE)
        await peer.say(session, "go")
        [item] = await items(peer, session, "toolCall")
        assert item["error"] == "Blocked by policy: not today"
        receipts = [await fact(peer, "directive") for _ in range(2)]
        assert [(row["directiveId"], row["delivered"]) for row in receipts] == [("d1", False), ("d2", True)]

    tell(tmp_path, registry, story, tools=[spy.tool])
    assert spy.calls == []


def test_the_modified_call_is_what_people_are_asked_for(tmp_path: Path) -> None:
    """S3: changes are merged, the later key wins, and the approval shows the merged call and the plugin's reason."""
    spy = Spy()
    wishes = Directive("modify", fields={"text": "a"}), Directive("modify", fields={"text": "b"})
    registry = deciding(*wishes, Directive("approve", "it is Friday", rule_key="friday"))

    async def story(daemon: Live, peer: Peer) -> None:
        session = await peer.session("/", model=WRITE)
        await peer.submit(session, "go")
        asked = await answered(peer, "allow_session")
        assert (asked["toolCall"]["args"], asked["reason"]) == ('{"text":"b"}', "it is Friday")
        await peer.event("turn.ended")
        await peer.say(session, "again")  # the consent holds for the plugin's own key

    tell(tmp_path, registry, story, tools=[spy.tool])
    assert spy.calls == [{"text": "b"}, {"text": "b"}]


def test_a_plugin_that_wants_people_gets_nobody_elses_word(tmp_path: Path) -> None:
    """S3: neither mode off nor a rule for unattended sessions allows what a plugin wants people to see."""
    spy = Spy(read_only=False)
    config = "approvals: {mode: 'off', unattended: {ci: [write]}}\n"

    async def story(daemon: Live, peer: Peer) -> None:
        other = await daemon.peer("mute", capabilities={"requests": [], "maxLatencyMs": 0})
        session = await other.session("/", model=WRITE, options={"unattended": "ci"})
        await other.say(session, "go")
        [item] = await items(other, session, "toolCall")
        assert item["error"].startswith("Nobody is there who could allow this")

    tell(tmp_path, deciding(Directive("approve", "look")), story, tools=[spy.tool], config=config)
    assert spy.calls == []


@pytest.mark.parametrize("answer", [True, 1, None, "raises"])
def test_the_final_arguments_are_confirmed_after_consent(tmp_path: Path, answer: Any) -> None:
    """S3: `revalidate` must give exactly True, else the call is refused."""
    spy, seen = Spy(), list[Any]()

    def revalidate(args: dict[str, Any]) -> Any:
        seen.append(args)
        if answer == "raises":
            raise ValueError("gone")
        return answer

    async def story(daemon: Live, peer: Peer) -> None:
        session = await peer.session("/", model=WRITE)
        await peer.submit(session, "go")
        await answered(peer)
        await peer.event("turn.ended")

    tell(tmp_path, deciding(Directive("approve", "ok?", revalidate=revalidate)), story, tools=[spy.tool])
    assert seen == [{"text": "x"}]
    assert spy.calls == ([{"text": "x"}] if answer is True else [])


def test_a_policy_that_fails_blocks(tmp_path: Path) -> None:
    """S3: pre_tool_call fails closed."""
    spy = Spy()

    async def story(daemon: Live, peer: Peer) -> None:
        session = await peer.session("/", model=WRITE)
        await peer.say(session, "go")
        [item] = await items(peer, session, "toolCall")
        assert "p0 could not decide: broken" in item["error"]

    tell(tmp_path, deciding(ValueError("broken")), story, tools=[spy.tool])
    assert spy.calls == []


# --- S4: post_tool_call_settled ---------------------------------------------------------------------------------------


class Ledger:
    """Who was told of which call."""

    def __init__(self) -> None:
        self.trail: list[tuple[str, str, str]] = []
        self.registry = Registry()
        self.registry.use("post_tool_call", self.post, owner="ledger")
        self.registry.use("post_tool_call_settled", self.settled, owner="ledger")

    async def post(self, done: ToolDone, context: PointContext) -> None:
        assert context.tool_call_id == done.tool_call_id != ""
        self.trail.append(("post", done.status, done.error_type))

    async def settled(self, done: Any, _: Any) -> None:
        self.trail.append(("settled", done.status, done.tool_name))


@pytest.mark.parametrize(
    ("model", "status", "why"),
    [
        (WRITE, "ok", ""),
        ("scripted/tool?name=fails", "error", "tool_error"),
        ("scripted/tool?name=raises", "error", "ZeroDivisionError"),
        ("scripted/tool?name=nothing", "blocked", "unknown_tool"),
        ("scripted/tool?name=off", "blocked", "tool_denied"),
        ("scripted/tool?name=write&args=[1]", "blocked", "invalid_arguments"),
        ('scripted/tool?name=write&args={"text":1,"more":2}', "blocked", "validation_failed"),
        ("scripted/tool?name=never", "blocked", "permission_denied"),
    ],
)
def test_every_call_is_told_once_and_settled_once(tmp_path: Path, model: str, status: str, why: str) -> None:
    """S4: also a call that failed or never ran, with the word for why."""

    async def fails(args: dict[str, Any], ctx: ToolContext) -> ToolOutcome:
        return ToolOutcome("no luck", is_error=True)

    async def raises(args: dict[str, Any], ctx: ToolContext) -> ToolOutcome:
        raise ZeroDivisionError

    ledger, spy = Ledger(), Spy()
    tools = [spy.tool, *(TestTool(name, run, read_only=True) for name, run in
                         (("fails", fails), ("raises", raises), ("off", fails), ("never", fails)))]  # fmt: skip

    async def story(daemon: Live, peer: Peer) -> None:
        await peer.say(await peer.session("/", model=model), "go")

    config = "tools: {disabled: ['off']}\napprovals: {deny: [never]}\n"
    tell(tmp_path, ledger.registry, story, tools=tools, config=config)
    name = model.partition("name=")[2].partition("&")[0]
    assert ledger.trail == [("post", status, why), ("settled", status, name)]


@pytest.mark.parametrize("reason", ["guardrail_blocked", "execution_denied"])
def test_a_veto_is_told_and_settled(tmp_path: Path, reason: str) -> None:
    """S4: what middleware stopped."""
    ledger, spy = Ledger(), Spy()
    if reason == "guardrail_blocked":
        ledger.registry.use("pre_tool_call", lambda *_: Directive("block", "no"), owner="veto")
    else:

        async def veto(*_: Any) -> None:
            raise ExecutionBlocked("no")

        ledger.registry.use("tool_execution", veto, owner="veto")

    async def story(daemon: Live, peer: Peer) -> None:
        await peer.say(await peer.session("/", model=WRITE), "go")

    tell(tmp_path, ledger.registry, story, tools=[spy.tool])
    assert ledger.trail == [("post", "blocked", reason), ("settled", "blocked", "write")]
    assert spy.calls == []


def test_an_interrupted_call_is_told_and_settled(tmp_path: Path) -> None:
    """S4: the waiting side says it, once."""
    ledger, running = Ledger(), asyncio.Event()

    async def hangs(args: dict[str, Any], ctx: ToolContext) -> ToolOutcome:
        running.set()
        await asyncio.Event().wait()
        return ToolOutcome("")

    async def story(daemon: Live, peer: Peer) -> None:
        session = await peer.session("/", model="scripted/tool?name=hangs")
        await peer.submit(session, "go")
        await running.wait()
        await peer.request("hermes/turn/interrupt", {"sessionId": session})
        await peer.event("turn.ended")

    tell(tmp_path, ledger.registry, story, tools=[TestTool("hangs", hangs, read_only=True)])
    assert ledger.trail == [("post", "error", "interrupted"), ("settled", "error", "hangs")]


def test_a_call_is_settled_though_an_observer_runs_out_of_time(tmp_path: Path) -> None:
    """S4: exactly once under a time-out; the time-out is told and the turn goes on."""
    settled = list[str]()

    async def hangs(*_: Any) -> None:
        await asyncio.Event().wait()

    async def note(done: Any, _: Any) -> None:
        settled.append(done.status)

    registry = Registry()
    registry.use("post_tool_call", hangs, owner="slow", timeout_s=0.05)
    registry.use("post_tool_call_settled", note, owner="ledger")
    spy = Spy()

    async def story(daemon: Live, peer: Peer) -> None:
        session = await peer.session("/", model='scripted/tool?name=write&args={"text":"x"}&rounds=2')
        ended = await peer.say(session, "go")
        assert ended["data"]["status"] == "completed"
        notice = await peer.event("notice")
        assert (notice["data"]["code"], notice["turnId"]) == ("extension_error", ended["turnId"])
        assert "slow failed at post_tool_call: TimeoutError" in notice["data"]["text"]
        assert (await fact(peer, "extension_error"))["extension"] == "middleware:post_tool_call"

    tell(tmp_path, registry, story, tools=[spy.tool])
    assert settled == ["ok", "ok"]


# --- S5, S6: the running model call -----------------------------------------------------------------------------------


def test_a_plugin_breaks_off_a_slow_model_call_without_a_second_attempt(tmp_path: Path) -> None:
    """S5: the stream is closed, what was said stays, nothing is tried again; False where no call runs."""
    closed, opened = list[str](), list[str]()

    class Slow:
        name = "slow"

        async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
            opened.append(request.model)
            try:
                yield TextDelta("partial")
                await asyncio.Event().wait()
            finally:
                closed.append(request.model)

        async def close(self) -> None:
            return None

    async def story(daemon: Live, peer: Peer) -> None:
        host = EngineHost(daemon.room.sessions.get)
        session = await peer.session("/")
        assert host.cancel_model_call(session, "early") is False
        await peer.submit(session, "go")
        await peer.event("item.delta")
        assert host.cancel_model_call(session, "budget") is True
        ended = (await peer.event("turn.ended"))["data"]
        assert (ended["status"], ended["stop"]) == ("interrupted", "budget")
        [item] = await items(peer, session, "agentMessage")
        assert (item["text"], item["status"]) == ("partial", "partial")

    tell(tmp_path, Registry(), story, provider=Slow())
    assert (len(opened), len(closed)) == (1, 1)


def test_reasoning_of_a_turn_is_of_that_turn_only_also_when_it_failed(tmp_path: Path) -> None:
    """S6: what is unsupported is refused, never made to fit."""
    asked: list[str | None] = []

    class Failing:
        name = "failing"

        async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
            asked.append(request.thinking)
            if len(asked) == 1:
                raise RuntimeError("a bug")
            yield Reply(Message("assistant", (TextPart("ok"),)), "stop", Usage())

        async def close(self) -> None:
            return None

    registry = Registry()
    found: list[Any] = []

    async def think(turn: Any, context: PointContext) -> None:
        if not asked:
            host = EngineHost(found[0].room.sessions.get)
            assert "is no reasoning effort" in host.set_turn_reasoning(context.session_id, "huge", "x")
            assert host.set_turn_reasoning(context.session_id, "high", "the user said so") == ""

    registry.use("pre_llm_call", think, owner="thinker", on_error="throw")

    async def story(daemon: Live, peer: Peer) -> None:
        found.append(daemon)
        session = await peer.session("/")
        await peer.say(session, "go")
        await peer.say(session, "go")

    tell(tmp_path, registry, story, provider=Failing())
    assert asked == ["high", None]


# --- S13: transforms --------------------------------------------------------------------------------------------------


def test_transforms_compose_and_what_was_streamed_stays_readable(tmp_path: Path) -> None:
    """S13: results and answers fold; the deltas are what the model said, the completed item is the fold's."""
    spy, seen = Spy(), list[str]()
    registry = Registry()
    for letter in "ab":
        registry.use("transform_tool_result", lambda result, letter=letter, **_: result + letter, owner=letter,
                     shape="hook")  # fmt: skip
        registry.use("transform_llm_output", lambda response_text, letter=letter, **_: f"{response_text}-{letter}",
                     owner=letter, shape="hook")  # fmt: skip

    async def raw(done: ToolDone, _: Any) -> None:
        seen.append(done.result)

    registry.use("post_tool_call", raw, owner="raw")

    async def story(daemon: Live, peer: Peer) -> None:
        session = await peer.session("/", model=WRITE)
        await peer.say(session, "go")
        [call] = await items(peer, session, "toolCall")
        assert call["output"]["text"] == "wrote xab"
        [said] = await items(peer, session, "agentMessage")
        assert said["text"] == "wrote xab-a-b"
        events = [frame["params"] for frame in peer.order if frame.get("method") == "hermes/event"]
        deltas = [each["data"]["text"] for each in events if each["kind"] == "item.delta"
                  and each["itemId"] == said["itemId"]]  # fmt: skip
        assert "".join(deltas) == "wrote xab"

    tell(tmp_path, registry, story, tools=[spy.tool])
    assert seen == ["wrote x"]


# --- S18: pre_llm_call ------------------------------------------------------------------------------------------------


def test_contexts_stand_behind_the_users_message_and_stay_there(tmp_path: Path) -> None:
    """S18: once a turn, joined by a blank line, never in the system prompt, the same bytes in every later turn."""
    registry, requests = Registry(), list[Request]()
    for text in ("It rains.", "It is cold."):
        registry.use("pre_llm_call", lambda text=text, is_first_turn=False, **_: text if is_first_turn else None,
                     owner="weather", shape="hook")  # fmt: skip

    async def look(request: Request, _: Any) -> None:
        requests.append(request)

    registry.use("llm_request", look, owner="look")

    async def story(daemon: Live, peer: Peer) -> None:
        session = await peer.session("/", model=WRITE)
        await peer.say(session, "go")
        await peer.say(session, "on")

    tell(tmp_path, registry, story, tools=[Spy().tool])
    first = [request.messages[0] for request in requests]
    assert len(requests) == 4
    assert {message.text for message in first} == {"go\n\nIt rains.\n\nIt is cold."}
    assert [message.role for message in requests[-1].messages[:2]] == ["user", "assistant"]
    assert not any("rains" in request.system for request in requests)


# --- S19: sessions; T8 to T10 -----------------------------------------------------------------------------------------


class Phases:
    """What sessions told, in order."""

    POINTS = ("session_start", "on_session_start", "on_session_end", "session_shutdown", "on_session_finalize")

    def __init__(self) -> None:
        self.trail: list[str] = []
        self.runs: list[str] = []
        self.registry = Registry()
        for point in self.POINTS:
            self.registry.use(point, self.noting(point), owner="phases")

    def noting(self, point: str) -> Any:
        async def note(payload: Any, context: PointContext) -> None:
            assert context.session_id
            self.trail.append(point)
            if point == "session_start":
                self.runs.append(payload.run_id)

        return note


def test_a_session_begins_once_ends_every_turn_and_is_finalised_when_it_is_deleted(tmp_path: Path) -> None:
    """S19 and T8: start once over three runs, on_session_end for each; once more after the session was rebuilt."""
    phases = Phases()

    async def story(daemon: Live, peer: Peer) -> None:
        session = await peer.session("/")
        turns = [(await peer.say(session, "go"))["turnId"] for _ in range(3)]
        assert phases.runs == turns[:1]
        await peer.request("hermes/session/unsubscribe", {"sessionId": session})
        await daemon.room.sessions.evict()
        assert phases.trail == ["session_start", "on_session_start", *["on_session_end"] * 3, "session_shutdown"]
        phases.trail.clear()
        await peer.request("hermes/session/subscribe", {"sessionId": session})
        await peer.say(session, "go")
        await peer.request("hermes/session/delete", {"sessionId": session})
        assert phases.trail == ["session_start", "on_session_end", "session_shutdown", "on_session_finalize"]

    tell(tmp_path, phases.registry, story)


def test_a_session_that_never_ran_ends_once_and_never_began(tmp_path: Path) -> None:
    """T9: one shutdown however often it is closed; T10: what asks no model passes no session_start."""
    phases = Phases()

    async def story(daemon: Live, peer: Peer) -> None:
        session = await peer.session("/")
        await peer.request("hermes/session/rename", {"sessionId": session, "title": "idle"})
        live = daemon.room.sessions.get(session)
        await live.shut_down("closed")
        await live.shut_down("closed")

    tell(tmp_path, phases.registry, story)
    assert phases.trail == ["session_shutdown"]


def test_a_start_that_may_end_a_turn_ends_it(tmp_path: Path) -> None:
    """T8: with the policy `throw` the run is refused, as a failure of middleware."""

    async def refuse(*_: Any) -> None:
        raise ValueError("no licence")

    registry = Registry()
    registry.use("session_start", refuse, owner="licence", on_error="throw")

    async def story(daemon: Live, peer: Peer) -> None:
        session = await peer.session("/")
        ended = (await peer.say(session, "go"))["data"]
        assert (ended["status"], ended["error"]["kind"]) == ("failed", "middleware")
        assert "licence failed at session_start[0]: no licence" in ended["error"]["message"]

    tell(tmp_path, registry, story)


def test_a_shutdown_that_fails_is_told_after_the_session_is_gone(tmp_path: Path) -> None:
    """T9: with the policy `throw` the close is an error, and closed all the same."""

    async def refuse(*_: Any) -> None:
        raise ValueError("not saved")

    registry = Registry()
    registry.use("session_shutdown", refuse, owner="saver", on_error="throw")

    async def story(daemon: Live, peer: Peer) -> None:
        session = await peer.session("/")
        error = await peer.refused("hermes/session/delete", {"sessionId": session})
        assert "saver failed at session_shutdown[0]: not saved" in error["message"]
        assert (await peer.refused("hermes/session/get", {"sessionId": session}))["data"]["kind"] == "session_deleted"

    tell(tmp_path, registry, story)


# --- S21: approvals ---------------------------------------------------------------------------------------------------


def test_approvals_are_told_before_and_after_with_who_decided(tmp_path: Path) -> None:
    """S21: the request, and the choice with who made it; a refusal is final."""
    told: list[dict[str, Any]] = []
    registry = Registry()
    registry.use("pre_approval_request", lambda **fields: told.append(fields), owner="audit", shape="hook")
    registry.use("post_approval_response", lambda **fields: told.append(fields), owner="audit", shape="hook")
    spy = Spy(read_only=False)

    async def story(daemon: Live, peer: Peer) -> None:
        await peer.submit(await peer.session("/", model=WRITE), "go")
        await answered(peer, "deny")
        await peer.event("turn.ended")

    tell(tmp_path, registry, story, tools=[spy.tool])
    before, after = told
    assert (before["command"], before["choice"], before["surface"]) == ("write x", "", "test")
    assert (after["choice"], after["decided_by"], after["tool_call_id"]) == ("deny", "test", before["tool_call_id"])
    assert spy.calls == []


def test_consent_is_for_these_arguments_and_asked_again_for_others(tmp_path: Path) -> None:
    """S21: what an execution middleware changes after the consent needs another."""
    spy = Spy(read_only=False)

    async def other(operation: Operation, following: Any, _: Any) -> Any:
        return await following(msgspec.structs.replace(operation, args={"text": "other"}))

    registry = Registry()
    registry.use("tool_execution", other, owner="changer")

    async def story(daemon: Live, peer: Peer) -> None:
        session = await peer.session("/", model=WRITE)
        await peer.submit(session, "go")
        assert (await answered(peer))["toolCall"]["args"] == '{"text":"x"}'
        assert (await answered(peer, "deny"))["toolCall"]["args"] == '{"text":"other"}'
        await peer.event("turn.ended")
        [item] = await items(peer, session, "toolCall")
        assert item["status"] == "failed"

    tell(tmp_path, registry, story, tools=[spy.tool])
    assert spy.calls == []
