"""`hermes chat -q` as a command, against a scripted daemon on a real socket."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.support.local_daemon import Frame, LocalDaemon, Peer
from tests.support.local_shell import Shell
from tests.support.local_turns import ENDED, Turns, streamed


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def serve(shell: Shell, turns: Turns) -> LocalDaemon:
    return LocalDaemon(shell.address.socket_path, turns.answer)


def test_the_answer_is_on_standard_output_and_nothing_else_is(shell: Shell) -> None:
    turns = Turns([*streamed("i1", "Hel", "lo."), ENDED])
    with serve(shell, turns):
        done = shell.run("chat", "-q", "hi there")
    assert (done.returncode, done.stdout, done.stderr) == (0, "Hello.\n", "")
    assert turns.submitted[0]["input"] == [{"type": "text", "text": "hi there"}]
    assert turns.options == {"unattended": "deny"}


def test_the_question_comes_from_standard_input_with_a_dash_or_without_q(shell: Shell) -> None:
    for words in (("chat", "-q", "-"), ("chat",)):
        turns = Turns([*streamed("i1", "ok\n"), ENDED])
        with serve(shell, turns):
            done = shell.run(*words, stdin="from a pipe, ünicode\n")
        os.unlink(shell.address.socket_path)
        assert done.stdout == "ok\n"
        assert turns.submitted[0]["input"][0]["text"] == "from a pipe, ünicode\n"


def test_options_reach_the_session(shell: Shell, tmp_path: Path) -> None:
    seen: list[Frame] = []
    turns = Turns([ENDED])

    def create(peer: Peer, frame: Frame) -> None:
        seen.append(frame["params"])
        peer.result(frame, {"session": {"sessionId": "s1"}, "seq": 1, "epoch": "e"})

    turns.override["hermes/session/create"] = create
    with serve(shell, turns):
        words = ("--model", "a/b", "--yolo", "--toolsets", "web, terminal", "--cwd", str(tmp_path))
        done = shell.run("chat", "-q", "hi", *words)
    assert done.returncode == 0
    assert seen[0]["model"] == "a/b"
    assert seen[0]["cwd"] == str(tmp_path)
    assert seen[0]["options"] == {"unattended": "deny", "mode": "off", "toolsets": ["web", "terminal"]}


def test_tools_notices_and_denials_are_on_standard_error(shell: Shell) -> None:
    call = {"itemId": "c", "type": "toolCall", "callId": "x", "name": "terminal", "title": "ls"}
    turns = Turns(
        [
            ("item.started", "c", {"item": {**call, "status": "inProgress"}}),
            ("request.opened", "c", {"kind": "permission", "toolCall": {"name": "terminal", "title": "ls"}}),
            ("request.resolved", "c", {"outcome": "policy"}),
            ("item.completed", "c", {"item": {**call, "status": "failed", "error": "denied by policy"}}),
            ("notice", None, {"level": "warning", "code": "x", "text": "careful"}),
            *streamed("i1", "I could not."),
            ENDED,
        ]
    )
    with serve(shell, turns):
        done = shell.run("chat", "-q", "list")
    assert done.stdout == "I could not.\n"
    assert "[terminal] ls\n" in done.stderr
    assert "denied: nobody is here to ask" in done.stderr
    assert "[terminal] denied by policy" in done.stderr
    assert "warning: careful" in done.stderr


def test_json_prints_every_event_as_a_line(shell: Shell) -> None:
    with serve(shell, Turns([*streamed("i1", "é"), ENDED])):
        done = shell.run("chat", "--json", "-q", "hi")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [event["kind"] for event in events] == ["item.started", "item.delta", "item.completed", "turn.ended"]
    assert events[1]["data"]["text"] == "é"
    assert [event["seq"] for event in events] == [2, 3, 4, 5]


@pytest.mark.parametrize("status", ["failed", "refused", "limit", "lost", "interrupted"])
def test_a_turn_that_does_not_complete_is_exit_code_1_with_the_reason(shell: Shell, status: str) -> None:
    ended = ("turn.ended", None, {"status": status, "error": {"kind": "provider_error", "message": "no route"}})
    with serve(shell, Turns([*streamed("i1", "par"), ended])):
        done = shell.run("chat", "-q", "hi")
    assert done.returncode == 1
    assert done.stdout == "par\n"
    assert "no route" in done.stderr


def test_a_connection_that_breaks_is_made_again_and_nothing_is_asked_or_said_twice(shell: Shell) -> None:
    events = [*streamed("i1", "one ", "two ", "three"), ENDED]
    for cut_after in range(1, len(events)):
        turns = Turns(events, cut_after=cut_after)
        with serve(shell, turns) as daemon:
            done = shell.run("chat", "-q", "count")
        os.unlink(shell.address.socket_path)
        assert (done.returncode, done.stdout) == (0, "one two three\n")
        assert "connecting again" in done.stderr
        assert len({submit["key"] for submit in turns.submitted}) == 1
        assert len(turns.submitted) == 2
        clients = [f["params"]["hermes"]["client"]["id"] for f in daemon.frames if f["method"] == "initialize"]
        assert len(set(clients)) == 1


def test_ctrl_c_interrupts_the_turn_and_exits_130(shell: Shell) -> None:
    turns = Turns([*streamed("i1", "never ending"), ENDED], hold_after=2)
    with serve(shell, turns), shell.start("chat", "-q", "hi") as child:
        assert turns.holding.wait(30)
        assert child.stdout is not None
        assert child.stdout.read(5) == "never"
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=30)
    assert child.returncode == 130
    assert turns.interrupted.is_set()
    assert "interrupted" in err
    assert "Traceback" not in err


def test_a_reader_that_has_enough_ends_the_turn_quietly(shell: Shell) -> None:
    turns = Turns([*streamed("i1", "a", "b", "c"), ENDED], hold_after=2)
    waiting: list[Peer] = []

    def subscribe(peer: Peer, frame: Frame) -> None:
        waiting.append(peer)
        turns._subscribe(peer, frame)

    turns.override["hermes/session/subscribe"] = subscribe
    with serve(shell, turns), shell.start("chat", "-q", "hi") as child:
        assert child.stdout is not None
        assert child.stdout.read(1) == "a"
        child.stdout.close()
        turns.hold_after = 3
        turns._event(waiting[0], 3, turns.events[2])
        assert turns.interrupted.wait(30)
        child.wait(30)
        assert child.stderr is not None
        assert child.stderr.read() == ""
    assert child.returncode == 141


def test_a_turn_past_its_timeout_is_interrupted(shell: Shell) -> None:
    turns = Turns([*streamed("i1", "slow"), ENDED], hold_after=1)
    with serve(shell, turns):
        done = shell.run("chat", "-q", "hi", "--timeout", "0.05")
    assert done.returncode == 1
    assert "--timeout" in done.stderr
    assert turns.interrupted.is_set()


def test_continue_takes_the_latest_session_of_the_folder_and_gives_its_options_back(shell: Shell) -> None:
    turns = Turns([*streamed("i1", "again"), ENDED])
    with serve(shell, turns) as daemon:
        done = shell.run("chat", "-c", "-q", "go on", "--yolo")
    assert done.stdout == "again\n"
    asked = next(frame for frame in daemon.frames if frame["method"] == "hermes/session/list")
    assert asked["params"]["cwd"] == str(shell.work)
    assert not any(frame["method"] == "hermes/session/create" for frame in daemon.frames)
    changed = [(f["params"]["id"], f["params"]["value"]) for f in daemon.frames if "setOption" in f["method"]]
    assert changed == [("unattended", "deny"), ("mode", "off"), ("unattended", "wait"), ("mode", None)]


def test_a_session_is_found_by_the_beginning_of_its_id_and_an_unknown_one_is_named(shell: Shell) -> None:
    with serve(shell, Turns([*streamed("i1", "yes"), ENDED])):
        assert shell.run("chat", "-s", "s", "-q", "hi").stdout == "yes\n"
        unknown = shell.run("chat", "-s", "zzz", "-q", "hi")
    assert unknown.returncode == 5
    assert "no session 'zzz'" in unknown.stderr


def test_a_refused_submit_is_a_sentence_and_an_exit_code(shell: Shell) -> None:
    turns = Turns([ENDED])
    turns.override["hermes/turn/submit"] = lambda peer, frame: peer.error(
        frame, -32057, "storage_error", "the disk is full", hint="free some space"
    )
    with serve(shell, turns):
        done = shell.run("chat", "-q", "hi")
    assert (done.returncode, done.stderr) == (69, "hermes: the disk is full free some space\n")


def test_events_after_a_gap_are_not_shown_before_the_gap_is_closed(shell: Shell) -> None:
    events = [*streamed("i1", "one ", "two"), ENDED]
    turns = Turns(events)

    def submit(peer: Peer, frame: Frame) -> None:
        peer.result(frame, {"disposition": "started", "turnId": "t1", "seq": 2})
        turns._live = True
        turns._event(peer, 1, events[0])
        turns._event(peer, 3, events[2])  # the second event is missing

    turns.override["hermes/turn/submit"] = submit
    with serve(shell, turns):
        assert shell.run("chat", "-q", "hi").stdout == "one two\n"


def test_a_message_withdrawn_and_said_again_is_told_apart(shell: Shell) -> None:
    began = streamed("i1", "half")[:2]
    withdrawn = ("item.discarded", "i1", {"reason": "the endpoint hung up"})
    with serve(shell, Turns([*began, withdrawn, *streamed("i2", "whole"), ENDED])):
        done = shell.run("chat", "-q", "hi")
    assert done.stdout == "half\nwhole\n"
    assert "withdrawn: the endpoint hung up" in done.stderr


def test_the_local_model_is_introduced_once_for_each_home(shell: Shell) -> None:
    Path(shell.env["HERMES_HOME"]).mkdir()
    lines = []
    for _ in range(2):
        turns = Turns([*streamed("i1", "hi", model="local/smollm2"), ENDED])
        with serve(shell, turns):
            done = shell.run("chat", "-q", "hi")
        os.unlink(shell.address.socket_path)
        lines.append(done.stderr)
    assert lines[0].count("\n") == 1
    assert "local/smollm2" in lines[0]
    assert "hermes config set model.default" in lines[0]
    assert lines[1] == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-q", "  "), "the question is empty"),
        (("-q", "hi", "-s", "a", "-c"), "exclude each other"),
        (("-q", "hi", "--cwd", "/nowhere/at/all"), "not a folder"),
        (("--bogus",), "unknown option --bogus"),
    ],
)
def test_a_command_line_that_does_not_fit_is_exit_code_2(shell: Shell, words: tuple[str, ...], message: str) -> None:
    with serve(shell, Turns([ENDED])):
        done = shell.run("chat", *words)
    assert done.returncode == 2
    assert message in done.stderr
