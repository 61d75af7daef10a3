"""The interactive chat as a person uses it: on a terminal, against the real daemon."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.support.client_tmux import HERMES, Desk, Pane, absent, desk
from tests.support.other_build import Build

pytestmark = [pytest.mark.real, pytest.mark.skipif(bool(absent()), reason=absent())]


@pytest.fixture
def here() -> Iterator[Desk]:
    with desk() as made:
        yield made


def session_id(pane: Pane) -> str:
    """The session's id, the last thing in the status line."""
    line = next(line for line in reversed(pane.wait("idle").splitlines()) if "idle" in line)
    return line.split("·")[-1].strip()


def words(n: int, delay_ms: int = 0) -> str:
    return f"scripted/words?n={n}&delay_ms={delay_ms}"


def tool(command: str) -> str:
    return f"scripted/tool?name=terminal&args={quote(json.dumps({'command': command}))}"


def test_an_answer_streams_in_and_stays(here: Desk) -> None:
    pane = here.chat("--model", words(300, 10))
    pane.enter("count")
    early = pane.wait("word20")
    assert "word299" not in early
    whole = pane.wait("word299")
    assert "› count" in whole
    assert set(re.findall(r"word\d+", whole)) == {f"word{n}" for n in range(300)}
    pane.wait("idle")


def test_markdown_is_shown_as_it_is_meant(here: Desk) -> None:
    pane = here.chat("--model", "scripted/echo")
    pane.paste("# Title\n\nSome **bold** words.\n\n- one\n- two")
    pane.press("Enter")
    shown = pane.wait(lambda text: "• two" in text and "idle" in text)
    assert "Some bold words." in shown


def test_ctrl_c_interrupts_and_twice_leaves(here: Desk) -> None:
    pane = here.chat("--model", "scripted/hang?text=thinking")
    pane.enter("go")
    pane.wait(lambda text: "thinking" in text and "running" in text)
    pane.press("C-c")
    pane.wait("interrupted")
    pane.wait("idle", history=False)
    pane.press("C-c")
    pane.wait("Ctrl-C again leaves")
    pane.press("C-c")
    shown = pane.wait("[left with 0]")
    assert "Come back with: hermes attach" in shown


def test_ctrl_c_clears_what_is_typed_and_typing_disarms_it(here: Desk) -> None:
    pane = here.chat("--model", "scripted/echo")
    pane.type("half a thought")
    pane.wait("half a thought")
    pane.press("C-c")
    pane.wait(lambda text: "half a thought" not in text)
    pane.press("C-c")
    pane.wait("Ctrl-C again leaves")
    pane.type("x")
    pane.wait(lambda text: "again leaves" not in text)
    pane.press("C-d", "BSpace", "C-d")
    pane.wait("[left with 0]")


def test_a_message_typed_ahead_is_queued_and_then_answered(here: Desk) -> None:
    pane = here.chat("--model", words(150, 20))
    pane.enter("first")
    pane.wait("word5")
    pane.enter("second")
    pane.wait("queued: second")
    pane.wait("1 queued")
    shown = pane.wait("› second")
    assert shown.index("word149") < shown.index("› second")
    pane.press("C-c")
    pane.wait("interrupted")


def test_a_permission_is_asked_and_given(here: Desk) -> None:
    pane = here.chat("--model", tool("echo from-the-shell"))
    pane.enter("do it")
    pane.wait("1 once")
    assert "from-the-shell" in pane.wait("command: echo from-the-shell")
    pane.type("1")
    shown = pane.wait(lambda text: "│ from-the-shell" in text and "idle" in text)
    assert "allowed once by you" in shown


def test_a_permission_is_denied_with_a_reason(here: Desk) -> None:
    pane = here.chat("--model", tool("rm -r build"))
    pane.enter("do it")
    pane.wait("4 deny")
    pane.type("4")
    pane.wait("Why not?")
    pane.enter("keep the build")
    shown = pane.wait(lambda text: "denied by you (keep the build)" in text and "idle" in text)
    assert "keep the build" in shown.split("denied by you")[1]


def test_words_typed_ahead_allow_nothing(here: Desk) -> None:
    pane = here.chat("--model", tool("echo x"))
    pane.enter("do it")
    pane.wait("1 once")
    pane.type("then 1 more thing")
    pane.wait("then 1 more thing")
    assert "allowed" not in pane.screen()
    pane.press("M-1")
    pane.wait("allowed once by you")
    pane.wait("then 1 more thing")  # the screen is drawn anew: the words come back with it


