"""The question on the screen: the oldest one that is open, its steps, its clock, and where its answer goes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

from hermes_client import Session, View
from hermes_protocol.errors import ProtocolError
from hermes_protocol.events import RequestOpened
from hermes_protocol.methods import Answer
from hermes_shell.interactive.clarify import Clarify
from hermes_shell.interactive.face import Face
from hermes_shell.interactive.form import Form
from hermes_shell.interactive.painter import Painter
from hermes_shell.interactive.permission import Permission
from hermes_shell.interactive.question import KINDS, Question, Step
from hermes_shell.interactive.secret import Secret

MAKERS: dict[str, Callable[[RequestOpened], Question]] = {
    "permission": Permission,
    "clarify": Clarify,
    "secret": Secret,
    "form": Form,
}
TICK_S = 1.0


class Asking:
    """`start` runs a coroutine beside the chat; `now` is a monotonic clock in seconds."""

    def __init__(
        self,
        painter: Painter,
        start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.question: Question | None = None
        self._painter = painter
        self._start = start
        self._now = now
        self._session: Session
        self._face: Face
        self._clock: tuple[str, bool, int | None] = ("", False, None)
        self._since = 0.0
        self._declined: set[str] = set()
        self._ticking: asyncio.Task[None] | None = None

    def show(self, face: Face, session: Session) -> None:
        """Ask what this session asks from now on."""
        self._face, self._session, self.question = face, session, None

    def look(self, view: View) -> None:
        """The oldest open question that this client can ask is the one on the screen."""
        asked = (row for row in view.requests if row.kind in KINDS and row.request_id not in self._declined)
        row = next(asked, None)
        if row is None:
            self.question = None
            return
        clock = (row.request_id, row.running, row.remaining_ms)
        if clock != self._clock:
            self._clock, self._since = clock, self._now()
        if self.question is not None and self.question.request.request_id == row.request_id:
            if self.question.request != row:
                self.question = self.question.updated(row)
        else:
            self.question = MAKERS[row.kind](row)
            if whole := self.question.whole(self._painter):
                self._face.print(whole)
            self._session.seen(row.request_id)
        if row.running and self._ticking is None:
            self._ticking = self._start(self._tick())

    def lines(self) -> list[str]:
        """The question and the time that is left for it."""
        if self.question is None:
            return []
        lines = self.question.lines(self._painter)
        left = self.remaining()
        return lines if left is None else [*lines, self._painter.style(f"  {spell(left)} left to answer", "dim")]

    def remaining(self) -> float | None:
        """Seconds until the question on the screen is over; None while no clock runs."""
        _, running, remaining_ms = self._clock
        if self.question is None or not running or remaining_ms is None:
            return None
        return max(0.0, remaining_ms / 1000 - (self._now() - self._since))

    # --- what the person does -----------------------------------------------------------------------------------------

    def press(self, key: str) -> None:
        """A single key."""
        self._step(self.question.press(key) if self.question else None)

    def enter(self, text: str) -> None:
        """A line for the question."""
        self._step(self.question.enter(text) if self.question else None)

    def back(self) -> None:
        """One step back."""
        if self.question is not None:
            self.question = self.question.back()
            self._face.redraw()

    def skip(self) -> bool:
        """Leave this part out; False where there is nothing to leave out."""
        step = self.question.skip() if self.question else None
        self._step(step)
        return step is not None

    def decline(self) -> bool:
        """Have nothing to do with the question; others may still answer it. False when none is open."""
        if self.question is None:
            return False
        self._send(self.question, Answer(decline=True))
        self._face.redraw()
        return True

    def _step(self, step: Step | None) -> None:
        if step is None:
            return
        self.question, answer = step
        if answer is not None:
            self._send(self.question, answer)
        self._face.redraw()

    def _send(self, question: Question, answer: Answer) -> None:
        if answer.decline:  # it stays open for others
            self._declined.add(question.request.request_id)
            self.question = None
            self.look(self._session.view)
        self._start(self._sent(self._session, question.request.request_id, answer))

    async def _sent(self, session: Session, request_id: str, answer: Answer) -> None:
        try:
            await session.answer(request_id, answer)
        except ProtocolError as refused:
            shown = self.question
            if refused.kind == "invalid_params" and shown is not None and shown.request.request_id == request_id:
                self.question = shown.refused(refused.message)
                self._face.redraw()
            elif refused.kind != "already_resolved":
                raise
            # Somebody else was faster: an event says who, and takes the question away.

    async def _tick(self) -> None:
        try:
            while self.remaining() is not None:
                self._face.redraw()
                await asyncio.sleep(TICK_S)
        finally:
            self._ticking = None


def spell(seconds: float) -> str:
    """`4:32`, or `9 s` when it is little."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"
