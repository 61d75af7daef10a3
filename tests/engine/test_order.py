"""The order of a turn: every middleware point, in its place, around a model call and a tool call."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from hermes_daemon.core.ports import ToolContext, ToolOutcome
from hermes_daemon.middleware.points import POINTS
from hermes_daemon.middleware.registry import Registry
from hermes_protocol.events import FileChange
from tests.support.live import TestTool, live

ROUND = ["messages", "context_blocks", "prompt", "turn.answer", "llm_request", "pre_api_request", "llm_execution",
         "post_api_request"]  # fmt: skip
CALL = ["tool_request", "pre_tool_call", "pre_approval_request", "post_approval_response", "tool_execution",
        "post_tool_call", "post_tool_call_settled", "tool_result"]  # fmt: skip
BEGIN = ["session_start", "on_session_start", "pre_llm_call"]
VERIFY = ["output", "pre_verify"]
FINISH = ["post_llm_call", "on_session_end", "session_shutdown"]
IN_THEIR_OWN_TIME = {"on_stream_start", "on_stream_delta", "on_stream_end", "on_interim_message",
                     "on_human_input_request", "on_human_input_resolved"}  # fmt: skip
ELSEWHERE = {"pre_command", "transform_terminal_output", "on_session_finalize"}
"""Tried by tests of their own."""
NOT_YET = {
    "compaction_request", "compaction", "post_compaction", "pre_auxiliary_call", "post_auxiliary_call",
    "on_session_reset", "subagent_start", "subagent_stop",
}  # fmt: skip


def recording(trail: list[str]) -> Registry:
    registry = Registry()
    for point in POINTS.values():

        def seen(name: str) -> Any:
            async def value(given: Any, *_: Any) -> None:
                trail.append(name)

            async def wrap(given: Any, following: Any, _: Any) -> Any:
                trail.append(name)
                return await following()

            return wrap if POINTS[name].style == "around" else value

        if point.name not in IN_THEIR_OWN_TIME:
            registry.use(point.name, seen(point.name), owner="recorder")
    return registry


def test_a_turn_with_one_call_passes_every_point_in_order(tmp_path: Path) -> None:
    trail: list[str] = []

    async def write(args: dict[str, Any], ctx: ToolContext) -> ToolOutcome:
        return ToolOutcome("done", changes=(FileChange(item_id="", status="completed", created_at="", path="a.txt",
                                                       kind="modified"),))  # fmt: skip

    async def story() -> None:
        tools = [TestTool("write", write)]
        async with live(str(tmp_path), tools=tools, middleware=recording(trail)) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path), model='scripted/tool?name=write&args={"text":"x"}')
            await peer.submit(session, "go")
            opened = await peer.event("request.opened")
            answer = {"requestId": opened["data"]["requestId"], "answer": {"optionId": "allow_once"}}
            await peer.request("hermes/request/answer", answer)
            await peer.event("turn.ended")

    asyncio.run(story())
    assert trail == [*BEGIN, *ROUND, *CALL, *ROUND, *VERIFY, *FINISH]


def test_a_failed_model_call_passes_its_points(tmp_path: Path) -> None:
    trail: list[str] = []

    async def story() -> None:
        async with live(str(tmp_path), middleware=recording(trail)) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path), model="scripted/fail?kind=network&times=1&retry_after=0")
            await peer.say(session, "go")

    asyncio.run(story())
    again = ["pre_api_request", "llm_execution", "post_api_request"]
    assert trail == [*BEGIN, *ROUND[:-1], "api_request_error", "retry", *again, "output", *FINISH]


def test_every_point_has_its_place_or_waits_for_its_issue() -> None:
    placed = {*BEGIN, *ROUND, *CALL, *VERIFY, *FINISH, *IN_THEIR_OWN_TIME, *ELSEWHERE, "api_request_error", "retry"}
    assert placed | NOT_YET == set(POINTS)
    assert not placed & NOT_YET
