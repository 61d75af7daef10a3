"""What begins with a slash."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes_protocol import methods as m
from hermes_shell.interactive import commands
from tests.support.client_face import MemoryFace, daemon_and_chat
from tests.support.client_journal import Journal
from tests.support.client_peer import FakeDaemon


def done(line: str, prepare: Any = None) -> tuple[FakeDaemon, MemoryFace]:
    """Run one command in a fresh chat; what it left behind."""

    async def run() -> tuple[FakeDaemon, MemoryFace]:
        async with daemon_and_chat() as (daemon, chat, face):
            if prepare is not None:
                prepare(daemon)
                daemon.flush()
                await chat.connection.request("hermes/daemon/ping", None, dict)
            await asyncio.wait([chat.start(commands.run(chat, line))])
            await chat.connection.request("hermes/daemon/ping", None, dict)
            return daemon, face

    return asyncio.run(run())


def test_the_help_names_every_command() -> None:
    _, face = done("/help")
    for name in commands.COMMANDS:
        assert f"/{name}" in face.text


def test_an_unknown_command_names_the_nearest() -> None:
    assert "Did you mean /sessions?" in done("/sesions")[1].text
    assert "/help lists" in done("/zzz")[1].text


@pytest.mark.parametrize("line", ["hello", "/etc/hosts is a file", "/usr/bin/env\nx"])
def test_messages_and_paths_are_messages(line: str) -> None:
    assert commands.plain_message(line)


@pytest.mark.parametrize("line", ["/help", "/model a/b", "/rename x/y"])
def test_commands_are_commands(line: str) -> None:
    assert not commands.plain_message(line)


def test_tab_completes_as_far_as_is_certain() -> None:
    assert commands.completed("/he") == "/help "
    assert commands.completed("/s") == "/s"
    assert commands.completed("/ex") == "/exp"
    assert commands.completed("/nothing") == "/nothing"
    assert commands.completed("hello") == "hello"


def test_compact_says_that_it_is_yet_to_come() -> None:
    assert "comes with a later version" in done("/compact")[1].text


def test_compact_passes_the_focus_on() -> None:
    asked: list[Any] = []
    done("/compact the tests", lambda d: d.extra.update({"hermes/session/compact": lambda p: asked.append(p) or {}}))
    assert asked == [{"sessionId": "s1", "focus": "the tests"}]


def test_rename_and_model_reach_the_session() -> None:
    daemon, _ = done("/rename A good name")
    assert daemon.journal.session.title == "A good name"
    daemon, face = done("/model scripted/words")
    assert daemon.journal.session.model == "scripted/words"
    assert "model is now scripted/words (by " in face.text
    assert "expected a title" in done("/rename")[1].text


def test_models_tools_and_sessions_are_listed() -> None:
    models = m.ModelsResult((m.ModelRow("scripted/echo", "scripted", tools=False, note="a script"),), "scripted/echo")
    tools = m.ToolListResult((m.ToolRow("read_file", "files", "Read\na file", "core", "ready", read_only=True),))
    assert "* scripted/echo  a script, no tools" in done("/model", answer("hermes/models/list", models))[1].text
    assert "read_file  reads    Read a file" in done("/tools", answer("hermes/tool/list", tools))[1].text
    assert "*  1  s1  (no title)" in done("/sessions")[1].text


def test_a_tools_line_is_as_wide_as_the_window() -> None:
    tools = m.ToolListResult((m.ToolRow("read_file", "files", "word " * 60, "core", "ready", read_only=True),))
    (line,) = [
        line for line in done("/tools", answer("hermes/tool/list", tools))[1].text.splitlines() if "word" in line
    ]
    assert line.endswith("…")
    assert len(line) == 80


def answer(method: str, result: Any) -> Any:
    return lambda daemon: daemon.extra.update({method: lambda _: msgspec.to_builtins(result)})


def test_another_session_is_followed_from_then_on() -> None:
    async def run() -> None:
        async with daemon_and_chat() as (daemon, chat, face):
            daemon.journal = Journal("s2")
            daemon.sent = 1
            await asyncio.wait([chat.start(commands.run(chat, "/sessions 1"))])
            assert chat.session.session_id == "s2"
            chat.submit("over here")
            await face.shows("› over here")
            await asyncio.wait([chat.start(commands.run(chat, "/sessions 1"))])
            assert "the session you are in" in face.text
            await asyncio.wait([chat.start(commands.run(chat, "/sessions nope"))])
            assert "no session 'nope'" in face.text
            assert chat.session.session_id == "s2"

    asyncio.run(run())


def test_new_keeps_folder_model_and_mode() -> None:
    daemon, face = done("/new", lambda d: d.journal.set_option("mode", "off"))
    created = [params for name, params in daemon.requests if name == "hermes/session/create"]
    assert created[0]["cwd"] == "/w"
    assert created[0]["model"] == "scripted/echo"
    assert created[0]["options"] == {"mode": "off"}
    assert "session s1" in face.text


def called(daemon: FakeDaemon) -> None:
    daemon.journal.start_turn("go")
    call = daemon.journal.start_call(title="Run make")
    daemon.journal.delta(call, "\n".join(f"line {n}" for n in range(40)))
    daemon.journal.complete(call)


def test_expand_prints_all_of_a_call() -> None:
    assert "line 39" in done("/expand", called)[1].text
    assert "line 39" in done("/expand 1", called)[1].text
    assert "expected a number from 1 to 1" in done("/expand 5", called)[1].text
    assert "there was none yet" in done("/expand")[1].text


def test_a_session_is_exported_whole_and_no_file_is_replaced(tmp_path: Path) -> None:
    def prepare(daemon: FakeDaemon) -> None:
        called(daemon)
        daemon.journal.end_turn()

        def page(params: dict[str, Any]) -> Any:
            items = daemon.journal.items
            at = 0 if "after" not in params else [i.item_id for i in items].index(params["after"]) + 1
            rows = items[at : at + 1]
            return m.ItemsResult(tuple(rows), rows[-1].item_id if at + 1 < len(items) else None)

        daemon.extra["hermes/session/items"] = page

    target = tmp_path / "out.md"
    _, face = done(f"/export {target}", prepare)
    assert f"2 items written to {target}" in face.text
    text = target.read_text()
    assert "## chat\n\ngo" in text
    assert "line 39" in text
    assert "File exists" in done(f"/export {target}", prepare)[1].text
    done(f"/export json {tmp_path / 'out'}", prepare)
    exported = msgspec.json.decode((tmp_path / "out").read_bytes())
    assert [item["type"] for item in exported["items"]] == ["userMessage", "toolCall"]
    assert "No such file" in done(f"/export {tmp_path}/none/x.md", prepare)[1].text
    assert os.listdir(tmp_path) != []


def test_status_tells_of_session_and_daemon() -> None:
    status = m.StatusResult(
        pid=7,
        boot_id="b",
        build_id="x",
        version="0.1.0",
        stale=False,
        uptime_s=5.0,
        endpoints=(),
        connections=(m.ConnectionRow("c1", "id", "controller", 0, False, "chat ada"),),
        sessions=m.SessionCounts(1, 0),
        turns=0,
        open_requests=0,
        children=0,
        rss_bytes=1,
        idle=m.Idle(False, None, ()),
        warnings=("a broken config",),
    )
    text = done("/status", answer("hermes/daemon/status", status))[1].text
    for words in ("s1", "/w", "scripted/echo", "pid 7", "chat ada", "a broken config"):
        assert words in text


def test_quit_leaves() -> None:
    assert done("/quit")[1].code == 0
    assert done("/exit")[1].code == 0


def test_a_failed_command_is_a_line_and_not_the_end() -> None:
    _, face = done("/tools")
    assert "it has no hermes/tool/list. `hermes daemon restart`" in face.text


def with_plugin(daemon: FakeDaemon) -> None:
    rows = [
        {"name": "shout", "kind": "slash", "description": "says it loudly", "argsHint": "TEXT", "plugin": "noise"},
        {"name": "quit", "kind": "slash", "plugin": "noise"},
        {"name": "count", "kind": "cli", "plugin": "noise"},
    ]
    daemon.extra["hermes/command/list"] = lambda _: {"commands": rows}
    daemon.extra["hermes/command/run"] = lambda params: {
        "text": params.get("arguments", "").upper(),
        "exitCode": 0 if params.get("arguments") else 2,
    }


def test_a_command_of_a_plugin_is_run_in_this_session_and_its_text_shown() -> None:
    daemon, face = done("/shout hey there", with_plugin)
    assert "HEY THERE" in face.text
    [params] = [params for method, params in daemon.requests if method == "hermes/command/run"]
    assert params == {"name": "shout", "arguments": "hey there", "sessionId": "s1"}


def test_a_command_of_a_plugin_that_fails_is_told_by_its_code() -> None:
    assert "/shout failed with 2" in done("/shout", with_plugin)[1].text


def test_the_help_lists_commands_of_plugins_that_can_be_typed_here() -> None:
    text = done("/help", with_plugin)[1].text
    assert "/shout TEXT" in text
    assert "says it loudly (noise)" in text
    assert "/count" not in text
    assert "Did you mean /shout?" in done("/shuot", with_plugin)[1].text
