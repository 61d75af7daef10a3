"""`hermes-daemon stdio`, shared and private, over both stream framings (protocol section 1 and 2)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO
from urllib.parse import quote

import pytest

from hermes_local import locks
from hermes_local.spawn import connect
from tests.support.local_shell import Shell, wait_for
from tests.support.shared_data import case

MODEL = "scripted/tool?name=terminal&args=" + quote(json.dumps({"command": "echo $$ > pid; exec sleep 1000"}))


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with Shell(tmp_path) as user:
        yield user


def framed(*messages: object) -> str:
    """With Content-Length headers, as an editor sends them."""
    bodies = [json.dumps({"jsonrpc": "2.0", **message}) for message in messages]  # type: ignore[dict-item]
    return "".join(f"Content-Length: {len(body.encode())}\r\n\r\n{body}" for body in bodies)


def unframed(text: str) -> list[dict[str, object]]:
    """The messages of what came, read in text mode: a line ends with a bare newline there."""
    found = []
    while text:
        head, _, text = text.partition("\n\n")
        name, _, size = head.partition(": ")
        assert name == "Content-Length"
        found.append(json.loads(text[: int(size)]))
        text = text[int(size) :]
    return found


HELLO = {"id": 1, "method": "initialize", "params": {"initializationOptions": {"hermes": {}}}}
PING = {"id": 2, "method": "hermes/daemon/ping"}
SHUTDOWN = {"id": 3, "method": "shutdown"}
EXIT = {"method": "exit"}


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        ([], (HELLO, PING, SHUTDOWN, EXIT), 0),
        ([], (HELLO, PING), 0),
        (["--private"], (HELLO, PING, SHUTDOWN, EXIT), 0),
        (["--private"], (HELLO, PING, EXIT), 1),
    ],
)
def test_it_speaks_with_content_length_headers(
    shell: Shell, words: list[str], said: tuple[object, ...], code: int
) -> None:
    done = shell.run("stdio", *words, stdin=framed(*said), module="hermes_daemon")
    assert done.returncode == code
    assert done.stderr == ""
    asked = [message["id"] for message in said if isinstance(message, dict) and "id" in message]
    assert [answer["id"] for answer in unframed(done.stdout)] == asked
    assert (shell.daemon_pid() is None) == (words == ["--private"])


def test_a_shared_daemon_outlives_shutdown_and_exit_of_a_client(shell: Shell) -> None:
    shell.run("stdio", stdin=framed(HELLO, SHUTDOWN, EXIT), module="hermes_daemon")
    pid = shell.daemon_pid()
    assert pid is not None
    shell.run("stdio", stdin=framed(HELLO), module="hermes_daemon")
    assert shell.daemon_pid() == pid


def test_bytes_cannot_be_pumped_into_tls_which_is_said(shell: Shell) -> None:
    shell.env["HERMES_DAEMON"] = "tls://127.0.0.1:1"
    done = shell.run("stdio", stdin=framed(HELLO), module="hermes_daemon")
    assert done.returncode == 2
    assert "tls://127.0.0.1:1: bytes are pumped to unix: and tcp:// daemons only" in done.stderr


@pytest.mark.parametrize("private", [True, False])
def test_when_the_parent_is_killed(shell: Shell, private: bool) -> None:
    """The handed case: a daemon of its own ends, and what its tools run; a shared one only drops the client."""
    case("rpc", "parent-died")
    words = ["stdio", "--private"] if private else ["stdio"]
    home_lock = f"{shell.env['HERMES_HOME']}/daemon.lock"
    with shell.start(*words, module="hermes_daemon") as child:
        assert child.stdin is not None
        assert child.stdout is not None
        session = _begin(child.stdin, child.stdout, str(shell.work))
        wait_for(lambda: (shell.work / "pid").is_file() and (shell.work / "pid").read_text().strip())
        running = int((shell.work / "pid").read_text())
        child.kill()
        if private:
            wait_for(lambda: not locks.is_locked(home_lock))
            wait_for(lambda: not os.path.exists(f"/proc/{running}") or _is_zombie(running))
            return
    with connect(shell.address, "test") as connection:
        names: list[str] = []
        while names != ["test"]:
            rows = connection.request("hermes/daemon/status", {}, 10)["connections"]
            names = [row.get("name") for row in rows]
        assert os.path.exists(f"/proc/{running}")
        found = connection.request("hermes/session/get", {"sessionId": session}, 10)
        assert found["state"] == "running"
        connection.request("hermes/turn/interrupt", {"sessionId": session}, 10)
        connection.request("hermes/session/wait", {"sessionId": session, "until": "idle", "timeoutMs": 20_000}, 30)


def _begin(stdin: IO[str], stdout: IO[str], cwd: str) -> str:
    """A session whose turn runs a command that does not end."""

    def ask(id: int, method: str, **params: object) -> dict[str, object]:
        stdin.write(json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}) + "\n")
        stdin.flush()
        while True:
            message = json.loads(stdout.readline())
            if message.get("id") == id:
                result: dict[str, object] = message["result"]
                return result

    ask(1, "initialize", hermes={})
    made = ask(2, "hermes/session/create", cwd=cwd, model=MODEL, options={"mode": "off"})
    session = made["session"]["sessionId"]  # type: ignore[index]
    ask(3, "hermes/turn/submit", sessionId=session, key="k", input=[{"type": "text", "text": "go"}])
    return str(session)


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
