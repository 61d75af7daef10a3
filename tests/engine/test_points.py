"""The points on the way of a model call and beside it: what links are given, and what becomes of what they give."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes_daemon.core.ports import Request, ToolContext, ToolOutcome, ToolSpec
from hermes_daemon.middleware.payloads import ApiDone, PointContext, Retry, StreamPart
from hermes_daemon.middleware.registry import Registry
from hermes_daemon.tools.builtin import builtin_tools
from hermes_protocol.events import FileChange
from tests.support.live import Live, Peer, TestTool
from tests.support.middleware_talk import WRITE, answered, fact, items, tell
from tests.support.shared_data import case


async def write(args: dict[str, Any], ctx: ToolContext) -> ToolOutcome:
    change = FileChange(item_id="", status="completed", created_at="", path="a.txt", kind="modified")
    return ToolOutcome("done", changes=(change,))


async def look(args: dict[str, Any], ctx: ToolContext) -> ToolOutcome:
    return ToolOutcome("looked")


def test_tools_that_a_request_middleware_adds_are_dropped_and_the_trace_says_so(tmp_path: Path) -> None:
    sent: list[tuple[str, ...]] = []

    async def add(request: Request, _: Any) -> Request:
        more = ToolSpec("hack", "", {})
        return msgspec.structs.replace(request, tools=(*(tool for tool in request.tools if tool.name != "look"), more))

    async def note(call: Any, context: PointContext) -> None:
        sent.append(tuple(tool.name for tool in call.payload.tools))
        assert context.middleware_trace == ({"source": "adder"},)

    registry = Registry()
    registry.use("llm_request", add, owner="adder")
    registry.use("pre_api_request", note, owner="note")

    async def story(daemon: Live, peer: Peer) -> None:
        await peer.say(await peer.session("/"), "go")
        step = await fact(peer, "middleware.step")
        assert (step["point"], step["owner"], step["outcome"]) == ("llm_request", "adder", "committed")
        assert (await fact(peer, "middleware.trace"))["reason"] == "tool_added_rejected"

    tell(tmp_path, registry, story, tools=[TestTool("write", write), TestTool("look", look)])
    assert sent == [("write",)]


def test_the_trace_goes_only_to_connections_that_asked_and_follow_the_session(tmp_path: Path) -> None:
    registry = Registry()
    registry.use("llm_request", lambda request, **_: {"request": request | {"temperature": 0.5}, "reason": "calm"},
                 owner="calm", shape="hermes")  # fmt: skip

    async def story(daemon: Live, peer: Peer) -> None:
        plain = await daemon.peer("plain", capabilities={"telemetry": "all", "maxLatencyMs": 0})
        stranger = await daemon.peer("stranger", capabilities={"middlewareTrace": True, "maxLatencyMs": 0})
        session = await peer.session("/")
        await plain.request("hermes/session/subscribe", {"sessionId": session})
        await peer.say(session, "go")
        assert (await fact(peer, "middleware.trace"))["reason"] == "calm"
        await fact(plain, "middleware.step")
        await fact(plain, "turn")
        await stranger.request("hermes/session/list", {})
        assert not [note for note in stranger.notes if note["method"] == "telemetry/event"]
        frames = [frame for frame in plain.order if frame.get("method") == "telemetry/event"]
        assert "middleware.trace" not in [frame["params"]["name"] for frame in frames]

    tell(tmp_path, registry, story)


def test_a_privacy_filter_that_fails_stops_the_call(tmp_path: Path) -> None:
    asked: list[str] = []

    async def broken(request: Request, _: Any) -> Request:
        raise ValueError("no model of names")

    async def note(*_: Any) -> None:
        asked.append("asked")

    registry = Registry()
    registry.use("llm_request", broken, owner="privacy", on_error="closed")
    registry.use("pre_api_request", note, owner="note")

    async def story(daemon: Live, peer: Peer) -> None:
        ended = (await peer.say(await peer.session("/"), "go"))["data"]
        assert (ended["status"], ended["error"]["kind"]) == ("failed", "middleware")

    tell(tmp_path, registry, story)
    assert asked == []


@pytest.mark.parametrize("again", [True, False])
def test_retry_may_be_stopped_or_hastened(tmp_path: Path, again: bool) -> None:
    seen: list[Retry] = []

    async def now(plan: Retry, _: Any) -> Retry:
        seen.append(plan)
        return msgspec.structs.replace(plan, delay=0, retry=again, reason="mine")

    registry = Registry()
    registry.use("retry", now, owner="hurry")

    async def story(daemon: Live, peer: Peer) -> None:
        session = await peer.session("/", model="scripted/fail?kind=network&times=1&retry_after=100")
        ended = (await peer.say(session, "go"))["data"]
        assert ended["status"] == ("completed" if again else "failed")

    tell(tmp_path, registry, story)
    assert [(plan.reason, plan.attempt, plan.delay >= 100) for plan in seen] == [("network", 2, True)]


def test_observers_of_a_model_call_know_the_request_the_reply_and_where_they_are(tmp_path: Path) -> None:
    told: list[tuple[ApiDone, PointContext]] = []

    async def note(done: ApiDone, context: PointContext) -> None:
        told.append((done, context))

    registry = Registry()
    registry.use("post_api_request", note, owner="note")

    async def story(daemon: Live, peer: Peer) -> None:
        session = await peer.session("/", model=WRITE)
        await peer.submit(session, "go")
        await answered(peer)
        ended = await peer.event("turn.ended")
        first, second = (context for _, context in told)
        assert (first.session_id, first.turn_id, first.platform) == (session, ended["turnId"], "test")
        assert (first.round, second.round, first.provider) == (1, 2, "scripted")
        assert first.api_request_id != second.api_request_id

    tell(tmp_path, registry, story, tools=[TestTool("write", write)])
    assert [done.assistant_tool_call_count for done, _ in told] == [1, 0]
    assert told[1][0].payload.messages[-1].results[0].text == "done"


def test_a_stream_is_told_in_the_observers_own_time(tmp_path: Path) -> None:
    heard: dict[str, list[StreamPart]] = {}
    over = asyncio.Event()
    registry = Registry()

    def noting(point: str) -> Any:
        async def note(part: StreamPart, context: PointContext) -> None:
            assert context.turn_id
            heard.setdefault(point, []).append(part)
            said = "".join(part.text for part in heard.get("on_stream_delta", ()))
            if len(heard) == 3 and said == "three short words":  # each of the three has a queue of its own
                over.set()

        return note

    for point in ("on_stream_start", "on_stream_delta", "on_stream_end"):
        registry.use(point, noting(point), owner="note")

    async def story(daemon: Live, peer: Peer) -> None:
        await peer.say(await peer.session("/"), "three short words")
        async with asyncio.timeout(20):
            await over.wait()

    tell(tmp_path, registry, story)
    assert [(part.text, part.finished) for part in heard["on_stream_end"]] == [("three short words", True)]
    assert len(heard["on_stream_start"]) == 1


def test_text_before_calls_and_questions_to_people_are_told(tmp_path: Path) -> None:
    heard: list[tuple[str, str, str]] = []
    over = asyncio.Event()

    def human(kind: str, prompt: str, outcome: str, **_: Any) -> None:
        heard.append((kind, prompt, outcome))

    registry = Registry()
    registry.use("on_human_input_request", human, owner="bell", shape="hook")
    registry.use("on_interim_message", lambda text, **_: heard.append(("interim", text, "")), owner="bell",
                 shape="hook")  # fmt: skip

    async def resolved(asked: Any, _: Any) -> None:
        heard.append((asked.kind, asked.prompt, asked.outcome))
        over.set()

    registry.use("on_human_input_resolved", resolved, owner="bell")
    script = tmp_path / "script.yaml"
    script.write_text("rounds:\n- text: Let me see.\n  calls: [{name: write, args: {text: x}}]\n- text: Done.\n")

    async def story(daemon: Live, peer: Peer) -> None:
        await peer.submit(await peer.session("/", model=f"scripted/file:{script}"), "go")
        await answered(peer)
        await peer.event("turn.ended")
        async with asyncio.timeout(20):
            await over.wait()

    tell(tmp_path, registry, story, tools=[TestTool("write", write)])
    title = "write x: write may change something"
    assert sorted(heard) == sorted([("interim", "Let me see.", ""), ("permission", title, ""),
                                    ("permission", title, "allow_once")])  # fmt: skip


def test_pre_verify_is_asked_so_often_and_only_when_files_were_changed(tmp_path: Path) -> None:
    asked: list[tuple[int, Any]] = []

    def nag(attempt: int, changed_paths: Any, **_: Any) -> dict[str, str]:
        asked.append((attempt, changed_paths))
        return {"decision": "block", "reason": "run the tests"}

    registry = Registry()
    registry.use("pre_verify", nag, owner="verify", shape="hook")

    async def story(daemon: Live, peer: Peer) -> None:
        await peer.say(await peer.session("/"), "nothing to change")
        assert asked == []
        session = await peer.session("/", model=WRITE)
        assert (await peer.say(session, "go"))["data"]["status"] == "completed"
        users = [row for row in daemon.room.sessions.get(session).history if row.role == "user"]
        assert [row.text for row in users] == ["go", "run the tests", "run the tests"]

    tell(
        tmp_path,
        registry,
        story,
        tools=[TestTool("write", write)],
        config="agent: {max_verify_nudges: 2}\napprovals: {mode: 'off'}\n",
    )
    assert asked == [(0, ["a.txt"]), (1, ["a.txt"])]


def test_a_commands_output_is_transformed_before_it_is_cut(tmp_path: Path) -> None:
    seen: list[int] = []

    def short(output: str, command: str, returncode: int, **_: Any) -> str:
        seen.append(len(output))
        return f"{command.split()[0]} said {output.count(chr(10))} lines, {returncode}"

    registry = Registry()
    registry.use("transform_terminal_output", short, owner="short", shape="hook")
    model = 'scripted/tool?name=terminal&args={"command":"seq 3000"}'

    async def story(daemon: Live, peer: Peer) -> None:
        session = await peer.session(str(tmp_path), model=model)
        await peer.say(session, "go")
        [item] = await items(peer, session, "toolCall")
        assert item["output"]["text"].splitlines()[0] == "seq said 3000 lines, 0"

    terminal = [tool for tool in builtin_tools(str(tmp_path)).all() if tool.card.name == "terminal"]
    tell(tmp_path, registry, story, tools=terminal, config="approvals: {mode: 'off'}\ntool_output: {max_bytes: 500}\n")
    assert seen[0] > 5000


def test_a_hook_that_hangs_is_given_up_named_and_the_others_run(tmp_path: Path) -> None:
    case("hooks", "hook-hangs")
    ran: list[str] = []

    async def hangs(*_: Any) -> None:
        await asyncio.Event().wait()

    async def other(*_: Any) -> None:
        ran.append("other")

    registry = Registry()
    registry.use("post_llm_call", hangs, owner="hanging", timeout_s=0.05)
    registry.use("on_session_end", hangs, owner="hanging", timeout_s=0.05)
    registry.use("pre_api_request", hangs, owner="hanging", timeout_s=0.05)
    registry.use("pre_api_request", other, owner="other")

    async def story(daemon: Live, peer: Peer) -> None:
        session = await peer.session("/")
        assert (await peer.say(session, "go"))["data"]["status"] == "completed"
        notice = (await peer.event("notice"))["data"]
        assert notice["text"].startswith("hanging failed at pre_api_request: TimeoutError: it took longer than 0.05 s")
        assert (await peer.say(session, "go"))["data"]["status"] == "completed"

    tell(tmp_path, registry, story)
    assert ran == ["other", "other"]


def test_nothing_is_made_when_nobody_registered(tmp_path: Path) -> None:
    async def story(daemon: Live, peer: Peer) -> None:
        session = daemon.room.sessions.get(await peer.session("/"))
        value, made = {"a": 1}, list[str]()
        points = session.points

        def payload() -> str:
            made.append("made")
            return ""

        assert await points.fold("messages", value) is value
        assert await points.decide("pre_verify", payload) is None
        await points.observe("post_llm_call", payload)
        points.tell("on_stream_delta", payload)
        assert points.teller("on_stream_delta", "") is None
        assert made == []

    tell(tmp_path, Registry(), story)
