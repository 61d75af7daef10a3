"""How a daemon ends, with everything going on: drained, at once, hurried, by signals; and what it does not start on."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from hermes_daemon.tools.terminal.processes import start_time
from hermes_local import locks
from tests.support.crash_witness import Witness
from tests.support.daemon_process import Daemon
from tests.support.local_shell import wait_for

CONFIG = "agent: {interrupt_grace_s: 5}\nterminal: {grace_s: 0.2}\ndaemon: {idle_exit_s: 0}\n"


class Scene:
    """A daemon, a client, and sessions."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.daemon, self.witness = Daemon(folder / "home", folder / "run"), Witness()
        self.config = folder / "home" / "config.yaml"
        self.config.write_text(CONFIG)

    def start(self) -> None:
        self.daemon.start()
        self.witness.connect(self.daemon.socket_path)

    def session(self, model: str, **options: Any) -> str:
        params = {"cwd": str(self.folder), "model": model, "options": options}
        session: str = self.witness.ask("hermes/session/create", params)["session"]["sessionId"]
        self.witness.subscribe(session)
        return session

    def submit(self, session: str, text: str) -> str:
        turn: str = self.witness.answer(self.witness.submit(session, text))["result"]["turnId"]
        return turn

    def ended(self) -> int:
        """Read until the daemon is gone; its exit code."""
        while self.witness.hear():
            pass
        assert self.daemon.process is not None
        return self.daemon.process.wait(timeout=30)

    def statuses(self, session: str) -> list[str]:
        told = self.witness.events[session]
        return [told[number][1]["status"] for number in sorted(told) if told[number][0] == "turn.ended"]

    def serve(self) -> subprocess.Popen[bytes]:
        """A daemon that is just starting."""
        command = [sys.executable, "-m", "hermes_daemon", "serve", "--runtime-dir", self.daemon.address.runtime_dir]
        nowhere = subprocess.DEVNULL
        return subprocess.Popen(command, env=self.daemon.environ, stdin=nowhere, stdout=nowhere, stderr=nowhere)

    def chat(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "hermes_shell", *words]
        return subprocess.run(
            command, env=self.daemon.environ, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60
        )


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path)
    yield scene
    scene.witness.close()
    scene.daemon.kill()


def sleeper(pids: Path) -> str:
    command = f"echo $$ > {pids}; echo begun; sleep 1000"
    return f"scripted/tool?name=terminal&args={quote(json.dumps({'command': command}))}"


def test_a_drain_lets_the_turn_finish_and_the_queued_one_too(scene: Scene) -> None:
    scene.start()
    session = scene.session("scripted/words?n=50&delay_ms=1")
    scene.submit(session, "first")
    scene.submit(session, "second")
    scene.witness.ask("hermes/daemon/shutdown", {"mode": "drain"})
    late = scene.witness.answer(scene.witness.submit(session, "third"))
    assert late["error"]["data"]["kind"] == "draining"
    assert scene.ended() == 0
    assert scene.statuses(session) == ["completed", "completed"]


def test_a_drain_that_waits_for_a_person_is_hurried_by_a_stop_now(scene: Scene) -> None:
    scene.start()
    session = scene.session(sleeper(scene.folder / "pid"))
    scene.submit(session, "first")
    scene.submit(session, "second")
    scene.witness.hear_until(session, "request.opened")
    waiting = scene.witness.ask("hermes/daemon/shutdown", {"mode": "drain", "deadlineS": 600})["waitingFor"]
    assert any(name.startswith("turn of") for name in waiting)
    scene.witness.ask("hermes/daemon/shutdown", {"mode": "drain"})
    scene.witness.ask("hermes/daemon/shutdown", {"mode": "now"})
    assert scene.ended() == 0
    assert scene.statuses(session) == ["interrupted"]
    scene.start()
    scene.witness.judge(session, {})
    assert len(scene.witness.ask("hermes/queue/list", {"sessionId": session})["queue"]) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_turns_and_their_processes_and_keeps_what_was_said(scene: Scene, number: int) -> None:
    scene.start()
    pids = scene.folder / "pid"
    acting, talking = scene.session(sleeper(pids), mode="off"), scene.session("scripted/hang?text=some words")
    scene.submit(acting, "run it")
    scene.submit(talking, "talk")
    scene.witness.hear_until(talking, "item.started")
    while not pids.exists() or not pids.read_text().strip():
        assert scene.witness.hear()
    pid = int(pids.read_text())
    os.kill(scene.daemon.pid, number)
    os.kill(scene.daemon.pid, number)
    assert scene.ended() == 0
    assert not start_time(pid)
    assert scene.statuses(acting) == scene.statuses(talking) == ["interrupted"]
    scene.start()
    scene.witness.judge(acting, {})
    scene.witness.judge(talking, {})


