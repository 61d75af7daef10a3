"""What goes to the scrollback, once and in order, and what is still moving below it.

`Transcript` is fed every change of a session and gives the pieces of text to print. It remembers what it printed, so a
View that was rebuilt after a lost connection prints what is new and nothing twice.
"""

from __future__ import annotations

from typing import TypeAlias

from hermes_client import Change, View
from hermes_client.view import shown_output
from hermes_protocol import events as e
from hermes_shell.interactive.markdown import final_length
from hermes_shell.interactive.painter import Painter
from hermes_shell.interactive.printable import fitted, printable

Piece: TypeAlias = tuple[str, str]
"""A kind (it decides about blank lines) and its painted text."""

LIVE_CHARACTERS = 4000
"""Of a block under construction only this much is drawn again at every word."""


class Transcript:
    """The printed side of one session."""

    def __init__(self, painter: Painter) -> None:
        self._painter = painter
        self._printed: set[str] = set()
        self._said: dict[str, str] = {}
        self._seen: dict[str, str] = {}
        self._asked: dict[str, e.RequestOpened] = {}
        self._last = ""
        self._last_output = ""
        self.calls: list[str] = []
        """Ids of tool calls in the order they were seen: number n is `calls[n - 1]`."""

    def feed(self, change: Change) -> list[str]:
        """The pieces to print after this change, with blank lines where something new begins."""
        pieces: list[str] = []
        for kind, text in self._pieces(change):
            blank = self._last and kind != "note" and (kind != self._last or kind != "tool")
            pieces.append(f"\n{text}" if blank else text)
            self._last = kind
        return pieces

    def earlier(self, items: tuple[e.AnyItem, ...]) -> list[str]:
        """The pieces of items from before those that were shown; none is printed twice."""
        pieces = [piece for item in items if item.item_id not in self._printed for piece in self._finished(item)]
        return [text for _, text in pieces]

    def _pieces(self, change: Change) -> list[Piece]:
        self._asked.update({row.request_id: row for row in change.view.requests})
        data = change.payload
        if change.event is None:
            return self._all_of(change.view)
        if isinstance(data, e.ItemStarted):
            self._number(data.item)
        elif isinstance(data, e.ItemDelta):
            return self._grown(change.view, change.event.item_id or "")
        elif isinstance(data, e.ItemCompleted):
            return self._finished(data.item)
        elif isinstance(data, e.ItemDiscarded):
            return self._taken_back(change.event.item_id or "")
        return [("note", text) for text in self._said_beside(data)]

    def _said_beside(self, data: e.EventData | None) -> list[str]:
        paint = self._painter
        if isinstance(data, e.RequestResolved):
            return [paint.resolved(self._asked.pop(data.request_id, None), data)]
        if isinstance(data, e.RequestAnswered):
            return [paint.answered(self._asked.get(data.request_id), data)]
        if isinstance(data, e.SessionRewound):
            return [paint.note(f"  rewound: the last {data.removed} items above are taken back", "warning")]
        if isinstance(data, e.SessionDeleted):
            by = f" by {paint.who(data.by)}" if data.by is not None else ""
            return [paint.note(f"  this session was deleted{by}; /new begins another", "error")]
        if isinstance(data, e.TurnSteerRequeued):
            return [paint.note("  too late for the running turn: what was added waits as a turn of its own", "warning")]
        if isinstance(data, e.TurnEnded):
            dropped = [paint.note(f"not sent: {text}", "warning") for text in data.dropped]
            ended = paint.ended(data)
            return [*([ended] if ended else []), *dropped]
        if isinstance(data, e.TurnRetrying):
            wait = f"attempt {data.attempt} in {data.delay_ms / 1000:.1f} s"
            return [paint.note(f"  {data.error.message} ({wait})", "warning")]
        if isinstance(data, e.Notice):
            return [paint.note(f"  {data.text}", data.level)]
        if isinstance(data, e.SessionError):
            return [paint.note(f"  {data.error.message}", "error")]
        if isinstance(data, e.SessionOption):
            by = f" (by {paint.who(data.by)})" if data.by is not None else ""
            return [paint.note(f"  {data.id} is now {data.value}{by}")]
        if isinstance(data, e.CompactionEnded) and data.error is not None:
            return [paint.note(f"  compaction failed: {data.error.message}", "error")]
        return []

    # --- printing -----------------------------------------------------------------------------------------------------

    def _all_of(self, view: View) -> list[Piece]:
        pieces: list[Piece] = []
        if view.older_cursor is not None and not self._printed:
            pieces.append(
                ("note", self._painter.note("  earlier messages are not shown: /older shows them, /export writes all"))
            )
        for item in view.items:
            if item.item_id in view.streaming:
                self._number(item)
                pieces.extend(self._grown(view, item.item_id))
            elif item.item_id not in self._printed:
                pieces.extend(self._finished(item))
        return pieces

    def _grown(self, view: View, item_id: str) -> list[Piece]:
        item = view.item(item_id)
        if not isinstance(item, e.AgentMessage):
            return []
        text, said = view.text(item), self._said.get(item_id, "")
        self._seen[item_id] = text
        if not text.startswith(said):
            return []
        # What was said ends with a block, so the rest can be looked at alone.
        more = text[len(said) : len(said) + final_length(text[len(said) :])]
        if not more:
            return []
        self._said[item_id] = said + more
        return [("answer", self._painter.answer(more))]

    def _finished(self, item: e.AnyItem) -> list[Piece]:
        self._printed.add(item.item_id)
        self._number(item)
        if isinstance(item, e.AgentMessage):
            return self._rest(item)
        text = self._whole(item)
        kind = "tool" if isinstance(item, e.ToolCallItem | e.FileChange) else type(item).__name__
        return [(kind, text)] if text else []

    def _rest(self, item: e.AgentMessage) -> list[Piece]:
        said, seen = self._said.pop(item.item_id, ""), self._seen.pop(item.item_id, "")
        pieces: list[Piece] = []
        cut = item.status != "completed" and seen.startswith(item.text)
        if item.text.startswith(said):
            rest = item.text[len(said) :]
            pieces = [("answer", self._painter.answer(rest))] if rest.strip() else []
        elif not cut:
            note = self._painter.note("  the final text of this answer differs from what was streamed:")
            pieces = [("note", note), ("answer", self._painter.answer(item.text))]
        if cut and (lost := seen[len(item.text) :].strip()):
            # The last moment before a kill was on the screen and not yet in the journal.
            pieces.append(("note", self._painter.note(f"  seen here, but not kept by the daemon: {lost}", "warning")))
        return pieces

    def _taken_back(self, item_id: str) -> list[Piece]:
        self._seen.pop(item_id, None)
        if self._said.pop(item_id, ""):
            return [("note", self._painter.note("  the answer above was cut off and begins again"))]
        return []

    def _whole(self, item: e.AnyItem) -> str:
        paint = self._painter
        match item:
            case e.UserMessage():
                return paint.user(item)
            case e.Reasoning():
                return paint.reasoning(item.text) if paint.look.reasoning and item.text.strip() else ""
            case e.ToolCallItem():
                self._last_output = shown_output(item.output)
                return paint.tool(item, self.number(item.item_id))
            case e.FileChange():
                told = bool(item.diff.strip()) and item.diff.strip() in self._last_output
                return paint.change(item, brief=told)
            case e.Plan():
                return paint.plan(item)
            case e.Compaction():
                return paint.note(f"  compacted: {item.before:,} tokens before, {item.after:,} after")
            case e.Subagent():
                return paint.note(f"  subagent {item.status}: {item.summary or item.goal}")
            case e.NoticeItem():
                return paint.note(f"  {item.text}", item.level)
        return ""

    # --- tool calls by number -----------------------------------------------------------------------------------------

    def _number(self, item: e.AnyItem) -> None:
        if isinstance(item, e.ToolCallItem) and item.item_id not in self.calls:
            self.calls.append(item.item_id)

    def number(self, item_id: str) -> int:
        """The number people use for a tool call, from 1."""
        return self.calls.index(item_id) + 1

    def expanded(self, view: View, number: int) -> str | None:
        """Tool call `number` with its whole output, or None when there is no such call."""
        if not 1 <= number <= len(self.calls):
            return None
        item = view.item(self.calls[number - 1])
        if not isinstance(item, e.ToolCallItem):
            return None
        if item.item_id in view.streaming:
            return "\n".join([self._painter.tool_head(item, number), *self._output(view, item)])
        return self._painter.tool(item, number, whole=True)

    # --- what still moves ---------------------------------------------------------------------------------------------

    def live(self, view: View, height: int) -> list[str]:
        """The lines of everything open, newest words last, at most `height` of them."""
        lines: list[str] = []
        previous = self._last
        for item in view.items:
            if item.item_id not in view.streaming:
                continue
            kind, shown = self._moving(view, item)
            if shown and previous and (kind != previous or kind != "tool"):
                lines.append("")
            if shown:
                lines.extend(shown)
                previous = kind
        return lines[-height:] if height > 0 else []

    def _moving(self, view: View, item: e.AnyItem) -> tuple[str, list[str]]:
        text = view.text(item)
        if isinstance(item, e.AgentMessage):
            open_block = text[len(self._said.get(item.item_id, "")) :]
            if len(open_block) > LIVE_CHARACTERS:
                # Plain until it is whole: Markdown of this much at every word would be slow.
                return "answer", fitted(printable(open_block[-LIVE_CHARACTERS:]), self._painter.width())
            shown = self._painter.answer(open_block)
            return "answer", shown.split("\n") if shown.strip() else []
        if isinstance(item, e.Reasoning):
            shown = self._painter.reasoning(text[-LIVE_CHARACTERS:]) if self._painter.look.reasoning else ""
            return "reasoning", shown.split("\n") if shown else [self._painter.note("thinking")]
        if isinstance(item, e.ToolCallItem):
            head = self._painter.tool_head(item, self.number(item.item_id))
            return "tool", [head, *self._output(view, item)[-self._painter.look.tool_lines :]]
        return "", []

    def _output(self, view: View, item: e.ToolCallItem) -> list[str]:
        text = printable(view.text(item)[-LIVE_CHARACTERS * 4 :]).rstrip()
        bar = self._painter.sign("│", "|")
        return [self._painter.style(f"  {bar} {line}", "dim") for line in text.split("\n")] if text else []
