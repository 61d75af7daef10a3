"""Going back and branching off, on terminals and from other shells."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import pytest

from tests.support.client_tmux import HERMES, Desk, Pane, absent, desk

pytestmark = [pytest.mark.real, pytest.mark.skipif(bool(absent()), reason=absent())]


@pytest.fixture
def here() -> Iterator[Desk]:
    with desk() as made:
        yield made


def only_session(here: Desk) -> str:
    (row,) = json.loads(here.hermes("sessions", "list", "--json").stdout)
    return str(row["sessionId"])


def say(pane: Pane, *texts: str) -> None:
    """Each of them, answered by an echo."""
    for text in texts:
        pane.enter(text)
        pane.wait(lambda shown, text=text: shown.count(text) >= 2 and "idle" in shown)  # type: ignore[misc]


def test_a_rewind_gives_the_words_back_and_the_other_terminal_sees_it(here: Desk) -> None:
    first = here.chat("--model", "scripted/echo")
    say(first, "alpha", "beta", "gamma")
    second = here.tmux.open(*HERMES, "attach", only_session(here), cwd=here.work)
    second.wait("gamma")
    first.enter("/rewind 2")
    second.wait("the last 4 items above are taken back")
    first.wait("› beta", history=False)
    first.type(" anew")
    first.press("Enter")
    second.wait("› beta anew")
    exported = here.hermes("sessions", "export", only_session(here)).stdout
    assert "beta anew" in exported
    assert "gamma" not in exported


def test_a_fork_goes_on_by_itself(here: Desk) -> None:
    pane = here.chat("--model", "scripted/echo")
    say(pane, "common ground")
    original = only_session(here)
    pane.enter("/fork another way")
    pane.wait(f"forked from {original}")
    say(pane, "only in the fork")
    assert "only in the fork" not in here.hermes("sessions", "export", original).stdout
    forked = here.hermes("sessions", "fork", original, "--title", "third").stdout.strip()
    assert "common ground" in here.hermes("sessions", "export", forked).stdout


def test_sessions_are_rewound_archived_and_their_events_followed_from_a_shell(here: Desk) -> None:
    pane = here.chat("--model", "scripted/echo")
    say(pane, "alpha", "beta")
    session_id = only_session(here)
    following = subprocess.Popen(
        (*HERMES, "sessions", "events", session_id, "--follow"),
        env=here.environ,
        cwd=here.work,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with following:
        assert following.stdout is not None
        done = here.hermes("sessions", "rewind", session_id)
        assert (done.returncode, done.stdout) == (0, "beta\n"), done.stderr
        kinds = []
        for line in following.stdout:
            event = json.loads(line)
            kinds.append(event["kind"])
            if event["kind"] == "session.rewound":
                break
        assert kinds[0] == "session.created"
        here.hermes("sessions", "archive", session_id)
        assert here.hermes("sessions", "list").stdout.count(session_id) == 0
        assert session_id in here.hermes("sessions", "list", "--archived").stdout
        here.hermes("sessions", "unarchive", session_id)
        assert session_id in here.hermes("sessions", "list").stdout
        pane.wait("taken back")
        here.hermes("sessions", "delete", session_id)
        assert following.wait(60) == 5
    pane.wait("this session was deleted by hermes sessions")


def test_earlier_messages_are_printed_on_demand(here: Desk) -> None:
    pane = here.chat("--model", "scripted/echo")
    texts = [f"number-{n:03}" for n in range(3)]
    say(pane, *texts)
    second = here.tmux.open(*HERMES, "attach", only_session(here), cwd=here.work)
    second.wait("number-002")
    second.enter("/older")
    second.wait("everything this session holds was shown")
