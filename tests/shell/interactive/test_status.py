"""The status line at every width."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from hermes_client.view import View
from hermes_shell.interactive.status import Situation, shortened, status_line
from tests.support.client_journal import Journal

SESSION = msgspec.structs.replace(Journal().session, title="A title", model="local/smollm2", occupancy_pct=41.6)
VIEW = View(SESSION)


def test_everything_is_told_when_there_is_room() -> None:
    journal = Journal()
    entry = journal.enqueue("later")
    view = msgspec.structs.replace(VIEW, queue=(entry,), paused=True)
    line = status_line(view, Situation(sending=1, others=2), 200)
    assert line == "idle · 2 queued (paused) · local/smollm2 · context 42 % · 2 other clients · A title · s1"


def test_a_lost_daemon_comes_before_everything_else() -> None:
    assert status_line(VIEW, Situation("lost", "no socket"), 80).startswith("reconnecting (no socket)")
    assert status_line(VIEW, Situation("draining"), 80).startswith("daemon draining")


def test_the_hint_outlives_all_in_a_narrow_window() -> None:
    assert status_line(VIEW, Situation(hint="Ctrl-C again leaves"), 25) == "Ctrl-C again leaves"


def test_a_long_name_loses_its_middle() -> None:
    assert shortened("scripted/file:/tmp/somewhere/deep/demo.yaml", 25) == "scripted/fil…ep/demo.yaml"
    assert shortened("short", 25) == "short"


@given(st.integers(0, 120))
def test_no_line_is_longer_than_the_window(width: int) -> None:
    assert len(status_line(VIEW, Situation(sending=3, others=1, hint="Ctrl-C again leaves"), width)) <= width
