"""Tools that ask, from the command line, against the real daemon and real tools."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from hermes_local.address import resolve
from hermes_local.connection import Connection
from hermes_local.spawn import dial
from tests.support.local_shell import Shell


def tool(name: str, **args: str) -> str:
    """The scripted model that calls this tool once and then repeats its result."""
    return f"scripted/tool?name={name}&args={quote(json.dumps(args))}"


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with Shell(tmp_path) as user:
        yield user


def test_without_somebody_to_ask_the_tool_is_denied_and_nothing_hangs(shell: Shell) -> None:
    done = shell.run("chat", "-q", "go", "-m", tool("terminal", command="touch made"))
    assert done.returncode == 0
    assert "denied: nobody is here to ask" in done.stderr
    assert not (shell.work / "made").exists()


def test_yolo_runs_it(shell: Shell) -> None:
    done = shell.run("chat", "--yolo", "-q", "go", "-m", tool("terminal", command="touch made && echo done"))
    assert done.returncode == 0
    assert "done" in done.stdout
    assert (shell.work / "made").exists()


def test_an_open_request_is_listed_and_answered_from_another_shell(shell: Shell) -> None:
    shell.run("daemon", "start")
    connection = dial(resolve(shell.env).socket_path)
    assert isinstance(connection, Connection)
    with connection:
        connection.initialize("test")
        params = {"cwd": str(shell.work), "model": tool("terminal", command="touch made")}
        session_id = connection.request("hermes/session/create", params)["session"]["sessionId"]
        connection.request("hermes/session/subscribe", {"sessionId": session_id})
        block = {"type": "text", "text": "go"}
        connection.request("hermes/turn/submit", {"sessionId": session_id, "input": [block], "key": "k"})
        events = connection.events(30)
        opened = next(event["data"] for event in events if event["kind"] == "request.opened")
        listed = json.loads(shell.run("requests", "--json").stdout)
        assert [row["requestId"] for row in listed] == [opened["requestId"]]
        answered = shell.run("approve")
        assert (answered.returncode, answered.stdout) == (0, "allow_once\n")
        ended = next(event["data"] for event in events if event["kind"] == "turn.ended")
        late = shell.run("approve", opened["requestId"], "once")
    assert ended["status"] == "completed"
    assert (shell.work / "made").exists()
    assert late.returncode == 5
