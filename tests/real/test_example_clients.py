"""The clients of docs/howto/write-a-client.md do what the page says, each against a real daemon."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.daemon_process import Daemon, running_daemon
from tests.support.example_clients import COMMANDS, run
from tests.support.peer import Peer

pytestmark = pytest.mark.real
CLIENTS = sorted(COMMANDS)
RELAY = Path(__file__).resolve().parents[1] / "support" / "desync_relay.py"
ROUNDS = """\
rounds:
  - text: I will look.
    calls:
      - name: terminal
        args: {command: "echo hello from the shell > made.txt"}
  - text: Done, ünïcödé 🎈.
"""


def session(daemon: Daemon, folder: Path, model: str) -> str:
    """A session with this model, made by another client."""
    with Peer(daemon.socket_path) as peer:
        peer.request(1, "initialize", {"hermes": {"client": {"name": "maker"}}})
        made = peer.request(2, "hermes/session/create", {"cwd": str(folder), "model": model})
    return str(made["session"]["sessionId"])


def resolved(daemon: Daemon, session_id: str) -> list[tuple[str, str]]:
    """(outcome, name of who answered) of the questions of a session."""
    with Peer(daemon.socket_path) as peer:
        peer.request(1, "initialize", {"hermes": {"client": {"name": "reader"}}})
        epoch = peer.request(2, "hermes/session/get", {"sessionId": session_id})["epoch"]
        since = {"epoch": epoch, "seq": 0}
        answer = peer.request(3, "hermes/session/subscribe", {"sessionId": session_id, "since": since})
        found = []
        while since["seq"] < answer["head"]:
            event = peer.receive()["params"]
            since["seq"] = event["seq"]
            if event["kind"] == "request.resolved":
                found.append((event["data"]["outcome"], event["data"]["by"]["name"]))
    return found


@pytest.mark.parametrize("name", CLIENTS)
def test_it_makes_a_session_says_something_and_shows_the_answer(tmp_path: Path, name: str) -> None:
    with running_daemon(tmp_path, config="model:\n  default: scripted/echo\n") as daemon:
        said = run(name, daemon, tmp_path, "deny", "Hello ünïcödé 🎈, and more.")
        answer, session_id = said.rstrip("\n").rsplit("\n", 1)
        assert answer == "Hello ünïcödé 🎈, and more."
        with Peer(daemon.socket_path) as peer:
            peer.request(1, "initialize", {"hermes": {"client": {"name": "reader"}}})
            assert peer.request(2, "hermes/session/get", {"sessionId": session_id})["session"]["cwd"] == str(tmp_path)


@pytest.mark.parametrize("name", CLIENTS)
@pytest.mark.parametrize(
    ("rule", "typed", "outcome"),
    [("allow", "", "allow_once"), ("deny", "", "deny"), ("ask", "y\n", "allow_once"), ("ask", "n\n", "deny")],
)
def test_it_attaches_to_a_session_and_answers_its_permission(
    tmp_path: Path, name: str, rule: str, typed: str, outcome: str
) -> None:
    (tmp_path / "rounds.yaml").write_text(ROUNDS)
    with running_daemon(tmp_path) as daemon:
        session_id = session(daemon, tmp_path, f"scripted/file:{tmp_path}/rounds.yaml")
        said = run(name, daemon, tmp_path, rule, "Go on.", session_id, typed=typed)
        assert "I will look." in said
        assert "Done, ünïcödé 🎈." in said
        assert ("[y/n]" in said) == (rule == "ask")
        assert resolved(daemon, session_id) == [(outcome, name)]
        assert (tmp_path / "made.txt").exists() == (outcome == "allow_once")


@pytest.mark.parametrize("name", CLIENTS)
@pytest.mark.parametrize("loss", ["told", "gap"])
def test_what_was_lost_on_the_way_is_fetched_and_shown_once(tmp_path: Path, name: str, loss: str) -> None:
    with running_daemon(tmp_path, environ={"DESYNC": loss}) as daemon:
        session_id = session(daemon, tmp_path, "scripted/words?n=40&delay_ms=5")
        said = run(name, daemon, tmp_path, "deny", "Count.", session_id, relay=RELAY)
    assert said.startswith(" ".join(f"word{n}" for n in range(40)) + "\n"), json.dumps(said)


@pytest.mark.parametrize("name", CLIENTS)
def test_it_joins_a_session_with_a_history_and_shows_that_first(tmp_path: Path, name: str) -> None:
    with running_daemon(tmp_path, config="model:\n  default: scripted/echo\n") as daemon:
        session_id = session(daemon, tmp_path, "scripted/echo")
        run(name, daemon, tmp_path, "deny", "First.", session_id)
        assert run(name, daemon, tmp_path, "deny", "Second.", session_id).startswith("First.\nSecond.\n")
