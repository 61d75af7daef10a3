"""A turn through the whole daemon: events in order, everything stored, every way it can end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from hermes_daemon.core.ports import ToolContext, ToolOutcome
from tests.support.live import TestTool, live


def test_an_answer_streams_and_is_stored(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path))
            ended = await peer.say(session, "hello there world")
            assert ended["data"]["status"] == "completed"
            kinds = [frame["params"]["kind"] for frame in peer.order if frame.get("method") == "hermes/event"]
            begin = ["turn.started", "item.started", "item.completed", "session.updated", "item.started"]
            end = ["item.completed", "session.updated", "turn.ended"]
            assert (kinds[:5], kinds[-3:]) == (begin, end)
            assert set(kinds[5:-3]) == {"item.delta"}
            page = await peer.request("hermes/session/items", {"sessionId": session})
            assert [(item["type"], item["text"]) for item in page["items"]] == [
                ("userMessage", "hello there world"),
                ("agentMessage", "hello there world"),
            ]

    asyncio.run(story())


def test_a_tool_call_asks_and_runs_and_its_result_reaches_the_model(tmp_path: Path) -> None:
    async def write(args: dict[str, Any], ctx: ToolContext) -> ToolOutcome:
        ctx.progress("working\n")
        return ToolOutcome(f"wrote {args['text']}")

    async def story() -> None:
        async with live(str(tmp_path), tools=[TestTool("write", write)]) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path), model='scripted/tool?name=write&args={"text":"x"}')
            await peer.submit(session, "go")
            opened = await peer.event("request.opened")
            assert opened["data"]["toolCall"]["args"] == '{"text":"x"}'
            answer = {"requestId": opened["data"]["requestId"], "answer": {"optionId": "allow_once"}}
            assert (await peer.request("hermes/request/answer", answer))["outcome"] == "allow_once"
            ended = await peer.event("turn.ended")
            assert ended["data"]["status"] == "completed"
            page = await peer.request("hermes/session/items", {"sessionId": session})
            call = page["items"][1]
            assert (call["type"], call["status"], call["output"]) == ("toolCall", "completed", {"text": "wrote x"})
            assert "wrote x" in page["items"][-1]["text"]

    asyncio.run(story())


def test_an_interrupt_keeps_what_was_said(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path), model="scripted/hang?text=partial words")
            submitted = await peer.submit(session, "go")
            await peer.event("item.delta")
            stale = await peer.request("hermes/turn/interrupt", {"sessionId": session, "turnId": "turn_other"})
            assert stale["status"] == "notActive"
            stopped = await peer.request("hermes/turn/interrupt", {"sessionId": session, "turnId": submitted["turnId"]})
            assert stopped["status"] == "interrupting"
            ended = await peer.event("turn.ended")
            assert ended["data"]["status"] == "interrupted"
            page = await peer.request("hermes/session/items", {"sessionId": session})
            last = page["items"][-1]
            assert (last["status"], last["type"]) == ("partial", "agentMessage")
            assert last["text"]

    asyncio.run(story())