def test_two_terminals_share_a_session(here: Desk) -> None:
    first = here.chat("--model", tool("echo shared"))
    second = here.chat("--session", session_id(first))
    first.wait("1 other client")
    first.enter("hello from the first")
    second.wait("› hello from the first  (chat ada)")
    first.wait("1 once")
    second.wait("1 once")
    second.type("1")
    assert "allowed once by chat ada" in first.wait("allowed once by")
    assert "allowed once by you" in second.wait("allowed once by")
    first.wait(lambda text: "│ shared" in text)
    second.wait(lambda text: "│ shared" in text)
    second.press("C-d")
    second.wait("[left with 0]")
    first.wait(lambda text: "other client" not in text, history=False)


def test_a_late_terminal_sees_the_words_said_so_far(here: Desk) -> None:
    first = here.chat("--model", words(400, 20))
    chat = session_id(first)
    first.enter("count")
    first.wait("word30")
    second = here.tmux.open(*HERMES, "chat", "--session", chat, cwd=here.work)
    early = second.wait("word30")
    assert "word0 word1 word2" in early
    first.press("C-c")
    second.wait("interrupted")


def test_the_commands_answer(here: Desk) -> None:
    pane = here.chat("--model", "scripted/echo")
    first = session_id(pane)
    pane.enter("/help")
    pane.wait("/rename TITLE")
    pane.enter("remember me")
    pane.wait(lambda text: text.count("remember me") >= 2)
    pane.enter("/rename A good name")
    pane.wait("renamed: A good name")
    pane.enter("/model scripted/words?n=3")
    pane.wait("model is now scripted/words?n=3")
    pane.enter("/tools")
    pane.wait("read_file")
    pane.enter("/compact")
    pane.wait("later version")
    pane.enter("/new")
    pane.wait(lambda text: re.search(r"session (?!" + first + r")\w+", text))
    pane.enter("/sessions")
    pane.wait("A good name")
    pane.enter(f"/sessions {first}")
    pane.wait(lambda text: text.count("› remember me") >= 2)
    pane.enter("/status")
    pane.wait("pid ")
    pane.enter("/sesions")
    pane.wait("Did you mean /sessions?")
    pane.enter("/export out.md")
    pane.wait("items written to")
    with open(os.path.join(here.work, "out.md"), encoding="utf-8") as file:
        assert "remember me" in file.read()
    pane.enter("/quit")
    pane.wait("[left with 0]")


def test_a_chat_in_which_nothing_was_said_leaves_no_session(here: Desk) -> None:
    pane = here.chat("--model", "scripted/echo")
    made = session_id(pane)
    pane.enter("/quit")
    shown = pane.wait("[left with 0]")
    assert "Come back" not in shown
    assert made not in here.hermes("sessions", "list").stdout


def test_history_and_several_lines(here: Desk) -> None:
    pane = here.chat("--model", "scripted/echo")
    pane.type("line one")
    pane.press("M-Enter")
    pane.type("line two")
    pane.press("C-j")
    pane.enter("line three")
    pane.wait("› line one\n  line two\n  line three")
    pane.wait("idle")
    pane.press("Up")
    pane.wait(lambda text: text.count("line three") >= 3, history=False)
    path = os.path.join(here.home, "chat_history")
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_a_killed_daemon_is_started_again_and_nothing_is_lost(here: Desk) -> None:
    pane = here.chat("--model", words(2000, 10))
    pane.enter("count")
    pane.wait("word50")
    os.kill(here.daemon_pid(), signal.SIGKILL)
    pane.type("typed while it was away")
    shown = pane.wait("the turn was lost")
    assert "the daemon was restarted; connected again" in shown
    assert "word50" in shown
    pane.wait("idle", history=False)
    pane.press("Enter")
    pane.wait("› typed while it was away")
    pane.wait(lambda text: text.count("word20") >= 2)
    pane.press("C-c")
    pane.wait("interrupted")


