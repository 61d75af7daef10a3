"""The screen of `hermes watch`: the sessions, one of them chosen, and what happened to the daemon."""

from __future__ import annotations

from prompt_toolkit.application import Application
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import FormattedTextControl, Layout, Window

from hermes_client import Connection
from hermes_shell.overview import Overview, Row, lines
from hermes_shell.table import cut

REDRAW_S = 0.2
TICK_S = 1.0
"""Turns get older without an event."""
KEYS = "Up, Down choose · Enter attaches · q leaves"


class WatchScreen:
    """`run` gives the id of the session to attach to, None when the person left."""

    def __init__(self, connection: Connection) -> None:
        self._chosen = ""
        self._rows: list[Row] = []
        self._app: Application[str | None] = Application(
            layout=Layout(Window(FormattedTextControl(self._text), always_hide_cursor=True)),
            key_bindings=self._keys(),
            full_screen=True,
            min_redraw_interval=REDRAW_S,
            refresh_interval=TICK_S,
        )
        self.overview = Overview(connection, self._app.invalidate)

    async def run(self) -> str | None:
        """Show until a key ends it."""
        return await self._app.run_async(handle_sigint=False)

    def _text(self) -> FormattedText:
        size = self._app.output.get_size()
        self._rows = self.overview.rows()
        place = self._place()
        table = lines(self._rows, size.columns - 1)
        room = max(1, size.rows - 3)
        first = max(0, min(place - room // 2, len(self._rows) - room))
        busy = sum(row.state != "idle" for row in self._rows)
        asks = sum(row.open_requests for row in self._rows)
        head = f"{len(self._rows)} sessions, {busy} busy, {asks} question{'s' * (asks != 1)} open"
        shown = [("bold", f"{cut(head, size.columns - 1)}\n"), ("ansibrightblack", f"{table[0]}\n")]
        for number, (row, line) in enumerate(zip(self._rows, table[1:], strict=True)):
            if first <= number < first + room:
                shown.append((_style(row, number == place), f"{line}\n"))
        notice = self.overview.notice
        shown.append(("ansiyellow" if notice else "ansibrightblack", cut(notice or KEYS, size.columns - 1)))
        return FormattedText(shown)

    def _place(self) -> int:
        """Where the chosen session stands now: rows move, the choice stays with its session."""
        found = (number for number, row in enumerate(self._rows) if row.session_id == self._chosen)
        return next(found, 0)

    def _move(self, by: int) -> None:
        if self._rows:
            self._chosen = self._rows[max(0, min(len(self._rows) - 1, self._place() + by))].session_id
        self._app.invalidate()

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("q")
        @keys.add("c-c")
        @keys.add("c-d")
        def _(event: KeyPressEvent) -> None:
            event.app.exit(result=None)

        @keys.add("up")
        @keys.add("k")
        def _(event: KeyPressEvent) -> None:
            self._move(-1)

        @keys.add("down")
        @keys.add("j")
        def _(event: KeyPressEvent) -> None:
            self._move(1)

        @keys.add("enter")
        def _(event: KeyPressEvent) -> None:
            if self._rows:
                event.app.exit(result=self._rows[self._place()].session_id)

        return keys


def _style(row: Row, chosen: bool) -> str:
    colour = "ansiyellow" if row.open_requests else "" if row.state != "idle" else "ansibrightblack"
    return f"{colour} reverse" if chosen else colour
