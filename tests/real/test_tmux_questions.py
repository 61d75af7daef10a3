"""Questions of the agent, answered on terminals and from other shells."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from tests.support.client_tmux import HERMES, Desk, absent, desk

pytestmark = [pytest.mark.real, pytest.mark.skipif(bool(absent()), reason=absent())]

QUESTIONS = [
    {"question": "Which database?", "choices": ["postgres", "sqlite"]},
    {"question": "Which days?", "choices": ["mon", "tue", "wed"], "multi": True},
    {"question": "Anything else?"},
]
MODEL = f"scripted/tool?name=clarify&args={quote(json.dumps({'questions': QUESTIONS}))}"


@pytest.fixture
def here() -> Iterator[Desk]:
    with desk() as made:
        yield made


def test_two_terminals_answer_different_questions_and_both_see_all(here: Desk) -> None:
    first = here.chat("--model", MODEL)
    first.enter("set it up")
    first.wait("? Which database?")
    second = here.tmux.open(*HERMES, "attach", cwd=here.work)
    second.wait("? Which database?")
    first.enter("7,5")  # free text is taken too, so a number out of range is words
    second.wait("Which database? → 7,5 by chat ada")
    second.enter("1,3")
    first.wait("Which days? → mon, wed by chat ada")
    first.wait("? Anything else?")
    first.enter("/skip")
    shown = second.wait(lambda text: "Anything else? skipped" in text and "idle" in text)
    assert "mon" in shown
    first.wait("idle")


def test_words_that_were_being_typed_do_not_become_an_answer(here: Desk) -> None:
    pane = here.chat("--model", MODEL)
    pane.enter("set it up")
    pane.wait("? Which database?")
    pane.press("Escape")
    pane.wait("(Alt-A answers)")
    pane.enter("a message of mine")
    pane.wait("queued: a message of mine")
    pane.press("M-a")
    pane.wait("answer ›")
    pane.enter("sqlite")
    pane.wait("Which database? → sqlite by you")


def test_a_question_is_answered_from_another_shell(here: Desk) -> None:
    pane = here.chat("--model", MODEL)
    pane.enter("set it up")
    pane.wait("? Which database?")
    (row,) = json.loads(here.hermes("requests", "--json").stdout)
    whole = here.hermes("requests", row["requestId"]).stdout
    assert "Which days?" in whole
    done = here.hermes("answer", row["requestId"], "2", "mon", "--skip")
    assert (done.returncode, done.stdout) == (0, "answered\n")
    shown = pane.wait(lambda text: "Which database? → sqlite by hermes answer" in text and "idle" in text)
    assert "Which days? → mon by hermes answer" in shown
    assert here.hermes("answer", row["requestId"], "1").returncode == 5


def test_the_queue_is_edited_by_one_and_seen_by_the_other_and_a_steer_reaches_the_turn(here: Desk) -> None:
    first = here.chat("--model", MODEL)
    first.enter("set it up")
    first.wait("? Which database?")
    second = here.tmux.open(*HERMES, "attach", cwd=here.work)
    second.wait("? Which database?")
    first.press("Escape")
    first.enter("one")
    first.enter("two")
    second.wait("queued by chat ada: two")
    second.enter("/queue move 2 1")
    second.wait("1  two")
    second.enter("/queue edit 2 the first no more")
    first.wait("queued: the first no more")
    second.enter("/queue drop 1")
    first.wait(lambda text: "queued: two" not in text.split("? Which")[-1])
    second.enter("/steer hurry")
    first.wait("for this turn by chat ada: hurry")
    first.press("C-c")
    first.wait("interrupted")