def test_an_idle_daemon_leaves_by_itself_and_names_what_keeps_it(scene: Scene) -> None:
    scene.config.write_text("daemon: {idle_exit_s: 0.1}\n")
    scene.start()
    session = scene.session("scripted/hang?text=words")
    turn = scene.submit(session, "hold it")
    scene.witness.hear_until(session, "item.started")
    holders = scene.witness.ask("hermes/daemon/status", {})["idle"]["holders"]
    assert f"turn of {session}" in holders
    scene.witness.connect(scene.daemon.socket_path)
    scene.witness.subscribe(session)
    scene.witness.ask("hermes/turn/interrupt", {"sessionId": session, "turnId": turn})
    scene.witness.hear_until(session, "turn.ended", turnId=turn, status="interrupted")
    scene.witness.close()
    assert scene.daemon.process is not None
    assert scene.daemon.process.wait(timeout=30) == 0


def test_a_second_daemon_on_the_same_home_does_not_start_and_harms_nobody(scene: Scene) -> None:
    scene.start()
    session = scene.session("scripted/echo")
    second = Daemon(scene.folder / "home", scene.folder / "run")
    second.start()  # returns with the word that it does not
    assert second.ready["ready"] is False
    assert "already runs" in second.ready["message"]
    assert second.stop() == 75
    turn = scene.submit(session, "still there?")
    scene.witness.hear_until(session, "turn.ended", turnId=turn, status="completed")


def test_a_newer_database_is_refused_with_its_sentence_on_the_wire_and_in_the_shell(scene: Scene) -> None:
    path = scene.folder / "home" / "state.db"
    with sqlite3.connect(path) as newer:
        newer.execute("PRAGMA user_version = 999")
    newer.close()
    before = path.read_bytes()
    scene.start()
    error = scene.witness.answer(scene.witness.send("hermes/session/create", {"cwd": "/"}))["error"]
    assert (error["data"]["kind"], error["data"]["retryable"]) == ("storage_error", False)
    assert "schema version 999" in error["message"]
    assert "schema version 999" in scene.witness.ask("hermes/daemon/status", {})["storage"]
    chat = scene.chat("chat", "--model", "scripted/echo", "-q", "hello")
    assert (chat.returncode, chat.stdout) == (69, "")
    assert "schema version 999" in chat.stderr
    assert path.read_bytes() == before
    path.unlink()
    while "error" in (created := scene.witness.answer(scene.witness.send("hermes/session/create", {"cwd": "/"}))):
        assert created["error"]["data"]["kind"] == "storage_error"


def test_a_damaged_database_is_set_aside_and_both_status_and_doctor_say_so(scene: Scene) -> None:
    path = scene.folder / "home" / "state.db"
    path.write_bytes(b"this was a database once" * 100)
    scene.start()
    scene.session("scripted/echo")
    warnings = scene.witness.ask("hermes/daemon/status", {})["warnings"]
    assert any("was damaged" in text for text in warnings)
    doctor = scene.chat("doctor")
    assert "set aside" in doctor.stdout
    aside = [found for found in path.parent.iterdir() if found.name.startswith("state.db.corrupt")]
    assert [found.read_bytes()[:24] for found in aside] == [b"this was a database once"]


