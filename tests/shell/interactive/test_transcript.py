"""What is printed, in which order, and never twice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hermes_client import Change
from hermes_client.view import View, apply, empty, from_snapshot
from hermes_protocol import events as e
from hermes_protocol.content import By
from hermes_shell.interactive.painter import Look, Painter
from hermes_shell.interactive.transcript import Transcript
from tests.support.client_journal import Journal

OTHER = By("client-2", "laptop", "chat")


class Reader:
    """Somebody who reads a journal from a point on."""

    def __init__(self, journal: Journal, **look: object) -> None:
        self.journal = journal
        settings = {"colour": False, "markdown": False, **look}
        self.transcript = Transcript(Painter(Look(**settings), lambda: 80, "client-1"))  # type: ignore[arg-type]
        self.view: View = empty("s1")
        self.seen = 0
        self.printed: list[str] = []

    def join(self) -> None:
        """A snapshot of now."""
        self.view, self.seen = from_snapshot(self.journal.snapshot()), len(self.journal.events)
        self.printed.extend(self.transcript.feed(Change(self.view)))

    def read(self) -> str:
        """Everything since the last time; gives all that was printed so far."""
        for event in self.journal.events[self.seen :]:
            self.view = apply(self.view, event)
            self.printed.extend(self.transcript.feed(Change(self.view, event, event.payload())))
        self.seen = len(self.journal.events)
        return "\n".join(self.printed)


def test_a_turn_is_printed_in_its_order() -> None:
    journal = Journal()
    reader = Reader(journal)
    journal.start_turn("fix it")
    answer = journal.start_message()
    journal.delta(answer, "I will look.")
    journal.complete(answer)
    call = journal.start_call("terminal", title="Run make")
    journal.delta(call, "ok\n")
    journal.complete(call, exit_code=0)
    journal.end_turn()
    assert reader.read() == "› fix it\n\nI will look.\n\n● Run make #1\n  │ ok"


def test_paragraphs_are_printed_as_soon_as_they_are_final() -> None:
    journal = Journal()
    reader = Reader(journal)
    journal.start_turn("go")
    answer = journal.start_message()
    journal.delta(answer, "First.\n\nSec")
    assert reader.read() == "› go\n\nFirst."
    assert reader.transcript.live(reader.view, 10) == ["", "Sec"]
    journal.delta(answer, "ond.")
    journal.complete(answer)
    assert reader.read() == "› go\n\nFirst.\n\nSecond."
    assert reader.transcript.live(reader.view, 10) == []


@given(st.integers(0, 40), st.integers(0, 40))
def test_a_rebuilt_view_prints_what_is_new_and_nothing_twice(lost_at: int, back_at: int) -> None:
    def played() -> Journal:
        journal = Journal()
        for n in range(3):
            journal.start_turn(f"question {n}")
            answer = journal.start_message()
            for word in (f"alpha{n}\n\n", f"beta{n}\n\n", f"gamma{n}"):
                journal.delta(answer, word)
            journal.complete(answer)
            journal.complete(journal.start_call("terminal", title=f"call {n}"))
            journal.end_turn()
        return journal

    whole = Reader(played())
    straight = whole.read()
    journal = played()
    gone, back = sorted((min(lost_at, len(journal.events)), min(back_at, len(journal.events))))
    reader = Reader(journal)
    everything = journal.events
    journal.events = everything[:gone]
    reader.read()
    # What a snapshot at `back` would show: every event up to there folded (the law of test_view).
    view = empty("s1")
    for event in everything[:back]:
        view = apply(view, event)
    reader.view, reader.seen = view, back
    reader.printed.extend(reader.transcript.feed(Change(view)))
    journal.events = everything
    assert reader.read() == straight


def test_another_clients_message_says_whose_it_is() -> None:
    journal = Journal()
    reader = Reader(journal)
    journal.start_turn("hello", by=OTHER)
    assert reader.read() == "› hello  (laptop)"


def test_long_output_is_collapsed_and_expanded_by_number() -> None:
    journal = Journal()
    reader = Reader(journal, tool_lines=3)
    journal.start_turn("go")
    for n in range(2):
        call = journal.start_call(title=f"call {n}")
        journal.delta(call, "\n".join(f"{n}-{line}" for line in range(10)))
        journal.complete(call)
    shown = reader.read()
    assert "7 more lines (Ctrl-O, or /expand 2)" in shown
    assert "1-9" not in shown
    whole = reader.transcript.expanded(reader.view, 2)
    assert whole is not None
    assert "1-9" in whole
    assert reader.transcript.expanded(reader.view, 3) is None
    assert reader.transcript.expanded(reader.view, 0) is None


def test_a_running_call_is_live_with_its_last_lines() -> None:
    journal = Journal()
    reader = Reader(journal, tool_lines=2)
    journal.start_turn("go")
    call = journal.start_call(title="Run make")
    journal.delta(call, "one\ntwo\nthree\n")
    reader.read()
    assert reader.transcript.live(reader.view, 10) == ["", "● Run make running", "  │ two", "  │ three"]
    assert reader.transcript.live(reader.view, 1) == ["  │ three"]
    assert reader.transcript.live(reader.view, 0) == []
    expanded = reader.transcript.expanded(reader.view, 1)
    assert expanded is not None
    assert "one" in expanded


def test_a_failed_call_shows_its_error_and_exit_code() -> None:
    journal = Journal()
    reader = Reader(journal)
    journal.start_turn("go")
    journal.complete(journal.start_call(title="Run make"), exit_code=2, text="no rule")
    journal.complete(journal.start_call(title="Read x"), status="failed", text="", error="no such file")
    shown = reader.read()
    assert "✗ Run make #1 · exit 2\n  │ no rule" in shown
    assert "✗ Read x #2 · failed\n  │ no such file" in shown


def test_a_diff_is_shown_once() -> None:
    diff = "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-old\n+new"
    journal = Journal()
    reader = Reader(journal)
    journal.start_turn("go")
    for output in (diff, "done"):
        journal.complete(journal.start_call("patch", title="Patch x.py"), text=output)
        change = e.FileChange(
            item_id=journal.new_id("i"),
            status="completed",
            created_at=journal.now(),
            path="x.py",
            kind="modified",
            diff=diff,
            added=1,
            removed=1,
        )
        journal.emit(e.ItemCompleted(change))
        assert reader.read().count("+new") == (1 if output == diff else 2)
    assert reader.read().count("modified x.py +1 -1") == 2


def test_reasoning_is_printed_only_where_wanted() -> None:
    journal = Journal()
    journal.start_turn("go")
    thought = journal.start_message(e.Reasoning)
    journal.delta(thought, "hm")
    silent, open_minded = Reader(journal), Reader(journal, reasoning=True)
    silent.read()
    open_minded.read()
    assert silent.transcript.live(silent.view, 5) == ["", "thinking"]
    assert open_minded.transcript.live(open_minded.view, 5) == ["", "hm"]
    journal.complete(thought)
    assert "hm" not in silent.read()
    assert "hm" in open_minded.read()


def test_an_answer_that_was_transformed_at_its_end_is_printed_again() -> None:
    journal = Journal()
    reader = Reader(journal)
    journal.start_turn("go")
    answer = journal.start_message()
    journal.delta(answer, "The key is X.\n\nBye")
    reader.read()
    journal.complete(answer, text="The key is [hidden].\n\nBye")
    assert reader.read().endswith("differs from what was streamed:\n\nThe key is [hidden].\n\nBye")


def test_words_seen_before_a_kill_and_not_kept_stay_readable() -> None:
    journal = Journal()
    reader = Reader(journal)
    journal.start_turn("go")
    answer = journal.start_message()
    journal.delta(answer, "one two three four")
    reader.read()
    journal.complete(answer, text="one two", status="partial")
    assert reader.read().endswith("one two\n  seen here, but not kept by the daemon: three four")


def test_a_printed_paragraph_that_was_not_kept_is_told_and_not_repeated() -> None:
    journal = Journal()
    reader = Reader(journal)
    journal.start_turn("go")
    answer = journal.start_message()
    journal.delta(answer, "one\n\ntwo\n\nthree")
    reader.read()
    journal.complete(answer, text="one", status="partial")
    assert reader.read() == "› go\n\none\n\ntwo\n  seen here, but not kept by the daemon: two\n\nthree"


def test_an_answer_begun_again_says_so() -> None:
    journal = Journal()
    reader = Reader(journal)
    journal.start_turn("go")
    answer = journal.start_message()
    journal.delta(answer, "First.\n\nSec")
    reader.read()
    journal.discard(answer)
    assert "begins again" in reader.read()


def test_every_end_but_a_good_one_is_told() -> None:
    told = {}
    for status in ("completed", "interrupted", "failed", "refused", "limit", "lost"):
        journal = Journal()
        reader = Reader(journal)
        journal.start_turn("go")
        journal.end_turn(status, error=e.Failure("provider_error", "no route") if status == "failed" else None)
        told[status] = reader.read().removeprefix("› go")
    assert told.pop("completed") == ""
    assert "no route" in told["failed"]
    assert "daemon was stopped" in told["lost"]
    assert all(told.values())
    assert len(set(told.values())) == 5


def test_news_beside_the_conversation_are_lines() -> None:
    journal = Journal()
    reader = Reader(journal)
    journal.start_turn("go")
    journal.emit(e.TurnRetrying(2, 1500, e.Failure("rate", "slow down")))
    journal.emit(e.Notice("warning", "the queue is paused", "queue_paused"))
    journal.emit(e.SessionOption("model", "a/b", OTHER))
    journal.emit(e.SessionError(e.Failure("storage_error", "disk full")))
    journal.end_turn(dropped=("later",))
    shown = reader.read()
    for line in (
        "slow down (attempt 2 in 1.5 s)",
        "the queue is paused",
        "model is now a/b (by laptop)",
        "disk full",
        "not sent: later",
    ):
        assert line in shown


def test_who_decided_a_question_is_printed() -> None:
    journal = Journal()
    reader = Reader(journal)
    journal.start_turn("go")
    request = journal.ask(journal.start_call(title="Run make"))
    journal.resolve(request, "deny", OTHER, "not now")
    assert "Run make: denied by laptop (not now)" in reader.read()


def test_a_long_session_says_that_its_beginning_is_not_shown() -> None:
    journal = Journal()
    for n in range(4):
        journal.start_turn(f"q{n}")
        journal.end_turn()
    reader = Reader(journal)
    reader.view = from_snapshot(journal.snapshot(tail=1))
    pieces = reader.transcript.feed(Change(reader.view))
    assert "earlier messages are not shown" in pieces[0]
    assert "q3" in pieces[1]


def test_hostile_output_cannot_reach_the_terminal() -> None:
    journal = Journal()
    reader = Reader(journal)
    journal.start_turn("\x1b]0;mine\x07hi", by=By("x", "\x1b[2Jevil", "chat"))
    call = journal.start_call(title="\x1b[31mRun")
    journal.delta(call, "\x1b[2J\x1b[Hgone")
    reader.read()
    live = "\n".join(reader.transcript.live(reader.view, 10))
    journal.complete(call)
    assert "\x1b" not in reader.read() + live
