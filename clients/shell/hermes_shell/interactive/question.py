"""What every kind of question has in common, as the screen sees it."""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

from hermes_protocol.events import RequestOpened
from hermes_protocol.methods import Answer
from hermes_shell.interactive.painter import Painter
from hermes_shell.interactive.printable import fitted

KINDS = ("permission", "clarify", "secret", "form")
"""What this client can ask a person; announced in `initialize`."""
Wants: TypeAlias = Literal["keys", "line", "hidden", "nothing"]
"""How it is answered now: by single keys, by a line, by a line nobody may read, or it was answered."""


class Question(Protocol):
    """An immutable value: every step gives the question as it stands after it."""

    @property
    def request(self) -> RequestOpened: ...

    @property
    def wants(self) -> Wants: ...

    @property
    def prompt(self) -> str:
        """Before the line that answers, without the sign."""
        ...

    def lines(self, painter: Painter) -> list[str]:
        """The question, no line wider than the terminal."""
        ...

    def whole(self, painter: Painter) -> str:
        """What goes to the scrollback because the question cannot show it all; "" when it can."""
        ...

    def press(self, key: str) -> Step | None:
        """A single key; None when it means nothing here."""
        ...

    def enter(self, text: str) -> Step:
        """A whole line."""
        ...

    def skip(self) -> Step | None:
        """Leave this part out; None where nothing can be left out."""
        ...

    def back(self) -> Question:
        """One step back, where there is one."""
        ...

    def updated(self, row: RequestOpened) -> Question:
        """The same with what became known meanwhile."""
        ...

    def refused(self, message: str) -> Question:
        """The daemon did not take the answer: ask again, with its words."""
        ...


Step: TypeAlias = tuple[Question, Answer | None]
"""The question as it stands now, and what to send."""


def styled(painter: Painter, text: str, *names: str) -> list[str]:
    """`text` in lines that fit the terminal, in these styles."""
    return [painter.style(line, *names) for line in fitted(text, painter.width())]
