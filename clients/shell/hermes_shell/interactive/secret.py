"""A secret asked for: typed without being shown, kept nowhere here, sent to the tool that waits for it."""

from __future__ import annotations

import msgspec

from hermes_protocol.events import RequestOpened
from hermes_protocol.methods import Answer
from hermes_shell.interactive.painter import Painter
from hermes_shell.interactive.printable import one_line, printable
from hermes_shell.interactive.question import Question, Step, Wants, styled


class Secret(msgspec.Struct, frozen=True):
    """`given` = the value was sent. It is no field of this: nothing here could show it."""

    request: RequestOpened
    given: bool = False
    complaint: str = ""

    @property
    def wants(self) -> Wants:
        return "nothing" if self.given else "hidden"

    @property
    def prompt(self) -> str:
        return f"{one_line(self.request.name or 'secret', 40)} (not shown)"

    def lines(self, painter: Painter) -> list[str]:
        asked = printable(self.request.prompt or f"A value for {self.request.name or 'a secret'} is needed")
        lines = styled(painter, f"? {asked}", "yellow", "bold")
        if self.complaint:
            lines.extend(styled(painter, f"  {printable(self.complaint)}", "red"))
        if self.given:
            return [*lines, *styled(painter, "  sent", "dim")]
        how = "  what you type is not shown and not kept; Enter on an empty line declines, Esc goes back to the chat"
        return [*lines, *styled(painter, how, "yellow")]

    def whole(self, painter: Painter) -> str:
        return ""

    def press(self, key: str) -> Step | None:
        return None

    def enter(self, text: str) -> Step:
        after = msgspec.structs.replace(self, given=True, complaint="")
        return after, Answer(value=text) if text else Answer(decline=True)

    def skip(self) -> Step | None:
        return None

    def back(self) -> Question:
        return self

    def updated(self, row: RequestOpened) -> Question:
        return msgspec.structs.replace(self, request=row)

    def refused(self, message: str) -> Question:
        return msgspec.structs.replace(self, given=False, complaint=message)
