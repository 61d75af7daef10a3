"""Plugins and shell hooks through a whole daemon."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.live import Live, Peer, live

PLUGIN = """
def register(ctx):
    ctx.register_tool("greet", lambda args: f"hello {args['who']}", read_only=True, description="Greets.",
                      schema={"type": "object", "properties": {"who": {"type": "string"}}, "required": ["who"]})
    ctx.register_command("shout", lambda arguments, session_id: arguments.upper() + session_id[:4], "shouts")
    ctx.register_command("broken", lambda arguments: 1 / 0)
    ctx.register_cli_command("count", lambda arguments: (f"{len(arguments)}", 3), "counts")
    ctx.register_system_prompt_section("manners", "Be polite.")
    pass
"""


def with_plugin(home: Path, code: str = PLUGIN) -> str:
    folder = home / "plugins" / "greeter"
    folder.mkdir(parents=True)
    (folder / "plugin.yaml").write_text("name: greeter\n")
    (folder / "plugin.py").write_text(code)
    return "plugins: {enabled: [greeter]}\n"


def run(home: Path, config: str, story: Callable[[Live, Peer], Awaitable[None]]) -> None:
    async def work() -> None:
        async with live(str(home), config=config) as daemon:
            await story(daemon, await daemon.peer())

    asyncio.run(work())


def test_a_plugins_tool_is_a_tool_like_any_other(tmp_path: Path) -> None:
    async def story(daemon: Live, peer: Peer) -> None:
        model = 'scripted/tool?name=greet&args={"who":"Ada"}'
        session = await peer.session(str(tmp_path), model=model)
        await peer.say(session, "go")
        items = (await peer.request("hermes/session/items", {"sessionId": session}))["items"]
        [call] = [item for item in items if item["type"] == "toolCall"]
        assert call["output"]["text"] == "hello Ada"
        rows = (await peer.request("hermes/tool/list", {}))["tools"]
        assert [row["name"] for row in rows] == ["greet"]

    run(tmp_path, with_plugin(tmp_path), story)


def test_plugins_are_listed_with_what_they_brought(tmp_path: Path) -> None:
    async def story(daemon: Live, peer: Peer) -> None:
        [row] = (await peer.request("hermes/plugin/list", {}))["plugins"]
        assert (row["id"], row["state"], row["tools"], row.get("points", [])) == (
            "greeter", "loaded", ["greet"], [])  # fmt: skip
        assert row["commands"] == ["count", "broken", "shout"]

    run(tmp_path, with_plugin(tmp_path), story)


def test_commands_of_plugins_are_run_and_their_faults_are_theirs(tmp_path: Path) -> None:
    async def story(daemon: Live, peer: Peer) -> None:
        session = await peer.session(str(tmp_path))
        names = [row["name"] for row in (await peer.request("hermes/command/list", {}))["commands"]]
        assert names == ["count", "broken", "shout"]
        ran = await peer.request("hermes/command/run", {"name": "/shout", "arguments": "hey", "sessionId": session})
        assert ran == {"text": "HEY" + session[:4]}
        ran = await peer.request("hermes/command/run", {"name": "count", "kind": "cli", "arguments": "abc"})
        assert ran == {"text": "3", "exitCode": 3}
        ran = await peer.request("hermes/command/run", {"name": "broken"})
        assert ran == {"text": "greeter: ZeroDivisionError: division by zero", "exitCode": 1}
        error = await peer.refused("hermes/command/run", {"name": "count"})
        assert error["message"] == "$.name: no plugin has a command 'count'; there are: broken, shout"

    run(tmp_path, with_plugin(tmp_path), story)


def test_a_reload_takes_the_new_code_and_a_broken_plugin_is_said_in_status(tmp_path: Path) -> None:
    async def story(daemon: Live, peer: Peer) -> None:
        path = tmp_path / "plugins" / "greeter" / "plugin.py"
        path.write_text("def register(ctx): raise ValueError('no')\n")
        reloaded = await peer.request("hermes/daemon/reload", {"what": ["plugins"]})
        assert reloaded["errors"] == ["plugin greeter: ValueError: no (plugin.py, line 1)"]
        status = await peer.request("hermes/daemon/status", {})
        assert "plugin greeter: ValueError: no (plugin.py, line 1)" in status["warnings"]
        assert (await peer.request("hermes/tool/list", {}))["tools"] == []
        path.write_text(PLUGIN)
        reloaded = await peer.request("hermes/daemon/reload", {"what": ["plugins"]})
        assert reloaded["changed"] == ["plugin greeter"]
        assert "errors" not in reloaded or reloaded["errors"] == []
        assert len((await peer.request("hermes/tool/list", {}))["tools"]) == 1

    run(tmp_path, with_plugin(tmp_path), story)


def test_an_observer_runs_no_command_and_allows_no_hook(tmp_path: Path) -> None:
    async def story(daemon: Live, peer: Peer) -> None:
        observer = await daemon.peer("watcher", client={"id": "w", "name": "w", "version": "1", "role": "observer"})
        for method, params in (
            ("hermes/command/run", {"name": "shout"}),
            ("hermes/hook/allow", {"event": "pre_tool_call", "command": "true"}),
        ):
            assert (await observer.refused(method, params))["data"]["kind"] == "permission_denied"

    run(tmp_path, with_plugin(tmp_path), story)


def test_a_shell_hook_runs_once_it_is_allowed(tmp_path: Path) -> None:
    config = with_plugin(tmp_path) + "hooks: {pre_tool_call: [{command: 'echo never >&2; exit 2'}]}\n"

    async def called(peer: Peer) -> Any:
        session = await peer.session(str(tmp_path), model='scripted/tool?name=greet&args={"who":"Ada"}')
        await peer.say(session, "go")
        items = (await peer.request("hermes/session/items", {"sessionId": session}))["items"]
        return next(item for item in items if item["type"] == "toolCall")

    async def story(daemon: Live, peer: Peer) -> None:
        [row] = (await peer.request("hermes/hook/list", {}))["hooks"]
        assert (row["event"], row.get("allowed", False)) == ("pre_tool_call", False)
        assert (await called(peer))["status"] == "completed"
        given = {"event": row["event"], "command": row["command"]}
        [row] = (await peer.request("hermes/hook/allow", given))["hooks"]
        assert row["allowed"]
        item = await called(peer)
        assert item["status"] == "failed"
        assert "never" in item["error"]
        error = await peer.refused("hermes/hook/allow", {**given, "command": "other"})
        assert error["data"]["path"] == "$.command"

    run(tmp_path, config, story)


def test_what_a_plugin_asks_of_the_engine(tmp_path: Path) -> None:
    code = """
