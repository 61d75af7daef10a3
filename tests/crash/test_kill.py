"""A real daemon killed with -9 at any instant: the next one has everything that was acknowledged, once.

HERMES_CRASH_KILLS says how often (50), HERMES_CRASH_SEED where the dice start.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import quote

from hermes_daemon.core import history
from hermes_daemon.core.settings import DatabaseSettings
from hermes_daemon.engine.identity import SystemClock
from hermes_daemon.store.sqlite import SqliteStore
from hermes_daemon.tools.terminal.processes import start_time, strays
from tests.support.crash_witness import Witness
from tests.support.daemon_process import Daemon

KILLS = int(os.environ.get("HERMES_CRASH_KILLS", "50"))
SEED = int(os.environ.get("HERMES_CRASH_SEED", "20261"))
CONFIG = "agent: {interrupt_grace_s: 1}\nterminal: {grace_s: 0.2}\ndaemon: {idle_exit_s: 0}\n"


def tool_model(command: str) -> str:
    return f"scripted/tool?name=terminal&args={quote(json.dumps({'command': command}))}"


class Round:
    """One life of the daemon: sessions of every kind, killed in the middle."""

    def __init__(self, witness: Witness, chance: random.Random, folder: Path, number: int) -> None:
        self.witness, self.chance, self.folder, self.number = witness, chance, folder, number
        self.sessions: list[str] = []
        self.pids = folder / f"pids-{number}"
        listed = witness.ask("hermes/session/list", {"cwd": str(folder), "limit": 1000})["sessions"]
        self.older = {one["sessionId"] for one in listed}
        self.forks: list[dict[str, Any]] = []
        self.uploads: list[dict[str, Any]] = []

    def begin(self) -> None:
        """Start the kinds of turns there are, in random order; one of them streams all the time."""
        sleeper = f"echo $$ >> {self.pids}; echo started; sleep 1000"
        kinds: list[tuple[str, dict[str, Any]]] = [
            ("scripted/words?n=300", {}),
            (tool_model("echo one; echo two; seq 1 2000"), {"mode": "off"}),
            (tool_model(sleeper), {"mode": "off"}),
            (tool_model("echo asks"), {}),
            ("scripted/hang?text=some words that stay", {}),
        ]
        self.chance.shuffle(kinds)
        for model, options in [("scripted/words?n=200000&delay_ms=1", {}), *kinds]:
            session = self._create(model, options)
            self._talk(session)

    def _create(self, model: str, options: dict[str, Any]) -> str:
        params = {"cwd": str(self.folder), "model": model, "options": options, "key": f"{self.number}:{model}"}
        created = self.witness.ask("hermes/session/create", params)
        session: str = created["session"]["sessionId"]
        assert self.witness.ask("hermes/session/create", params)["session"]["sessionId"] == session
        self.sessions.append(session)
        self.witness.subscribe(session)
        return session

    def _talk(self, session: str) -> None:
        for place in range(self.chance.randint(1, 4)):
            how = "queue" if place == 0 else self.chance.choice(["queue", "queue", "steer", "interrupt"])
            self.witness.submit(session, f"message {place} of {session}", whenBusy=how)
            for _ in range(self.chance.randint(0, 5)):
                self.witness.hear()

    def live_on(self) -> None:
        """Some more of its life, and sometimes answers and interrupts."""
        for _ in range(self.chance.randint(0, 400)):
            self.witness.hear()
            if self.chance.random() < 0.02:
                self._meddle()
        for _ in range(self.chance.randint(0, 3000)):  # a fraction of a microsecond each: any instant
            os.getpid()

    def _meddle(self) -> None:
        session = self.chance.choice(self.sessions)
        for kind, data in list(self.witness.events.get(session, {}).values()):
            if kind == "request.opened":
                answer = {"optionId": self.chance.choice(["allow_once", "deny"])}
                self.witness.send("hermes/request/answer", {"requestId": data["requestId"], "answer": answer})
        self._branch_out(session)
        queue = self.chance.choice(["keep", "pause", "keep"])
        if session != self.sessions[0]:
            self.witness.interrupt(session, queue)

    def _branch_out(self, session: str) -> None:
        """Fork it, edit its queue, bring it a blob; do not wait for any of it."""
        key = f"{self.number}:{len(self.forks)}"
        fork = {"sessionId": session, "key": key}
        upload = {"sessionId": session, "key": key, "data": f"piece {key}"}
        self.forks.append(fork)
        self.uploads.append(upload)
        self.witness.send("hermes/session/fork", fork)
        self.witness.send("hermes/blob/create", upload)
        self.witness.send("hermes/queue/reorder", {"sessionId": session, "order": [], "key": key})

    def _judge_branches(self) -> None:
        """Whatever became of a fork and of an upload: asked for again, there is one, and it is whole."""
        for fork in self.forks:
            made = self.witness.ask("hermes/session/fork", fork)["session"]["sessionId"]
            assert self.witness.ask("hermes/session/fork", fork)["session"]["sessionId"] == made
            items = self.witness.ask("hermes/session/items", {"sessionId": made, "limit": 1000})["items"]
            assert all(item["status"] != "inProgress" for item in items)
        listed = self.witness.ask("hermes/session/list", {"cwd": str(self.folder), "limit": 1000})["sessions"]
        expected = len(self.sessions) + len(self.forks)
        assert len([one for one in listed if one["sessionId"] not in self.older]) == expected
        for upload in self.uploads:
            blob = self.witness.ask("hermes/blob/create", upload)["blobId"]
            assert self.witness.ask("hermes/blob/read", {"blobId": blob})["data"] == upload["data"]

    def judge(self, disk: dict[str, dict[str, str]]) -> None:
        for session in self.sessions:
            self.witness.judge(session, disk[session])
            self.witness.repeat(session)
        self._judge_branches()
        assert not self._living(), "a tool's process outlived the daemon"

    def _living(self) -> list[int]:
        if not self.pids.exists():
            return []
        found = [int(line) for line in self.pids.read_text().split()]
        return [pid for pid in found if start_time(pid) and strays("", pid)]

    def go_on(self) -> None:
        """Queued messages run when somebody says so, and every session takes another turn."""
        witness = self.witness
        for session in self.sessions:
            model = {"sessionId": session, "id": "model", "value": "scripted/echo"}
            witness.ask("hermes/session/setOption", model)
            queue = witness.ask("hermes/queue/resume", {"sessionId": session})["queue"]
            for entry in queue:
                witness.hear_until(session, "turn.ended", turnId=entry["turnId"], status="completed")
            witness.submit(session, f"the next of {session}")
            while f"the next of {session}" not in witness.acknowledged:
                assert witness.hear()
            turn = witness.acknowledged[f"the next of {session}"][1]["turnId"]
            witness.hear_until(session, "turn.ended", turnId=turn, status="completed")


def on_disk(home: Path, scratch: Path, sessions: list[str], *, closed: bool) -> dict[str, dict[str, str]]:
    """What the killed daemon left, read from a copy: the text of open items. `closed`: nothing may be open."""
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    for name in ("state.db", "state.db-wal"):
        if (home / name).exists():
            shutil.copy(home / name, scratch / name)
    store = SqliteStore.open(str(scratch / "state.db"), DatabaseSettings(), SystemClock())
    try:
        found = {session: {row.item.item_id: row.text for row in store.open_items(session)} for session in sessions}
        assert all(store.session(session) is not None for session in sessions)
        if closed:
            assert not any(found.values())
            assert not store.open_turns()
            assert not store.open_requests()
            assert all(history.check(store.messages(session)) == [] for session in sessions)
        return found
    finally:
        asyncio.run(store.close())


def test_a_daemon_killed_at_any_instant_has_lost_and_doubled_nothing(tmp_path: Path) -> None:
    home = tmp_path / "home"
    daemon = Daemon(home, tmp_path / "run")
    (home / "config.yaml").write_text(CONFIG)
    witness, chance = Witness(), random.Random(SEED)
    last: Round | None = None
    disk: dict[str, dict[str, str]] = {}
    try:
        for number in range(KILLS + 1):
            daemon.start()
            witness.connect(daemon.socket_path)
            if last is not None:
                last.judge(disk)
                on_disk(home, tmp_path / "copy", last.sessions, closed=True)
                last.go_on()
                for session in last.sessions:
                    witness.ask("hermes/session/unsubscribe", {"sessionId": session})
            if number == KILLS:
                break
            last = Round(witness, chance, tmp_path, number)
            last.begin()
            last.live_on()
            daemon.kill()
            while witness.hear():
                pass
            witness.close()
            disk = on_disk(home, tmp_path / "copy", last.sessions, closed=False)
    finally:
        witness.close()
        daemon.kill()