def test_what_the_configuration_denies_stays_denied_when_the_file_breaks(scene: Scene) -> None:
    scene.config.write_text(CONFIG + "approvals: {mode: 'off', deny: ['terminal:*']}\n")
    scene.start()
    session = scene.session("scripted/tool?name=terminal&args=" + quote('{"command": "echo ran"}'))
    scene.config.write_text(CONFIG + "approvals: {mode: 'off', deny: [\n")
    os.kill(scene.daemon.pid, signal.SIGHUP)
    turn = scene.submit(session, "try")
    scene.witness.hear_until(session, "turn.ended", turnId=turn, status="completed")
    items = scene.witness.ask("hermes/session/items", {"sessionId": session})["items"]
    assert [item["status"] for item in items if item["type"] == "toolCall"] == ["failed"]


def test_no_turn_starts_on_a_file_that_was_broken_from_the_start_until_it_is_mended(scene: Scene) -> None:
    scene.config.write_text(CONFIG + "approvals: {mode: 'off', deny: [\n")
    scene.start()
    session = scene.session("scripted/tool?name=terminal&args=" + quote('{"command": "echo ran"}'))
    error = scene.witness.answer(scene.witness.submit(session, "try"))["error"]
    assert error["data"]["retryable"] is False
    assert "config.yaml" in error["message"]
    scene.config.write_text(CONFIG + "approvals: {mode: 'off', deny: ['terminal:*']}\n")
    turn = scene.submit(session, "try")
    scene.witness.hear_until(session, "turn.ended", turnId=turn, status="completed")
    items = scene.witness.ask("hermes/session/items", {"sessionId": session})["items"]
    assert [item["status"] for item in items if item["type"] == "toolCall"] == ["failed"]


def test_a_signal_at_any_point_of_a_start_leaves_nothing_behind(scene: Scene) -> None:
    address = scene.daemon.address
    points = (address.lock_path, address.socket_path, address.state_path, f"{address.home}/state.db")
    for point in points:
        for path in points:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        with scene.serve() as starting:
            wait_for(lambda point=point: os.path.exists(point))
            starting.send_signal(signal.SIGTERM)
            # 143: the start was given up; 0: the daemon had begun to serve and was stopped.
            assert starting.wait(timeout=30) in (0, 143), point
        assert not os.path.exists(address.socket_path), point
        assert not os.path.exists(address.state_path), point
        assert not locks.is_locked(address.lock_path)
    scene.start()
    scene.session("scripted/echo")


def test_a_broken_pipe_signal_changes_nothing(scene: Scene) -> None:
    scene.start()
    session = scene.session("scripted/echo")
    os.kill(scene.daemon.pid, signal.SIGPIPE)
    turn = scene.submit(session, "still there?")
    scene.witness.hear_until(session, "turn.ended", turnId=turn, status="completed")


@pytest.mark.parametrize("how", ["signal", "request"])
def test_a_reload_by_signal_or_by_request_has_the_same_effect_and_tells_everybody_what_is_wrong(
    scene: Scene, how: str
) -> None:
    scene.start()
    watcher = Witness()
    watcher.connect(scene.daemon.socket_path)
    scene.session("scripted/echo")

    def reload() -> None:
        if how == "signal":
            os.kill(scene.daemon.pid, signal.SIGHUP)
        else:
            scene.witness.ask("hermes/daemon/reload", {})

    scene.config.write_text("agent: {max_rounds: lots}\n")
    reload()
    while not watcher.log:
        assert watcher.hear()
    assert "max_rounds" in watcher.log[0]
    assert "max_rounds" in Path(scene.daemon.address.log_path).read_text()
    scene.config.write_text("agent: {max_rounds: 7}\ndaemon: {idle_exit_s: 4711}\n")
    reload()
    assert scene.witness.ask("hermes/config/get", {"path": "agent.max_rounds"})["value"] == 7
    watcher.close()


