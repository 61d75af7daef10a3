"""Who is there to answer a question, since when its time runs, and how it ends when nobody is.

The clock begins when somebody who can answer has the question before him, and runs only while somebody is there. A
client that tells what it shows begins it by hermes/request/seen, any other by having been sent the question.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from hermes_daemon.engine.answers import OF_CLIENTS, Resolution
from hermes_daemon.engine.open_question import OpenQuestion
from hermes_protocol.content import By


class Watcher(Protocol):
    """Somebody who follows the session."""

    @property
    def can_answer(self) -> frozenset[str]:
        """The kinds of questions it may answer: none for observers."""
        ...

    @property
    def tells_seen(self) -> bool:
        """True for a client that says when a question is on a screen."""
        ...

    def when_sent(self, then: Callable[[], None]) -> None:
        """Call `then` when what it was told so far has left for its socket."""
        ...


class Attendance:
    """The followers of one session, by connection id, as those who are asked."""

    def __init__(self, watchers: Callable[[], Mapping[str, Watcher]]) -> None:
        self._watchers = watchers

    def audience(self, question: OpenQuestion) -> dict[str, Watcher]:
        """Who can answer: those who show the kind, or for what a client runs its one connection."""
        row, watchers = question.row, self._watchers()
        if row.connection_id is not None:
            return {name: watcher for name, watcher in watchers.items() if name == row.connection_id}
        return {name: watcher for name, watcher in watchers.items() if row.kind in watcher.can_answer}

    def there(self, question: OpenQuestion) -> dict[str, Watcher]:
        """The audience without those who declined."""
        audience = self.audience(question)
        return {name: watcher for name, watcher in audience.items() if name not in question.declined}

    def set_clock(self, question: OpenQuestion, reconsider: Callable[[], None]) -> bool:
        """Start or stop the clock as it should be now; True when that changed it. `reconsider` is called later, when
        the question has reached somebody."""
        there = self.there(question)
        if there and not question.started:
            self._await_sight(question, there, reconsider)
            return False
        if bool(there) == question.running:
            return False
        if there:
            question.start_clock()
        else:
            question.stop_clock()
        return True

    def end(self, question: OpenQuestion, unattended: str) -> Resolution | None:
        """How the question ends because nobody is there to wait for; None while it waits."""
        if self.there(question):
            return None
        if self.audience(question):
            return all_declined(question)
        if question.row.kind in OF_CLIENTS:
            return Resolution("lost")
        return None if unattended == "wait" else question.policy(unattended)

    def _await_sight(
        self, question: OpenQuestion, there: Mapping[str, Watcher], reconsider: Callable[[], None]
    ) -> None:
        shown = question.row.kind not in OF_CLIENTS  # a tool runs, nobody looks at it
        for name, watcher in there.items():
            if name not in question.sent_to and not (shown and watcher.tells_seen):
                question.sent_to.add(name)
                watcher.when_sent(self._sent(question, name, reconsider))

    def _sent(self, question: OpenQuestion, name: str, reconsider: Callable[[], None]) -> Callable[[], None]:
        def sent() -> None:
            question.sent_to.discard(name)
            if question.claimed is None and name in self.there(question):
                question.started = True
                reconsider()

        return sent


def all_declined(question: OpenQuestion, by: By | None = None) -> Resolution:
    """A client's own tool was declined by the only one who could run it; else it is as if nobody was there."""
    return Resolution("declined", by) if question.row.kind in OF_CLIENTS else Resolution("policy")