import asyncio

def register(ctx):
    async def other(args, session_id, **_):
        outcome = await ctx.dispatch_tool(session_id, "inner", {})
        return f"inner said: {outcome.text}"

    ctx.register_tool("outer", other, read_only=True, schema={"type": "object", "properties": {}})
    ctx.register_tool("inner", lambda args: "hi", read_only=True, schema={"type": "object", "properties": {}})

    async def say(arguments, session_id):
        return await ctx.inject_message(session_id, arguments)

    def effort(arguments, session_id):
        return ctx.host.set_turn_reasoning(session_id, arguments, "asked") or "taken"

    def cancel(arguments, session_id):
        return str(ctx.host.cancel_model_call(session_id, "enough"))

    ctx.register_command("say", say)
    ctx.register_command("effort", effort)
    ctx.register_command("cancel", cancel)
"""

    async def story(daemon: Live, peer: Peer) -> None:
        session = await peer.session(str(tmp_path), model="scripted/tool?name=outer&args={}")
        await peer.say(session, "go")
        items = (await peer.request("hermes/session/items", {"sessionId": session}))["items"]
        calls = {item["name"]: item["output"]["text"] for item in items if item["type"] == "toolCall"}
        assert calls == {"outer": "inner said: hi", "inner": "hi"}

        async def command(name: str, arguments: str = "") -> str:
            params = {"name": name, "arguments": arguments, "sessionId": session}
            text: str = (await peer.request("hermes/command/run", params))["text"]
            return text

        assert await command("effort", "high") == "no turn runs"
        assert await command("cancel") == "False"
        await peer.request("hermes/session/setOption",
                           {"sessionId": session, "id": "model", "value": "scripted/hang?text=a"})  # fmt: skip
        turn = await command("say", "hello")
        await peer.event("item.delta")
        assert await command("effort", "huge") == (
            "'huge' is no reasoning effort: none, minimal, low, medium, high, xhigh, max, ultra"
        )
        assert await command("effort", "high") == "taken"
        assert await command("cancel") == "True"
        ended = await peer.event("turn.ended")
        while ended["turnId"] != turn:
            ended = await peer.event("turn.ended")
        assert ended["data"]["status"] == "interrupted"

    run(tmp_path, with_plugin(tmp_path, code), story)


@pytest.mark.parametrize("line", ["plugins: {safe_mode: true, enabled: [greeter]}\n"])
def test_safe_mode(tmp_path: Path, line: str) -> None:
    async def story(daemon: Live, peer: Peer) -> None:
        [row] = (await peer.request("hermes/plugin/list", {}))["plugins"]
        assert row["state"] == "enabled"

    with_plugin(tmp_path)
    run(tmp_path, line, story)
