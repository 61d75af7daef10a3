"""Papercuts in a whole daemon: the tool in a turn, calls that fail, and a session that is deleted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from hermes_daemon.core.ports import ToolContext, ToolOutcome
from tests.support.live import Live, Peer, TestTool, live
from tests.support.plugin_home import BUNDLED

CONFIG = """
plugins:
  enabled: [papercuts]
  entries: {papercuts: {settings: {auto_capture: true, draft_rules: true, draft_rule_after: 2}}}
approvals: {mode: "off"}
"""


async def breaks(args: dict[str, Any], ctx: ToolContext) -> ToolOutcome:
    return ToolOutcome("the wheel came off", is_error=True)


async def prints(args: dict[str, Any], ctx: ToolContext) -> ToolOutcome:
    return ToolOutcome("error: 12 errors were found and mended")


def run(home: Path, story: Callable[[Live, Peer], Awaitable[None]]) -> None:
    async def work() -> None:
        (home / "bundled").symlink_to(BUNDLED)
        tools = [TestTool("breaks", breaks, read_only=True), TestTool("prints", prints, read_only=True)]
        async with live(str(home), config=CONFIG, tools=tools) as daemon:
            await story(daemon, await daemon.peer())

    asyncio.run(work())


async def listed(peer: Peer, arguments: str = "list --json") -> list[dict[str, Any]]:
    run = {"name": "papercuts", "kind": "cli", "arguments": arguments}
    answer = await peer.request("hermes/command/run", run)
    rows: list[dict[str, Any]] = json.loads(answer["text"])["papercuts"]
    return rows


def test_a_model_reports_one_with_the_tool(tmp_path: Path) -> None:
    async def story(daemon: Live, peer: Peer) -> None:
        args = {"mode": "report", "category": "tool", "severity": "high", "expected": "help", "observed": "none"}
        session = await peer.session(str(tmp_path), model=f"scripted/tool?name=papercuts&args={json.dumps(args)}")
        await peer.say(session, "go")
        [row] = await listed(peer)
        assert (row["observed"], row["severity"], row["origin"]) == ("none", "high", "report")

    run(tmp_path, story)


def test_a_call_that_fails_is_captured_and_one_that_prints_error_is_not(tmp_path: Path) -> None:
    async def story(daemon: Live, peer: Peer) -> None:
        for name in ("breaks", "prints", "breaks"):
            session = await peer.session(str(tmp_path), model=f"scripted/tool?name={name}&args={{}}")
            await peer.say(session, "go")
        [row] = await listed(peer)
        assert (row["observed"], row["recurrence"], row["origin"]) == ("the wheel came off", 2, "capture")
        drafts = tmp_path / "rules" / "drafts"
        assert not drafts.exists()
        await peer.request("hermes/session/delete", {"sessionId": session})
        [draft] = drafts.iterdir()
        assert "enabled: false" in draft.read_text()

    run(tmp_path, story)
