"""A disk that is full or read-only under a real daemon: what cannot be kept is refused, and everything goes on by
itself when there is room again. The handed cases sessions/db-lock-seconds and sessions/db-create-fails-then-append."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.crash_witness import Witness
from tests.support.daemon_process import Daemon
from tests.support.store_disk import SmallDisk, small_disk
from tests.support.store_lock import locked_by_another_process

CONFIG = "agent: {interrupt_grace_s: 1}\ndaemon: {idle_exit_s: 0}\n"


@contextmanager
def daemon_on_small_disk(tmp_path: Path) -> Iterator[tuple[Daemon, SmallDisk, Witness]]:
    with small_disk(tmp_path / "disk") as disk:
        daemon, witness = Daemon(disk.path / "home", tmp_path / "run"), Witness()
        (disk.path / "home" / "config.yaml").write_text(CONFIG)
        daemon.start()
        try:
            witness.connect(daemon.socket_path)
            yield daemon, disk, witness
        finally:
            witness.close()
            daemon.kill()


def session_of(witness: Witness, model: str) -> str:
    created = witness.ask("hermes/session/create", {"cwd": "/", "model": model})
    session: str = created["session"]["sessionId"]
    witness.subscribe(session)
    return session


def refused(witness: Witness, number: int) -> dict[str, Any]:
    error: dict[str, Any] = witness.answer(number)["error"]
    return error


def accepted(witness: Witness, number: int) -> str:
    result = witness.answer(number)["result"]
    assert "duplicate" not in result
    turn: str = result["turnId"]
    return turn


def user_texts(witness: Witness, session: str) -> list[str]:
    items = witness.ask("hermes/session/items", {"sessionId": session, "limit": 1000})["items"]
    return [item["text"] for item in items if item["type"] == "userMessage"]


def test_a_full_disk_refuses_a_message_and_takes_it_when_there_is_room(tmp_path: Path) -> None:
    with daemon_on_small_disk(tmp_path) as (_, disk, witness):
        session = session_of(witness, "scripted/echo")
        turn = accepted(witness, witness.submit(session, "before"))
        witness.hear_until(session, "turn.ended", turnId=turn)
        disk.fill()
        error = refused(witness, witness.submit(session, "now"))
        assert (error["data"]["kind"], error["data"]["retryable"]) == ("storage_error", True)
        assert "the disk is full" in error["message"]
        assert "the disk is full" in witness.ask("hermes/daemon/status", {})["storage"]
        assert witness.ask("hermes/session/get", {"sessionId": session})["state"] == "idle"
        assert witness.subscribe(session)["mode"] == "snapshot"
        created = witness.send("hermes/session/create", {"cwd": "/"})
        assert refused(witness, created)["data"]["kind"] == "storage_error"
        rename = witness.send("hermes/session/rename", {"sessionId": session, "title": "another"})
        assert refused(witness, rename)["data"]["kind"] == "storage_error"
        disk.free()
        turn = accepted(witness, witness.submit(session, "now"))
        witness.hear_until(session, "turn.ended", turnId=turn, status="completed")
        assert user_texts(witness, session) == ["before", "now"]
        assert len(witness.log) == 2
        assert "the disk is full" in witness.log[0]
        assert witness.log[1] == "Everything can be stored again."
        assert witness.ask("hermes/daemon/status", {}).get("storage", "ok") == "ok"
        assert witness.ask("hermes/session/get", {"sessionId": session})["session"]["title"] == "before"


def test_a_disk_that_fills_in_the_middle_of_a_turn_delays_its_end_and_loses_nothing(tmp_path: Path) -> None:
    with daemon_on_small_disk(tmp_path) as (_, disk, witness):
        session = session_of(witness, "scripted/words?n=400&delay_ms=1")
        turn = accepted(witness, witness.submit(session, "go"))
        witness.hear_until(session, "item.started")
        disk.fill()
        assert refused(witness, witness.submit(session, "more"))["data"]["kind"] == "storage_error"
        assert not [kind for kind, _ in witness.events[session].values() if kind == "turn.ended"]
        disk.free()
        witness.hear_until(session, "turn.ended", turnId=turn, status="completed")
        items = witness.ask("hermes/session/items", {"sessionId": session})["items"]
        assert items[-1]["text"] == " ".join(f"word{number}" for number in range(400))
        assert user_texts(witness, session) == ["go"]


def test_an_interrupt_on_a_full_disk_is_taken_and_the_end_is_written_later(tmp_path: Path) -> None:
    with daemon_on_small_disk(tmp_path) as (_, disk, witness):
        session = session_of(witness, "scripted/hang?text=some words")
        turn = accepted(witness, witness.submit(session, "go"))
        witness.hear_until(session, "item.started")
        disk.fill()
        stopped = witness.ask("hermes/turn/interrupt", {"sessionId": session, "turnId": turn})
        assert stopped["status"] == "interrupting"
        error = refused(witness, witness.submit(session, "more"))
        assert error["data"]["kind"] == "storage_error"
        disk.free()
        witness.hear_until(session, "turn.ended", turnId=turn, status="interrupted")


def test_a_stop_on_a_full_disk_ends_the_process_and_the_next_start_ends_the_turn(tmp_path: Path) -> None:
    with daemon_on_small_disk(tmp_path) as (daemon, disk, witness):
        session = session_of(witness, "scripted/hang?text=some words")
        accepted(witness, witness.submit(session, "go"))
        witness.hear_until(session, "item.started")
        disk.fill()
        assert refused(witness, witness.submit(session, "more"))["data"]["kind"] == "storage_error"
        witness.ask("hermes/daemon/shutdown", {"mode": "now"})
        while witness.hear():
            pass
        assert daemon.stop() == 0
        disk.free()
        daemon.start()
        witness.connect(daemon.socket_path)
        witness.judge(session, {})
        ends = [data["status"] for kind, data in witness.events[session].values() if kind == "turn.ended"]
        assert ends == ["lost"]


def test_a_daemon_that_starts_on_a_full_disk_serves_as_soon_as_it_can_write(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        daemon, witness = Daemon(disk.path / "home", tmp_path / "run"), Witness()
        daemon.start()
        witness.connect(daemon.socket_path)
        session = session_of(witness, "scripted/echo")
        witness.close()
        daemon.kill()
        disk.fill()
        daemon.start()
        try:
            witness.connect(daemon.socket_path)
            number = witness.submit(session, "are you there")
            assert refused(witness, number)["data"]["kind"] == "storage_error"
            disk.free()
            answer: dict[str, Any] = {}
            while "result" not in answer:
                answer = witness.answer(witness.submit(session, "are you there"))
            assert user_texts(witness, session) == ["are you there"]
        finally:
            witness.close()
            daemon.kill()


def test_a_lock_of_another_process_delays_a_write_and_loses_nothing(tmp_path: Path) -> None:
    daemon, witness = Daemon(tmp_path / "home", tmp_path / "run"), Witness()
    daemon.start()
    try:
        witness.connect(daemon.socket_path)
        session = session_of(witness, "scripted/echo")
        with locked_by_another_process(tmp_path / "home" / "state.db") as lock:
            number = witness.submit(session, "wait for me")
            created = witness.send("hermes/session/create", {"cwd": "/", "key": "one"})
            assert witness.ask("hermes/daemon/ping", {"echo": 1})["echo"] == 1
            lock.release()
            turn = accepted(witness, number)
            assert witness.answer(created)["result"]["session"]["sessionId"]
        witness.hear_until(session, "turn.ended", turnId=turn, status="completed")
        assert user_texts(witness, session) == ["wait for me"]
        assert witness.ask("hermes/daemon/status", {}).get("storage", "ok") == "ok"
    finally:
        witness.close()
        daemon.kill()


def test_a_rewind_a_fork_and_an_upload_on_a_full_disk_change_nothing_and_are_done_once_later(tmp_path: Path) -> None:
    with daemon_on_small_disk(tmp_path) as (_, disk, witness):
        session = session_of(witness, "scripted/echo")
        for text in ("one", "two"):
            turn = accepted(witness, witness.submit(session, text))
            witness.hear_until(session, "turn.ended", turnId=turn)
        items = witness.ask("hermes/session/items", {"sessionId": session})["items"]
        of = {"sessionId": session, "key": "k"}
        asked = [
            ("hermes/session/fork", of),
            ("hermes/blob/create", {**of, "data": "x" * 100_000}),
            ("hermes/session/rewind", {**of, "toItemId": items[1]["itemId"], "expectRev": 0}),
        ]
        disk.fill()
        for method, params in asked:
            error = refused(witness, witness.send(method, params))
            assert (method, error["data"]["kind"]) == (method, "storage_error")
        assert user_texts(witness, session) == ["one", "two"]
        disk.free()
        for method, params in asked:
            while "result" not in (first := witness.answer(witness.send(method, params))):
                assert first["error"]["data"]["retryable"]
            again = witness.ask(method, params)
            again.pop("duplicate", None)
            assert again == first["result"]
        assert user_texts(witness, session) == ["one"]
        assert len(witness.ask("hermes/session/list", {})["sessions"]) == 2
