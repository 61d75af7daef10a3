"""Several terminals on one session, as people use them: attach, watch, say, answer."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from tests.support.client_tmux import HERMES, Desk, Pane, absent, desk

pytestmark = [pytest.mark.real, pytest.mark.skipif(bool(absent()), reason=absent())]


@pytest.fixture
def here() -> Iterator[Desk]:
    with desk() as made:
        yield made


def tool(name: str, **args: object) -> str:
    return f"scripted/tool?name={name}&args={quote(json.dumps(args))}"


def sessions(here: Desk) -> list[dict[str, object]]:
    listed: list[dict[str, object]] = json.loads(here.hermes("sessions", "list", "--json").stdout)
    return listed


def attach(here: Desk, *words: str) -> Pane:
    return here.tmux.open(*HERMES, "attach", *words, cwd=here.work)


def test_who_joins_at_word_15_sees_all_words_and_leaving_ends_nothing(here: Desk) -> None:
    first = here.chat("--model", "scripted/words?n=300&delay_ms=40")
    first.enter("count")
    first.wait("word15 ")
    late = attach(here)  # the only one that runs in this folder
    late.wait("› count  (chat ada)")
    shown = late.wait("word20 ")
    assert "word299" not in shown
    numbers = [int(n) for n in re.findall(r"word(\d+)", shown)]
    assert sorted(set(numbers)) == list(range(max(numbers) + 1))
    late.press("C-d")
    farewell = late.wait("[left with 0]")
    assert "The turn goes on. Come back with: hermes attach" in farewell
    first.wait("word40 ")
    again = attach(here, str(sessions(here)[0]["sessionId"])[:14])
    again.wait("word50 ")
    again.press("C-c")
    first.wait("interrupted")
    again.wait("interrupted")


def test_two_terminals_see_all_and_what_one_types_the_other_sees_with_a_name(here: Desk) -> None:
    first = here.chat("--model", "scripted/echo")
    first.enter("from the first")
    first.wait(lambda text: text.count("from the first") >= 2 and "idle" in text)
    second = attach(here, str(sessions(here)[0]["sessionId"]))
    second.wait("from the first")
    second.enter("from the second")
    first.wait("› from the second  (chat ada)")
    first.wait("1 other client")
    second.enter("/rename Shared work")
    first.wait(lambda text: "Shared work" in text.splitlines()[-1] or "Shared work" in text)


def test_without_a_session_one_is_picked_by_its_number(here: Desk) -> None:
    here.chat("--model", "scripted/echo").enter("the first one")
    other = here.chat("--model", "scripted/echo")
    other.enter("the second one")
    other.wait(lambda text: text.count("the second one") >= 2 and "idle" in text)
    pane = attach(here)
    shown = pane.wait("which one, 1 to 2?")
    number = next(line.split()[0] for line in shown.splitlines() if "the second one" in line)
    pane.enter("9")
    pane.wait(lambda text: text.count("which one") == 2)
    pane.enter(number)
    pane.wait(lambda text: "› the second one" in text and "idle" in text)


def test_without_a_live_session_it_says_what_to_do(here: Desk) -> None:
    here.hermes("daemon", "start")
    assert "no session is live" in attach(here).wait("[left with 5]")


def test_words_and_answers_come_from_another_shell(here: Desk) -> None:
    pane = here.chat("--model", tool("terminal", command="echo made-it"))
    session_id = str(sessions(here)[0]["sessionId"])
    said = here.hermes("say", session_id, "do", "it")
    assert said.stdout.startswith("started: turn ")
    pane.wait("1 once")
    assert "terminal" in here.hermes("requests").stdout
    assert here.hermes("approve").returncode == 0
    shown = pane.wait(lambda text: "│ made-it" in text and "idle" in text)
    assert "› do it  (hermes say)" in shown
    assert "allowed once by hermes approve" in shown


def test_watch_shows_what_runs_and_asks_and_survives_the_daemon(here: Desk) -> None:
    chat = here.chat("--model", tool("terminal", command="echo x"))
    chat.enter("Fix the build")
    chat.wait("1 once")
    watch = here.tmux.open(*HERMES, "watch", columns=160, cwd=here.work)
    shown = watch.wait("1 question open")
    (line,) = [line for line in shown.splitlines() if "Fix the build" in line]
    assert "waiting" in line
    assert "scripted/tool" in line
    assert "? allow" in line
    rows = json.loads(here.hermes("watch", "--json", "--once").stdout)
    assert rows[0]["openRequests"] == 1
    assert rows[0]["clients"] >= 1
    assert "Fix the build" in here.hermes("watch", "--once").stdout
    os.kill(here.daemon_pid(), signal.SIGKILL)
    watch.wait("the daemon was restarted at")
    watch.wait("0 questions open")
    watch.press("Enter")
    watch.wait("› Fix the build")
    watch.press("C-d")
    watch.wait("Enter attaches")
    watch.press("q")
    watch.wait("[left with 0]")


def test_watching_starts_no_daemon(here: Desk) -> None:
    done = here.hermes("watch", "--once")
    assert done.returncode == 3
    assert "no daemon is running" in done.stderr
    assert here.daemon_pid() == 0
