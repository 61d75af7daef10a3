"""Questions of the agent to people: one after the other, each answered for itself, by whoever is first."""

from __future__ import annotations

import msgspec

from hermes_protocol.events import ClarifyAnswer, QuestionStatus, RequestOpened
from hermes_protocol.events import Question as Row
from hermes_protocol.methods import Answer
from hermes_shell.choosing import chosen, expected
from hermes_shell.flat_schema import Wrong
from hermes_shell.interactive.painter import Painter, clarified
from hermes_shell.interactive.printable import one_line, printable
from hermes_shell.interactive.question import Question, Step, Wants, styled


class Clarify(msgspec.Struct, frozen=True):
    """`sent` are the questions answered from here whose answer the daemon has not announced yet."""

    request: RequestOpened
    sent: tuple[str, ...] = ()
    complaint: str = ""

    @property
    def current(self) -> Row | None:
        """The first question nobody answered."""
        done = {status.id for status in self.request.answered if status.status != "open"} | set(self.sent)
        return next((row for row in self.request.questions if row.id not in done), None)

    @property
    def wants(self) -> Wants:
        return "nothing" if self.current is None else "line"

    @property
    def prompt(self) -> str:
        return "answer"

    def lines(self, painter: Painter) -> list[str]:
        lines: list[str] = []
        for status in self.request.answered:
            if status.status != "open":
                lines.extend(styled(painter, f"  {self._told(status, painter)}", "dim"))
        row = self.current
        if row is None:
            return [*lines, *styled(painter, "  answered; waiting for the others", "dim")] if self.sent else lines
        count = len(self.request.questions)
        number = f" ({self.request.questions.index(row) + 1} of {count})" if count > 1 else ""
        lines.extend(styled(painter, f"? {printable(row.text)}{number}", "yellow", "bold"))
        for place, choice in enumerate(row.choices, 1):
            lines.extend(styled(painter, f"  {place} {one_line(choice, 400)}"))
        if self.complaint:
            lines.extend(styled(painter, f"  {printable(self.complaint)}", "red"))
        how = expected(row.choices, multi=row.multi, free_text=row.free_text)
        return [*lines, *styled(painter, f"  {how}; /skip leaves it out, /decline all of it", "yellow")]

    def whole(self, painter: Painter) -> str:
        return ""

    def press(self, key: str) -> Step | None:
        return None

    def enter(self, text: str) -> Step:
        row = self.current
        if row is None or not text.strip():
            return self, None
        try:
            meant = chosen(text, row.choices, multi=row.multi, free_text=row.free_text)
        except Wrong as wrong:
            return msgspec.structs.replace(self, complaint=str(wrong)), None
        several = None if meant.choices is None else tuple(meant.choices)
        return self._sent(row, ClarifyAnswer(meant.choice, several, meant.text))

    def skip(self) -> Step | None:
        row = self.current
        return None if row is None else self._sent(row, ClarifyAnswer(skip=True))

    def back(self) -> Question:
        return self

    def updated(self, row: RequestOpened) -> Question:
        announced = {status.id for status in row.answered}
        sent = tuple(one for one in self.sent if one not in announced)
        return msgspec.structs.replace(self, request=row, sent=sent)

    def refused(self, message: str) -> Question:
        return msgspec.structs.replace(self, sent=(), complaint=message)

    def _sent(self, row: Row, answer: ClarifyAnswer) -> Step:
        after = msgspec.structs.replace(self, sent=(*self.sent, row.id), complaint="")
        return after, Answer(answers={row.id: answer})

    def _told(self, status: QuestionStatus, painter: Painter) -> str:
        row = next((row for row in self.request.questions if row.id == status.id), None)
        by = f" (by {painter.who(status.by)})" if status.by is not None else ""
        return f"{one_line(row.text if row else status.id, 60)} {clarified(status.status, status.answer)}{by}"
