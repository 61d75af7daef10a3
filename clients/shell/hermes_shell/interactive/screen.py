"""The chat on a real terminal: scrollback above, and below it what moves, the question, the input and the status line.

No full screen: what is final is printed into the terminal's own scrollback, where it can be selected and searched.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING

from prompt_toolkit.application import Application, run_in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI, FormattedText
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import BufferControl, ConditionalContainer, FormattedTextControl, HSplit, Layout, Window
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.layout.processors import BeforeInput
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output

from hermes_shell.interactive import commands
from hermes_shell.interactive.status import status_line

if TYPE_CHECKING:
    from hermes_shell.interactive.chat import Chat

INPUT_ROWS = 8
REDRAW_SECONDS = 0.03


class Screen:
    """A Face over prompt_toolkit."""

    def __init__(self, chat: Chat, history_path: str | None) -> None:
        self._chat = chat
        self._code = 0
        self._unprinted: list[str] = []
        self._flushing: asyncio.Task[None] | None = None
        self._lines: list[str] = []
        self.buffer = Buffer(multiline=True, history=_history(history_path), on_text_changed=lambda _: chat.typed())
        self._app: Application[None] = Application(
            layout=self._layout(),
            key_bindings=self._keys(),
            output=_output(),
            color_depth=None if chat.painter.look.colour else ColorDepth.DEPTH_1_BIT,
            min_redraw_interval=REDRAW_SECONDS,
            erase_when_done=True,
            before_render=lambda _: self._measure(),
        )

    async def run(self) -> int:
        """Show until somebody leaves; the exit code."""
        await self._app.run_async(handle_sigint=False, pre_run=self.redraw)  # what was printed before it ran
        self._write()
        return self._code

    # --- Face ---------------------------------------------------------------------------------------------------------

    def print(self, text: str) -> None:
        self._unprinted.append(text)
        if self._flushing is None and self._app.is_running:
            self._flushing = asyncio.get_running_loop().create_task(self._flush())

    def redraw(self) -> None:
        if self._unprinted and self._flushing is None and self._app.is_running:
            self._flushing = asyncio.get_running_loop().create_task(self._flush())
        self._app.invalidate()

    def restore(self, text: str) -> None:
        current = self.buffer.text
        self.buffer.text = f"{text}\n{current}" if current else text
        self.buffer.cursor_position = len(self.buffer.text)

    def leave(self, code: int) -> None:
        self._code = code
        if self._app.is_running and self._app.future is not None and not self._app.future.done():
            self._app.exit()

    # --- printing -----------------------------------------------------------------------------------------------------

    async def _flush(self) -> None:
        try:
            while self._unprinted:
                await run_in_terminal(self._write)
        finally:
            self._flushing = None

    def _write(self) -> None:
        pieces, self._unprinted = self._unprinted, []
        if pieces:
            sys.stdout.write("".join(f"{piece}\n" for piece in pieces))
            sys.stdout.flush()

    # --- layout -------------------------------------------------------------------------------------------------------

    def _layout(self) -> Layout:
        live = Window(FormattedTextControl(self._live), height=lambda: len(self._lines), dont_extend_height=True)
        prompt = Window(
            BufferControl(self.buffer, input_processors=[BeforeInput(self._prompt)]),
            height=self._input_height,
            wrap_lines=True,
            dont_extend_height=True,
        )
        status = Window(FormattedTextControl(self._status), height=1, style="class:status")
        roomy = Condition(lambda: self._app.output.get_size().rows >= 4)
        return Layout(HSplit([live, prompt, ConditionalContainer(status, roomy)]), focused_element=prompt)

    def _measure(self) -> None:
        """Fetch what moves before the layout asks how high it is."""
        rows = self._app.output.get_size().rows
        lines = self._chat.live(max(0, rows - self._input_rows() - 2))
        if len(lines) < len(self._lines):
            # prompt_toolkit keeps the height it once had; what moves here must be able to shrink.
            self._app.renderer.erase()
        self._lines = lines

    def _live(self) -> ANSI:
        return ANSI("\n".join(self._lines))

    def _input_rows(self) -> int:
        width = max(10, self._app.output.get_size().columns - 2)
        rows = sum(1 + len(line) // width for line in self.buffer.text.split("\n"))
        return min(rows, INPUT_ROWS)

    def _input_height(self) -> Dimension:
        rows = self._input_rows()
        return Dimension(min=1, preferred=rows, max=rows)

    def _prompt(self) -> FormattedText:
        permission = self._chat.permission
        sign = self._chat.painter.sign("›", ">")
        if permission is not None and permission.denying:
            return FormattedText([("ansiyellow", f"why? {sign} ")])
        return FormattedText([("bold", f"{sign} ")])

    def _status(self) -> FormattedText:
        separator = self._chat.painter.sign(" · ", " | ")
        width = self._app.output.get_size().columns - 1
        line = status_line(self._chat.view, self._chat.situation(), width, separator)
        return FormattedText([("ansibrightblack" if self._chat.painter.look.colour else "", line)])

    # --- keys ---------------------------------------------------------------------------------------------------------

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        chat = self._chat
        asked = Condition(lambda: chat.permission is not None and not chat.permission.denying)
        denying = Condition(lambda: chat.permission is not None and chat.permission.denying)
        # A digit answers only while nothing is being typed: words typed ahead must not allow anything.
        untouched = Condition(lambda: not self.buffer.text)

        @keys.add("enter")
        def _(event: KeyPressEvent) -> None:
            self._enter()

        @keys.add("escape", "enter")
        @keys.add("c-j")
        def _(event: KeyPressEvent) -> None:
            self.buffer.insert_text("\n")

        @keys.add("c-c")
        def _(event: KeyPressEvent) -> None:
            if denying():
                chat.back()
            elif self.buffer.text and chat.view.turn is None:
                self.buffer.reset()
            else:
                chat.press_interrupt()

        @keys.add("c-d")
        def _(event: KeyPressEvent) -> None:
            if self.buffer.text:
                self.buffer.delete()
            else:
                chat.leave()

        @keys.add("c-o")
        def _(event: KeyPressEvent) -> None:
            chat.toggle()

        @keys.add("c-l")
        def _(event: KeyPressEvent) -> None:
            event.app.renderer.clear()

        @keys.add("tab")
        def _(event: KeyPressEvent) -> None:
            self.buffer.text = commands.completed(self.buffer.text)
            self.buffer.cursor_position = len(self.buffer.text)

        @keys.add("escape", filter=denying, eager=True)
        def _(event: KeyPressEvent) -> None:
            chat.back()

        for key in "1234":

            @keys.add(key, filter=asked & untouched)
            def _(event: KeyPressEvent) -> None:
                chat.press(event.data)

            @keys.add("escape", key, filter=asked)
            def _(event: KeyPressEvent) -> None:
                chat.press(event.data)

        return keys

    def _enter(self) -> None:
        text = self.buffer.text
        if self._chat.permission is not None and self._chat.permission.denying:
            self.buffer.reset()
            self._chat.deny(text)
            return
        if not text.strip():
            return
        self.buffer.append_to_history()
        self.buffer.reset()
        if commands.plain_message(text):
            self._chat.submit(text)
        else:
            self._chat.start(commands.run(self._chat, text))


def _output() -> Vt100_Output:
    output = Vt100_Output.from_pty(sys.stdout, term=os.environ.get("TERM"))
    # Where the cursor stands is not asked: slow links and simple terminals would answer late, into the input.
    output.enable_cpr = False
    return output


def _history(path: str | None) -> History:
    """Messages typed before, in a file that only this user reads; in memory where it cannot be written."""
    if path is None:
        return InMemoryHistory()
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600))
    except OSError:
        return InMemoryHistory()
    return FileHistory(path)
