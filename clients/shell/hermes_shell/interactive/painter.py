"""How each thing looks on the terminal: from items and events to lines of text with colours."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from hermes_client.view import shown_output
from hermes_protocol import events as e
from hermes_protocol.content import By
from hermes_shell.interactive.printable import one_line, printable

SGR = {"bold": "1", "dim": "2", "italic": "3", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}
LEVEL_COLOURS = {"info": "dim", "warning": "yellow", "error": "red"}
OUTCOMES = {
    "allow_once": "allowed once",
    "allow_session": "allowed for this session",
    "allow_always": "always allowed from now on",
    "deny": "denied",
    "deny_always": "denied from now on",
    "answered": "answered",
    "declined": "declined",
    "timeout": "not answered in time",
    "interrupted": "withdrawn, the turn was interrupted",
    "lost": "withdrawn, the daemon was stopped",
    "policy": "decided by policy",
}


class Look(msgspec.Struct, frozen=True):
    """Display settings. `tool_lines` is how many lines of a tool's output stand before it is collapsed."""

    colour: bool = True
    unicode: bool = True
    markdown: bool = True
    reasoning: bool = False
    tool_lines: int = 12


class Painter:
    """Gives text that ends without a newline. `width` is asked each time, because windows are resized."""

    def __init__(self, look: Look, width: Callable[[], int], own_id: str) -> None:
        self.look = look
        self.width = width
        self._own_id = own_id

    def style(self, text: str, *names: str) -> str:
        """`text` in these styles, line by line, so that cutting lines apart cuts no style apart."""
        if not self.look.colour or not names:
            return text
        start = "\x1b[" + ";".join(SGR[name] for name in names) + "m"
        return "\n".join(f"{start}{line}\x1b[0m" if line else "" for line in text.split("\n"))

    def sign(self, wide: str, narrow: str) -> str:
        """A sign, or its ASCII stand-in on a terminal that cannot show it."""
        return wide if self.look.unicode else narrow

    def who(self, by: By | None) -> str:
        """ "you", or the name of another client."""
        if by is None:
            return ""
        return "you" if by.client_id == self._own_id else one_line(by.name or by.via or by.client_id, 40)

    # --- items --------------------------------------------------------------------------------------------------------

    def user(self, item: e.UserMessage) -> str:
        """What a person said, with who when it was somebody else."""
        mark = self.sign("›", ">")
        lines = printable(item.text).split("\n")
        text = "\n".join([f"{mark} {lines[0]}", *(f"  {line}" for line in lines[1:])])
        who = self.who(item.by)
        if item.by is None or who == "you":
            return self.style(text, "bold")
        return self.style(text, "cyan") + self.style(f"  ({who})", "dim")

    def answer(self, text: str) -> str:
        """A piece of an answer."""
        text = printable(text).strip("\n")
        if not self.look.markdown:
            return text
        from hermes_shell.interactive.rich_markdown import rendered

        return rendered(text, self.width(), self.look.colour)

    def reasoning(self, text: str) -> str:
        return self.style(printable(text).strip(), "dim", "italic")

    def tool_head(self, item: e.ToolCallItem, number: int) -> str:
        """One line: what runs or ran, and how it ended."""
        title = one_line(item.title or item.name, max(20, self.width() - 30))
        if item.status == "inProgress":
            return f"{self.style(self.sign('●', '*'), 'yellow')} {title} {self.style('running', 'dim')}"
        good = item.status == "completed" and not item.error and not item.exit_code
        mark = self.style(self.sign("●", "*"), "green") if good else self.style(self.sign("✗", "x"), "red")
        told = [f"#{number}"]
        if item.exit_code:
            told.append(f"exit {item.exit_code}")
        elif not good:
            told.append(item.status if item.status != "completed" else "failed")
        if item.duration_ms is not None and item.duration_ms >= 1000:
            told.append(f"{item.duration_ms / 1000:.1f} s")
        return f"{mark} {title} {self.style(' · '.join(told) if self.look.unicode else ', '.join(told), 'dim')}"

    def tool(self, item: e.ToolCallItem, number: int, *, whole: bool = False) -> str:
        """A finished call with its output, collapsed to `tool_lines` lines unless `whole`."""
        text = shown_output(item.output) or (item.error or "")
        lines = [line.rstrip() for line in printable(text).rstrip().split("\n")] if text.strip() else []
        hidden = 0
        if not whole and len(lines) > self.look.tool_lines:
            hidden = len(lines) - self.look.tool_lines
            lines = lines[: self.look.tool_lines]
        bar = self.sign("│", "|")
        paint = self._diff if _is_diff(lines) else self._faint
        shown = [f"{self._faint(f'  {bar}')} {paint(line)}".rstrip() for line in lines]
        if hidden:
            more = f"  {self.sign('…', '...')} {hidden} more line{'s' * (hidden > 1)} (Ctrl-O, or /expand {number})"
            shown.append(self.style(more, "dim"))
        return "\n".join([self.tool_head(item, number), *shown])

    def change(self, item: e.FileChange, *, brief: bool = False) -> str:
        """A changed file with its diff; `brief` = the diff stands above already."""
        head = f"  {item.kind} {one_line(item.path)} +{item.added} -{item.removed}"
        if brief:
            return self.style(head, "bold")
        lines = [line for line in printable(item.diff).rstrip().split("\n") if line]
        limit = self.look.tool_lines * 2
        body = [f"  {self._diff(line)}" for line in lines[:limit] if not line.startswith(("---", "+++"))]
        if len(lines) > limit:
            body.append(self.style(f"  {self.sign('…', '...')} {len(lines) - limit} more lines", "dim"))
        return "\n".join([self.style(head, "bold"), *body])

    def _faint(self, line: str) -> str:
        return self.style(line, "dim")

    def _diff(self, line: str) -> str:
        colours = {"+": "green", "-": "red", "@": "cyan"}
        return self.style(line, colours.get(line[:1], "dim"))

    def plan(self, item: e.Plan) -> str:
        marks = {"completed": "[x]", "in_progress": "[>]", "cancelled": "[-]"}
        return "\n".join(f"  {marks.get(entry.status, '[ ]')} {one_line(entry.content)}" for entry in item.entries)

    # --- lines that are no items --------------------------------------------------------------------------------------

    def note(self, text: str, level: str = "info") -> str:
        """A line of ours."""
        return self.style(printable(text), LEVEL_COLOURS.get(level, "dim"))

    def resolved(self, asked: e.RequestOpened | None, data: e.RequestResolved) -> str:
        """Who decided a question, and how."""
        named = _asked(asked) if asked is not None else ""
        what = f"{one_line(named, 60)}: " if named else ""
        by = f" by {self.who(data.by)}" if data.by is not None else ""
        why = f" ({one_line(data.feedback)})" if data.feedback else ""
        return self.note(f"  {what}{OUTCOMES.get(data.outcome, data.outcome)}{by}{why}")

    def answered(self, asked: e.RequestOpened | None, data: e.RequestAnswered) -> str:
        """Who answered one of several questions, and what."""
        rows = asked.questions if asked is not None else ()
        named = next((row.text for row in rows if row.id == data.question_id), data.question_id)
        by = f" by {self.who(data.by)}" if data.by is not None else ""
        return self.note(f"  {one_line(named, 60)} {clarified(data.status, data.answer)}{by}")

    def ended(self, data: e.TurnEnded) -> str:
        """Why a turn ended other than by completing; "" when there is nothing to say."""
        if data.status == "completed":
            return ""
        told = {
            "interrupted": "interrupted",
            "failed": "the turn failed",
            "refused": "the model refused",
            "limit": f"stopped at a limit ({one_line(data.stop)})" if data.stop else "stopped at a limit",
            "lost": "the turn was lost because the daemon was stopped; what was said so far is kept",
        }.get(data.status, data.status)
        if data.error is not None:
            told += f": {printable(data.error.message)}"
        level = "warning" if data.status in ("interrupted", "limit") else "error"
        return self.note(f"{self.sign('■', '!')} {told}", level)


def clarified(status: str, answer: e.ClarifyAnswer | None) -> str:
    """What became of one question, in words: `→ postgres`, `skipped`, `not answered in time`."""
    if status != "answered" or answer is None:
        return {"timed_out": "not answered in time"}.get(status, status)
    return f"→ {one_line(', '.join(answer.choices) if answer.choices else answer.choice or answer.text or '', 200)}"


def _asked(asked: e.RequestOpened) -> str:
    """A question in a few words."""
    if asked.tool_call is not None:
        return asked.tool_call.title or asked.tool_call.name
    if len(asked.questions) == 1:
        return asked.questions[0].text
    return asked.prompt or asked.name or (f"{len(asked.questions)} questions" if asked.questions else "")


def _is_diff(lines: list[str]) -> bool:
    """Whether an output is a unified diff."""
    return len(lines) > 2 and lines[0].startswith("--- ") and lines[1].startswith("+++ ")
