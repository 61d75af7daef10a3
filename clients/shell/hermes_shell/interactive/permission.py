"""A permission question as a person meets it: the keys 1 to 4, and a reason when the answer is no."""

from __future__ import annotations

import json

import msgspec

from hermes_protocol.events import PermissionOption, RequestOpened
from hermes_protocol.methods import Answer
from hermes_shell.interactive.painter import Painter
from hermes_shell.interactive.printable import fitted, one_line, printable
from hermes_shell.interactive.question import Question, Step, Wants, styled

KEYS = {"1": "allow_once", "2": "allow_session", "3": "allow_always", "4": "deny"}
LABELS = {"allow_once": "once", "allow_session": "session", "allow_always": "always", "deny": "deny"}
SHOWN_LINES = 12


class Permission(msgspec.Struct, frozen=True):
    """An open permission request. `denying` = the key for "no" was pressed, and a reason may follow."""

    request: RequestOpened
    denying: bool = False

    @property
    def choices(self) -> dict[str, PermissionOption]:
        """Key -> option, for the options that are offered. A key means the same thing in every question."""
        by_kind = {option.kind: option for option in self.request.options}
        return {key: by_kind[kind] for key, kind in KEYS.items() if kind in by_kind}

    @property
    def wants(self) -> Wants:
        return "line" if self.denying else "keys"

    @property
    def prompt(self) -> str:
        return "why?"

    def press(self, key: str) -> Step | None:
        """An answer, or the question for a reason; None when the key means nothing here."""
        option = self.choices.get(key)
        if option is None or self.denying:
            return None
        if option.kind == "deny":
            return Permission(self.request, denying=True), None
        return self, Answer(option_id=option.id)

    def enter(self, text: str) -> Step:
        """The answer "no", with what the model should read."""
        if not self.denying:
            return self.press(text.strip()) or (self, None)
        return self, Answer(option_id=self.choices["4"].id, feedback=text.strip() or None)

    def skip(self) -> Step | None:
        return None

    def back(self) -> Question:
        """Not denied after all."""
        return Permission(self.request)

    def updated(self, row: RequestOpened) -> Question:
        return Permission(row, self.denying)

    def refused(self, message: str) -> Question:
        return Permission(self.request)

    def lines(self, painter: Painter) -> list[str]:
        """The question: what is asked for, its arguments, why, and the keys. No line is wider than the terminal."""
        call = self.request.tool_call
        lines = styled(painter, f"? Allow {self._what()}", "yellow", "bold")
        shown, hidden = self._arguments(painter)
        lines.extend(painter.style(line, "dim") for line in shown)
        if hidden:
            lines.extend(styled(painter, f"  {hidden} more lines of arguments, all of them above", "yellow"))
        if call is not None and call.risk:
            lines.extend(styled(painter, f"  {one_line(call.risk)}", "red"))
        if self.request.reason:
            lines.extend(styled(painter, f"  {one_line(self.request.reason)}", "dim"))
        if self.denying:
            keys = "  Why not? Enter sends the reason (may be empty), Esc goes back"
        else:
            keys = "  " + "  ".join(f"{key} {LABELS[option.kind]}" for key, option in self.choices.items())
        return [*lines, *styled(painter, keys, "yellow")]

    def whole(self, painter: Painter) -> str:
        """What goes to the scrollback when the question cannot show every argument; "" when it can."""
        call = self.request.tool_call
        if call is None or not self._arguments(painter)[1]:
            return ""
        text = "\n".join(f"  {line}" for line in arguments(call.args))
        return painter.note(f"  asked: {self._what()}\n{text}")

    def _what(self) -> str:
        call = self.request.tool_call
        return one_line(call.title or call.name, 300) if call else "this"

    def _arguments(self, painter: Painter) -> tuple[list[str], int]:
        """The lines that are shown, and how many are not."""
        call = self.request.tool_call
        text = "\n".join(f"  {line}" for line in arguments(call.args)) if call and call.args else ""
        lines = fitted(text, painter.width()) if text else []
        return lines[:SHOWN_LINES], max(0, len(lines) - SHOWN_LINES)


def arguments(text: str) -> list[str]:
    """The arguments of a call, one `name: value` after the other; text that is no JSON object as it is."""
    try:
        decoded = json.loads(text)
    except ValueError:
        return printable(text).split("\n")
    if not isinstance(decoded, dict):
        return printable(text).split("\n")
    lines: list[str] = []
    for name, value in decoded.items():
        said = printable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)).rstrip("\n")
        first, *more = said.split("\n")
        lines.append(f"{printable(name)}: {first}")
        lines.extend(f"    {line}" for line in more)
    return lines