def test_a_chat_goes_on_over_a_restart_with_drain(here: Desk) -> None:
    pane = here.chat("--model", words(150, 20))
    pane.enter("count")
    pane.wait("word10")
    restarted = here.hermes("daemon", "restart", "--drain")
    assert restarted.returncode == 0, restarted.stderr
    shown = pane.wait("connected again, nothing was lost")
    assert "the daemon is draining" in shown
    assert "word149" in shown
    pane.wait("idle", history=False)
    pane.enter("once more")
    pane.wait(lambda text: text.count("word149") == 2)


def test_a_daemon_of_another_version_is_replaced_when_the_person_wants_it(here: Desk) -> None:
    other = Build(Path(here.temporary, "other")).speak("2.0")
    ours = here.environ.get("PYTHONPATH", "")
    here.environ["PYTHONPATH"] = os.pathsep.join((other.path, *sys.path))
    assert here.hermes("daemon", "start").returncode == 0
    here.environ["PYTHONPATH"] = ours
    first = here.daemon_pid()
    pane = here.tmux.open(*HERMES, "chat", "--model", "scripted/echo", cwd=here.work)
    pane.wait("replace it now? [y/N]")
    pane.enter("n")
    pane.wait("[left with 4]")
    assert here.daemon_pid() == first
    pane = here.tmux.open(*HERMES, "chat", "--model", "scripted/echo", cwd=here.work)
    pane.wait("speaks 2.0, this client 1.0")
    pane.enter("y")
    pane.wait("idle")
    assert here.daemon_pid() not in (0, first)
    pane.enter("hello")
    pane.wait(lambda text: text.count("hello") >= 2)


def test_a_small_window_and_a_resized_one_stay_usable(here: Desk) -> None:
    pane = here.chat("--model", words(60, 5), columns=24, rows=6)
    pane.enter("count")
    pane.wait("word59")
    pane.wait("idle", history=False)
    pane.resize(100, 20)
    pane.enter("again")
    pane.wait("› again")
    pane.resize(15, 3)
    pane.resize(80, 24)
    pane.wait("idle", history=False)
    pane.enter("/quit")
    pane.wait("[left with 0]")


def test_without_colour_there_is_none(here: Desk) -> None:
    pane = here.chat("--model", "scripted/echo", environ={"NO_COLOR": "1"})
    pane.enter("**bold** and `code`")
    pane.wait(lambda text: "bold and code" in text and "idle" in text)
    colours = re.findall(r"\x1b\[[\d;]*m", pane.screen(colours=True))
    assert not [code for code in colours if re.search(r"[\[;](3[0-7]|9[0-7]|38)", code)]


def test_a_dumb_terminal_is_read_and_written_by_lines(here: Desk) -> None:
    pane = here.tmux.open(*HERMES, "chat", "--model", tool("echo plainly"), cwd=here.work, environ={"TERM": "dumb"})
    pane.wait("/help lists commands")
    pane.enter("do it")
    pane.wait("1 once")
    pane.enter("1")
    pane.wait("| plainly" if "| plainly" in pane.screen() else "plainly")
    pane.wait("allowed once by you")
    pane.press("C-d")
    assert "\x1b[" not in pane.wait("[left with 0]")


def test_the_demo_is_played_on_a_terminal(here: Desk) -> None:
    pane = here.tmux.open(*HERMES, "demo", cwd=here.work)
    pane.wait("hermes chat --session")
    pane.wait("Allow")
    pane.type("1")
    pane.wait(lambda text: "-m unittest -v" in text.split("allowed once by you")[-1])
    pane.wait(lambda text: text.count("1 once") == 1)
    pane.type("1")
    shown = pane.wait("[left with 0]")
    assert "The test passes now" in shown
    assert os.listdir(here.temporary) == []


def test_the_demo_answers_itself_without_a_terminal(here: Desk) -> None:
    done = here.hermes("demo")
    assert done.returncode == 0, done.stderr + done.stdout
    assert "the demo answers its own question" in done.stdout
    assert "The test passes now" in done.stdout
    assert os.listdir(here.temporary) == []


def test_the_demo_keeps_what_it_is_asked_to_keep(here: Desk) -> None:
    done = here.hermes("demo", "--yes", "--keep")
    assert done.returncode == 0, done.stderr + done.stdout
    kept = re.search(r"Kept: (\S+), and the session: hermes chat --session (\w+)", done.stdout)
    assert kept is not None
    with open(os.path.join(kept[1], "prices.py"), encoding="utf-8") as file:
        assert "1 - discount" in file.read()
    assert kept[2] in here.hermes("sessions", "list").stdout
