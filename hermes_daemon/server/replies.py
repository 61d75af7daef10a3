"""The answers of a batch: one array, in the order in which the entries were handled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from hermes_protocol.envelope import Batch, Call

if TYPE_CHECKING:
    from hermes_daemon.server.connection import Connection


class Reply(Protocol):
    """Takes the answer of a request, and the steps that belong right behind it."""

    def __call__(self, body: bytes, after: Sequence[Callable[[], object]] = ()) -> None: ...


class Replies:
    """The answers of a batch: its entries are handled in order, one after the other, and answered as one array."""

    def __init__(self, connection: Connection, batch: Batch) -> None:
        self._connection = connection
        self._entries = iter(batch.entries)
        self._answers: list[bytes] = []
        self._after: list[Callable[[], object]] = []

    def go_on(self) -> None:
        """Handle entries up to the first that takes time; its end brings us back here."""
        for entry in self._entries:
            if not isinstance(entry, Call):
                self._connection.other(entry, self._reply)
                continue
            task = self._connection.start(entry, self._reply)
            if task is not None:
                task.add_done_callback(lambda _: self.go_on())  # added behind the one that answers a cancelled request
                return
        if self._answers:
            self._connection.answer_batch(self._answers, self._after)
            self._answers = []

    def _reply(self, body: bytes, after: Sequence[Callable[[], object]] = ()) -> None:
        self._answers.append(body)
        self._after += after
