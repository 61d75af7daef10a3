"""The guide to middleware: its plugins are run as they stand there, its list of points is the real one."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from docs.generate import ROOT
from hermes_daemon.core.ports import ToolContext, ToolOutcome
from hermes_daemon.middleware.points import POINTS
from hermes_daemon.middleware.registry import Registry
from tests.engine.test_order import NOT_YET
from tests.support.live import Live, Peer, TestTool, live
from tests.support.middleware_talk import answered, items

GUIDE = (ROOT / "docs/howto/middleware.md").read_text(encoding="utf-8")
PLUGINS = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
CALL = 'scripted/tool?name=terminal&args={"command":"%s","workdir":"/etc"}'


class Terminal(TestTool):
    """A terminal that runs nothing and tells what it was asked for."""

    def __init__(self, calls: list[dict[str, Any]]) -> None:
        async def run(args: dict[str, Any], ctx: ToolContext) -> ToolOutcome:
            calls.append(args)
            return ToolOutcome("ran")

        super().__init__("terminal", run, read_only=True)
        text = {"type": "string"}
        self.card.parameters["properties"].update(command=text, workdir=text)


def guide(home: Path, number: int, story: Callable[[Live, Peer], Awaitable[None]], *tools: TestTool,
          registry: Registry | None = None) -> None:  # fmt: skip
    folder = home / "plugins" / "tagger"
    folder.mkdir(parents=True)
    (folder / "plugin.yaml").write_text("name: tagger\n")
    (folder / "plugin.py").write_text(PLUGINS[number])

    async def run() -> None:
        config = "plugins: {enabled: [tagger]}\n"
        async with live(str(home), tools=tools, config=config, middleware=registry) as daemon:
            assert daemon.room.guests.problems == ()
            await story(daemon, await daemon.peer())

    asyncio.run(run())


def test_every_plugin_of_the_guide_is_tried() -> None:
    assert len(PLUGINS) == 5


def test_the_guide_tags_requests(tmp_path: Path) -> None:
    seen: list[Any] = []

    async def look(call: Any, _: Any) -> None:
        seen.append(call.payload.extra_headers)

    registry = Registry()
    registry.use("pre_api_request", look, owner="look")

    async def story(daemon: Live, peer: Peer) -> None:
        await peer.say(await peer.session("/"), "go")

    guide(tmp_path, 0, story, registry=registry)
    assert seen == [{"x-team": "blue"}]


@pytest.mark.parametrize(("command", "calls"), [("ls", 1), ("deploy now", 0), ("migrate up", 1)])
def test_the_guide_keeps_the_terminal_in_the_project(tmp_path: Path, command: str, calls: int) -> None:
    seen: list[dict[str, Any]] = []

    async def story(daemon: Live, peer: Peer) -> None:
        session = await peer.session("/", model=CALL % command)
        await peer.submit(session, "go")
        if command == "migrate up":
            assert (await answered(peer))["reason"] == "this changes the database"
        await peer.event("turn.ended")

    guide(tmp_path, 1, story, Terminal(seen))
    assert seen == [{"command": command, "workdir": "."}] * calls


def test_the_guide_times_model_calls(tmp_path: Path) -> None:
    async def story(daemon: Live, peer: Peer) -> None:
        assert (await peer.say(await peer.session("/"), "go"))["data"]["status"] == "completed"

    guide(tmp_path, 2, story)
    [state] = (tmp_path / "plugin-data" / "tagger").glob("*.json")
    assert '"seconds"' in state.read_text()


def test_the_guide_annotates_results_and_adds_context(tmp_path: Path) -> None:
    async def story(daemon: Live, peer: Peer) -> None:
        session = await peer.session("/", model=CALL % "ls")
        await peer.say(session, "go")
        [call] = await items(peer, session, "toolCall")
        assert call["output"]["text"] == "ran\n[from terminal]"
        assert daemon.room.sessions.get(session).history[1].text == "The build is red."

    guide(tmp_path, 3, story, Terminal([]))


def test_the_guide_answers_without_a_model(tmp_path: Path) -> None:
    async def story(daemon: Live, peer: Peer) -> None:
        session = await peer.session("/")
        assert (await peer.say(session, "/lunch"))["data"]["turns"] == {"deterministic": 1}
        assert (await peer.say(session, "other"))["data"]["turns"] == {"model": 1}
        said = await items(peer, session, "agentMessage")
        assert [item["text"] for item in said] == ["Soup.", "other"]
        assert said[0]["deterministic"] == {"middleware": "menu"}

    guide(tmp_path, 4, story)


def test_the_guide_says_what_is_not_reached_yet_and_names_points_that_exist() -> None:
    told = re.search(r"Not reached yet: (.*?)\.\n", GUIDE, re.DOTALL)
    assert told is not None
    assert set(re.findall(r"`(\w+)`", told[1])) == NOT_YET
    assert set(POINTS) >= NOT_YET
