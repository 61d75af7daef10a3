"""A form: one field after the other, each checked as it is typed, all of them sent together."""

from __future__ import annotations

from typing import Any

import msgspec

from hermes_protocol.events import RequestOpened
from hermes_protocol.methods import Answer
from hermes_shell.flat_schema import Field, Wrong, fields, said
from hermes_shell.interactive.painter import Painter
from hermes_shell.interactive.printable import one_line, printable
from hermes_shell.interactive.question import Question, Step, Wants, styled


class Form(msgspec.Struct, frozen=True):
    """`values` are those of the fields before `place`; a field that was left out has none."""

    request: RequestOpened
    values: dict[str, Any] = {}
    place: int = 0
    complaint: str = ""

    @property
    def fields(self) -> list[Field]:
        return fields(self.request.form_schema)

    @property
    def field(self) -> Field | None:
        """The one that is asked for now, None when all are filled in."""
        return next(iter(self.fields[self.place :]), None)

    @property
    def wants(self) -> Wants:
        return "nothing" if self.field is None and self.place else "line"

    @property
    def prompt(self) -> str:
        return one_line(self.field.label, 40) if self.field else "Enter sends"

    def lines(self, painter: Painter) -> list[str]:
        asked = printable(self.request.prompt or self.request.reason or "Please fill in")
        lines = styled(painter, f"? {asked}", "yellow", "bold")
        for done in self.fields[: self.place]:
            value = said(self.values[done.name]) if done.name in self.values else "left out"
            lines.extend(styled(painter, f"  {one_line(done.label, 60)}: {one_line(value)}", "dim"))
        if self.complaint:
            lines.extend(styled(painter, f"  {printable(self.complaint)}", "red"))
        field = self.field
        if field is None:
            return [*lines, *styled(painter, "  sent" if self.place else "  nothing to fill in: Enter sends", "dim")]
        about = field.schema.get("description")
        told = f": {one_line(about, 200)}" if isinstance(about, str) else ""
        lines.extend(styled(painter, f"  {one_line(field.label, 60)}{told} ({self.place + 1} of {len(self.fields)})"))
        lines.extend(line for n, one in enumerate(field.labels, 1) for line in styled(painter, f"    {n} {one}"))
        return [*lines, *styled(painter, f"  {field.hint}; Esc goes back a field, /decline declines", "yellow")]

    def whole(self, painter: Painter) -> str:
        return ""

    def press(self, key: str) -> Step | None:
        return None

    def enter(self, text: str) -> Step:
        field = self.field
        if field is None:
            return msgspec.structs.replace(self, place=1), Answer(values={})
        try:
            value = field.read(text)
        except Wrong as wrong:
            return msgspec.structs.replace(self, complaint=str(wrong)), None
        values = {**self.values, field.name: value} if value is not None else dict(self.values)
        after = msgspec.structs.replace(self, values=values, place=self.place + 1, complaint="")
        return after, Answer(values=values) if after.field is None else None

    def skip(self) -> Step | None:
        return None if self.field is None else self.enter("")

    def back(self) -> Question:
        """The field before this one again."""
        if self.place == 0 or self.field is None:
            return self
        before = self.fields[self.place - 1]
        values = {name: value for name, value in self.values.items() if name != before.name}
        return msgspec.structs.replace(self, values=values, place=self.place - 1, complaint="")

    def updated(self, row: RequestOpened) -> Question:
        return msgspec.structs.replace(self, request=row)

    def refused(self, message: str) -> Question:
        """From the field that the daemon's words name, else from the first."""
        named = (
            n for n, field in enumerate(self.fields) if f".{field.name}" in message or f"'{field.name}'" in message
        )
        place = next(named, 0)
        kept = {field.name for field in self.fields[:place]}
        values = {name: value for name, value in self.values.items() if name in kept}
        return msgspec.structs.replace(self, values=values, place=place, complaint=message)