def test_a_drain_tells_everybody_refuses_new_work_and_lets_answers_through(scene: Scene) -> None:
    scene.start()
    watcher = Witness()
    watcher.connect(scene.daemon.socket_path)
    session = scene.session("scripted/tool?name=terminal&args=" + quote('{"command": "echo ran"}'))
    scene.submit(session, "first")
    asked = scene.witness.hear_until(session, "request.opened")
    params = {"mode": "drain", "restart": True, "reason": "an upgrade", "deadlineS": 60}
    scene.witness.ask("hermes/daemon/shutdown", params)
    for told in (watcher.note("hermes/daemon/state"), scene.witness.note("hermes/daemon/state")):
        assert told == {"state": "draining", "deadlineS": 60, "restart": True, "reason": "an upgrade"}
    error = scene.witness.answer(scene.witness.submit(session, "second"))["error"]
    assert error["code"] == -32051
    assert (error["data"]["restart"], error["data"]["retryable"]) == (True, True)
    assert error["data"]["retryAfterMs"] > 0
    created = scene.witness.answer(scene.witness.send("hermes/session/create", {"cwd": "/"}))
    assert created["error"]["data"]["kind"] == "draining"
    handover = scene.witness.ask("hermes/daemon/status", {})["handover"]
    assert (handover["state"], handover["restart"], handover["reason"]) == ("draining", True, "an upgrade")
    assert 0 < handover["deadlineS"] <= 60
    assert any(name.startswith("turn of") for name in handover["waitingFor"])
    answer = {"requestId": asked["requestId"], "answer": {"optionId": "allow_once"}, "key": "a"}
    scene.witness.ask("hermes/request/answer", answer)
    assert scene.ended() == 0
    assert scene.statuses(session) == ["completed"]
    assert watcher.note("hermes/daemon/state")["state"] == "stopping"
    watcher.close()


def test_what_is_queued_when_the_time_of_a_drain_is_over_waits_in_the_next_daemon(scene: Scene) -> None:
    scene.start()
    session = scene.session("scripted/hang?text=words")
    scene.submit(session, "first")
    scene.submit(session, "second")
    scene.submit(session, "third")
    scene.witness.ask("hermes/daemon/shutdown", {"mode": "drain", "deadlineS": 0.2, "restart": True})
    assert scene.ended() == 0
    assert scene.statuses(session) == ["interrupted"]
    scene.start()
    scene.witness.judge(session, {})
    queue = scene.witness.ask("hermes/queue/list", {"sessionId": session})["queue"]
    assert [entry["input"][0]["text"] for entry in queue] == ["second", "third"]


def test_a_drain_with_nothing_to_do_leaves_at_once(scene: Scene) -> None:
    scene.start()
    scene.session("scripted/echo")
    assert scene.witness.ask("hermes/daemon/shutdown", {"mode": "drain", "deadlineS": 600}) == {"accepted": True}
    assert scene.ended() == 0


def test_the_old_daemon_takes_nothing_of_its_successor_away_when_it_finally_leaves(scene: Scene) -> None:
    """The handed case rpc/old-daemon-unlinks-new-socket: starters while the old one drains get one daemon."""
    scene.start()
    session = scene.session("scripted/words?n=100&delay_ms=10")
    scene.submit(session, "count")
    scene.witness.ask("hermes/daemon/shutdown", {"mode": "drain", "restart": True})
    command = [sys.executable, "-m", "hermes_shell", "chat", "-m", "scripted/echo", "-q", "hello"]
    starters = [
        subprocess.Popen(command, env=scene.daemon.environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        for _ in range(20)
    ]
    assert scene.ended() == 0
    assert [starter.communicate(timeout=120)[0] for starter in starters] == ["hello\n"] * 20
    assert scene.statuses(session) == ["completed"]
    pid = json.loads(Path(scene.daemon.address.state_path).read_text())["pid"]
    assert os.path.exists(scene.daemon.socket_path)
    scene.witness.connect(scene.daemon.socket_path)
    assert scene.witness.ask("hermes/daemon/status", {})["pid"] == pid
    scene.witness.ask("hermes/daemon/shutdown", {"mode": "now"})
    while scene.witness.hear():
        pass
    wait_for(lambda: not locks.is_locked(scene.daemon.address.lock_path))
