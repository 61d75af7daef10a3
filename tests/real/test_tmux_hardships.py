"""Everything that happens to a terminal and its program: Ctrl-C in every phase, signals, odd sizes, big pastes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.support.client_tmux import HERMES, Desk, Pane, absent, desk
from tests.support.local_shell import wait_for
from tests.support.recording_endpoint import call, calls, recording_endpoint, text

pytestmark = [pytest.mark.real, pytest.mark.skipif(bool(absent()), reason=absent())]


@pytest.fixture
def here() -> Iterator[Desk]:
    with desk() as made:
        yield made


def tool(command: str) -> str:
    return f"scripted/tool?name=terminal&args={quote(json.dumps({'command': command}))}"


def running(marker: str) -> bool:
    """Whether some process has the marker in its command line."""
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                words = Path("/proc", name, "cmdline").read_bytes()
            except OSError:
                continue
            if marker.encode() in words:
                return True
    return False


def pid_of(pane: Pane, here: Desk) -> int:
    """The client's process: the one below the screen's shell."""
    shell = int(here.tmux.run("display-message", "-p", "-t", pane.name, "#{pane_pid}").strip())
    children = Path(f"/proc/{shell}/task/{shell}/children").read_text().split()
    return int(children[0])


def state_of(here: Desk) -> str:
    [row] = json.loads(here.hermes("sessions", "list", "--json").stdout)
    return str(row["state"])


# --- Ctrl-C -----------------------------------------------------------------------------------------------------------


def test_ctrl_c_while_the_model_is_silent(here: Desk) -> None:
    with recording_endpoint(text("late"), text("in time")) as endpoint:
        endpoint.released.clear()
        Path(here.home, "config.yaml").write_text(endpoint.config())
        pane = here.chat()
        pane.enter("go")
        pane.wait("running", history=False)
        assert endpoint.asked.wait(30)
        pane.press("C-c")
        pane.wait("interrupted")
        endpoint.released.set()
        pane.wait("idle", history=False)
        pane.enter("again")
        pane.wait("in time")


def test_ctrl_c_while_a_tool_runs_ends_its_processes(here: Desk) -> None:
    seconds = str(700_000 + os.getpid())
    pane = here.chat("--yolo", "--model", tool(f"sleep {seconds}"))
    pane.enter("go")
    wait_for(lambda: running(f"sleep\x00{seconds}"))
    pane.press("C-c")
    pane.wait(lambda shown: "interrupted" in shown and "idle" in shown)
    wait_for(lambda: not running(f"sleep\x00{seconds}"))


def test_ctrl_c_at_an_open_question_ends_the_turn_and_runs_nothing(here: Desk) -> None:
    pane = here.chat("--model", tool("touch never"))
    pane.enter("go")
    pane.wait("1 once")
    pane.press("C-c")
    pane.wait(lambda shown: "interrupted" in shown and "idle" in shown)
    assert "1 once" not in pane.screen(history=False)
    assert not os.path.exists(os.path.join(here.work, "never"))
    assert json.loads(here.hermes("approve", "--json").stdout) == []


def test_ctrl_c_while_starting_up_leaves_quietly(here: Desk) -> None:
    pane = here.tmux.open(*HERMES, "chat", "--model", "scripted/echo", cwd=here.work)
    pane.wait("hermes 0")
    pane.press("C-c")
    pane.wait(lambda shown: "[left with" in shown or "idle" in shown)
    if "[left with" not in pane.screen():
        pane.press("C-c", "C-c")
    shown = pane.wait("[left with")
    assert "Traceback" not in shown


def test_ctrl_d_during_a_turn_leaves_it_running(here: Desk) -> None:
    pane = here.chat("--model", "scripted/words?n=3000&delay_ms=5")
    pane.enter("go")
    pane.wait("word5")
    pane.press("C-d")
    pane.wait("[left with 0]")
    assert state_of(here) == "running"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_killed_client_gives_the_terminal_back_and_the_turn_goes_on(here: Desk, number: signal.Signals) -> None:
    pane = here.chat("--model", "scripted/words?n=3000&delay_ms=5")
    pane.enter("go")
    pane.wait("word5")
    os.kill(pid_of(pane, here), number)
    shown = pane.wait("[left with")
    assert "Traceback" not in shown
    assert state_of(here) == "running"


def test_a_closed_terminal_ends_the_client_only(here: Desk) -> None:
    pane = here.chat("--model", "scripted/words?n=3000&delay_ms=5")
    pane.enter("go")
    pane.wait("word5")
    client = pid_of(pane, here)
    here.tmux.run("kill-session", "-t", pane.name)
    wait_for(lambda: not os.path.exists(f"/proc/{client}"))
    assert state_of(here) == "running"


# --- one question, ended from outside ---------------------------------------------------------------------------------


def one_shot(here: Desk, *words: str) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen(
        (*HERMES, "chat", "-q", "go", *words),
        env=here.environ,
        cwd=here.work,
        stdin=subprocess.DEVNULL,
        stdout=pipe,
        stderr=pipe,
        text=True,
    )


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_the_turn_of_a_single_question(here: Desk, number: signal.Signals, code: int) -> None:
    seconds = str(800_000 + os.getpid() % 100_000 * 10 + number)  # a command line of this run only
    child = one_shot(here, "--yolo", "--model", tool(f"sleep {seconds}"))
    wait_for(lambda: running(f"sleep\x00{seconds}"))
    child.send_signal(number)
    _, said = child.communicate(timeout=60)
    assert child.returncode == code, said
    assert "Traceback" not in said
    wait_for(lambda: not running(f"sleep\x00{seconds}"))
    assert state_of(here) == "idle"


# --- sizes and amounts ------------------------------------------------------------------------------------------------


def test_twenty_columns_are_enough(here: Desk) -> None:
    pane = here.chat("--model", tool("echo narrow-but-here"), columns=20, rows=12)
    pane.enter("go")
    pane.wait("1 once")
    pane.type("1")
    shown = pane.wait(lambda text: "allowed" in text and "idle" in text)
    assert "narrow-but" in re.sub(r"\s", "", shown)
    assert "Traceback" not in shown


def test_a_resize_in_the_middle_of_a_stream_loses_no_word(here: Desk) -> None:
    pane = here.chat("--model", "scripted/words?n=400&delay_ms=5")
    pane.enter("go")
    for number, columns in ((20, 60), (80, 33), (140, 120), (200, 80)):
        pane.wait(f"word{number}")
        pane.resize(columns, 20)
    shown = pane.wait(lambda text: "word399" in text and "idle" in text)
    joined = re.sub(r"\s+", "", shown)
    assert [n for n in range(400) if f"word{n}" not in joined] == []


def test_a_paste_of_ten_thousand_lines_is_one_message(here: Desk) -> None:
    with recording_endpoint(text("read all of it")) as endpoint:
        Path(here.home, "config.yaml").write_text(endpoint.config())
        pane = here.chat()
        lines = [f"line {n} of the paste" for n in range(10_000)]
        pane.paste("\n".join(lines))
        pane.wait("line 9999", history=False)
        pane.press("Enter")
        pane.wait(lambda shown: "read all of it" in shown and "idle" in shown)
        assert endpoint.messages()[-1]["content"].splitlines() == lines


def test_the_old_answer_is_withdrawn_when_a_stream_breaks(here: Desk) -> None:
    with recording_endpoint(text("first half, then nothing", cut=True), text("the whole answer")) as endpoint:
        again = endpoint.config().replace('"api_max_retries": 0', '"api_max_retries": 3')
        Path(here.home, "config.yaml").write_text(again)
        done = here.hermes("chat", "-q", "go")
        assert done.returncode == 0
        assert done.stdout.endswith("\nthe whole answer\n")
        assert "(what was just said is withdrawn: the model call is tried again)" in done.stderr
        pane = here.chat()
        endpoint.answers = [text("first half, then nothing", cut=True), text("the whole answer")]
        pane.enter("go")
        shown = pane.wait(lambda now: "the whole answer" in now and "idle" in now)
        assert "(attempt 2 in " in shown


def test_words_that_are_no_text_do_not_drive_the_terminal(here: Desk) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\x1b[31mred\x1b[0m plain"
    with recording_endpoint(
        calls(call("terminal", {"command": "printf '\\033[2Jtool\\033]0;t\\007'"})), text(evil)
    ) as endpoint:
        Path(here.home, "config.yaml").write_text(endpoint.config())
        pane = here.chat("--yolo")
        pane.enter("keep this line")
        shown = pane.wait(lambda now: "plain" in now and "idle" in now)
        assert "keep this line" in shown
        assert here.tmux.run("display-message", "-p", "-t", pane.name, "#{pane_title}").strip() not in ("owned", "t")


# --- from beside ------------------------------------------------------------------------------------------------------


def test_a_command_answers_and_speaks_into_a_session_that_two_terminals_watch(here: Desk) -> None:
    first = here.chat("--model", tool("echo by-command"))
    [row] = json.loads(here.hermes("sessions", "list", "--json").stdout)
    second = here.chat("--session", row["sessionId"])
    said = here.hermes("say", row["sessionId"], "please", "do", "it")
    assert said.stdout.startswith("started: turn ")
    for pane in (first, second):
        pane.wait("please do it")
        pane.wait("1 once")
    [asked] = json.loads(here.hermes("approve", "--json").stdout)
    wrong = here.hermes("approve", asked["requestId"], "perhaps")
    assert wrong.returncode == 2
    assert "'perhaps' is not offered for this call: expected one of allow_once" in wrong.stderr
    assert here.hermes("approve", asked["requestId"], "once").stdout == "allow_once\n"
    for pane in (first, second):
        pane.wait(lambda shown: "allowed once by hermes approve" in shown and "│ by-command" in shown)
    late = here.hermes("approve", asked["requestId"], "once")
    assert late.returncode == 5


def test_the_log_is_followed_as_it_grows(here: Desk) -> None:
    here.hermes("daemon", "start")
    pane = here.tmux.open(*HERMES, "daemon", "logs", "-f", cwd=here.work)
    pane.wait("ready: version")
    here.hermes("chat", "-q", "hi", "--model", "local/smollm2")
    pane.wait("failed: The local model smollm2 is not in")
    pane.press("C-c")
    assert "Traceback" not in pane.wait("[left with")
