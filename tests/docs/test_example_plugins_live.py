"""The example plugins and hooks in a whole daemon, with scripted models."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from docs.generate import ROOT
from hermes_daemon.core.ports import Chunk, Reply, Request, ToolContext, ToolOutcome
from hermes_protocol.content import Message, TextPart
from tests.support.live import Live, Peer, TestTool, live

EXAMPLES = ROOT / "docs/examples/plugins"


class Recorder:
    """A provider that keeps what it was sent."""

    name = "test"

    def __init__(self) -> None:
        self.requests: list[Request] = []

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        self.requests.append(request)
        yield Reply(Message("assistant", (TextPart("Fine! Really!"),)), "stop")

    async def close(self) -> None:
        return None


def run(
    home: Path,
    ids: list[str],
    story: Callable[[Live, Peer], Awaitable[None]],
    *,
    settings: dict[str, Any] | None = None,
    hooks: Any = None,
    **more: Any,
) -> None:
    """A daemon on `home` with these examples as its reader would have them."""
    for id in ids:
        shutil.copytree(EXAMPLES / id.replace("-", "_"), home / "plugins" / id.replace("-", "_"))
    entries = {id: {"settings": values} for id, values in (settings or {}).items()}
    config = json.dumps(
        {"plugins": {"enabled": ids, "entries": entries}, "hooks_auto_accept": True, "hooks": hooks or {},
         "approvals": {"mode": "off"}}
    )  # fmt: skip

    async def work() -> None:
        async with live(str(home), config=config, **more) as daemon:
            peer = await daemon.peer()
            rows = (await peer.request("hermes/plugin/list", {}))["plugins"]
            assert {row["id"]: row["state"] for row in rows} == dict.fromkeys(ids, "loaded"), rows
            await story(daemon, peer)

    asyncio.run(work())


async def call_of(peer: Peer, session: str) -> dict[str, Any]:
    items = (await peer.request("hermes/session/items", {"sessionId": session}))["items"]
    [call] = [item for item in items if item["type"] == "toolCall"]
    return dict(call)


def terminal(seen: list[dict[str, Any]]) -> TestTool:
    async def execute(args: dict[str, Any], ctx: ToolContext) -> ToolOutcome:
        seen.append(args)
        return ToolOutcome("out")

    tool = TestTool("terminal", execute)
    tool.card.parameters["properties"] = {"command": {"type": "string"}, "workdir": {"type": "string"}}
    return tool


def test_the_four_of_requests_and_runs_work_together(tmp_path: Path) -> None:
    seen: list[dict[str, Any]] = []

    async def story(daemon: Live, peer: Peer) -> None:
        session = await peer.session(
            str(tmp_path), model='scripted/tool?name=terminal&args={"command":"ls","workdir":"/"}'
        )
        assert (await peer.say(session, "go"))["data"]["status"] == "completed"
        assert seen == [{"command": "ls", "workdir": str(tmp_path.resolve())}]
        call = await call_of(peer, session)
        assert call["output"]["text"].startswith("out\n[terminal took 0.")
        told = (await peer.request("hermes/command/run", {"name": "times"}))["text"]
        assert ": 2 calls, " in told

    ids = ["annotate-results", "keep-workdir", "time-models"]
    run(tmp_path, ids, story, settings={"keep-workdir": {"root": str(tmp_path)}}, tools=[terminal(seen)])


def test_a_protected_file_is_not_written_and_commands_run_alone(tmp_path: Path) -> None:
    seen: list[dict[str, Any]] = []

    async def write(args: dict[str, Any], ctx: ToolContext) -> ToolOutcome:
        seen.append(args)
        return ToolOutcome("written")

    tool = TestTool("write_file", write)
    tool.card.parameters["properties"] = {"path": {"type": "string"}}

    async def story(daemon: Live, peer: Peer) -> None:
        session = await peer.session(str(tmp_path), model='scripted/tool?name=write_file&args={"path":".env"}')
        await peer.say(session, "go")
        call = await call_of(peer, session)
        assert call["status"] == "failed"
        assert ".env is protected" in call["error"]
        assert seen == []
        other = await peer.session(str(tmp_path), model='scripted/tool?name=terminal&args={"command":"ls"}')
        await peer.say(other, "go")
        assert (await call_of(peer, other))["output"]["text"] == "out"

    run(tmp_path, ["one-at-a-time", "protect-files"], story, tools=[tool, terminal([])])


@pytest.mark.parametrize(
    ("command", "status"), [("git push --force", "failed"), ("git push", "completed"), ("cat secret", "failed")]
)
def test_the_shell_hook_and_the_hooks_json_judge_commands(tmp_path: Path, command: str, status: str) -> None:
    shutil.copy(EXAMPLES / "hooks/hooks.json", tmp_path / "hooks.json")
    script = EXAMPLES / "hooks/no-force-push.sh"

    async def story(daemon: Live, peer: Peer) -> None:
        args = json.dumps({"command": command})
        session = await peer.session(str(tmp_path), model=f"scripted/tool?name=terminal&args={args}")
        await peer.say(session, "go")
        call = await call_of(peer, session)
        assert call["status"] == status, call
        if status == "failed":
            assert ("force pushes are not made" if "force" in command else "nothing secret") in call["error"]

    hooks = {"pre_tool_call": [{"command": str(script), "matcher": "terminal"}]}
    run(tmp_path, [], story, hooks=hooks, tools=[terminal([])])
