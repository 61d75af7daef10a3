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
from prompt_toolkit.layout.processors import (
    BeforeInput,
    ConditionalProcessor,
    Processor,
    Transformation,
    TransformationInput,
)
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output

from hermes_shell.interactive import commands
from hermes_shell.interactive.status import status_line

if TYPE_CHECKING:
    from hermes_shell.interactive.chat import Chat

INPUT_ROWS = 8
REDRAW_SECONDS = 0.03


class Unseen(Processor):
    """Shows nothing of a line, not even its length."""

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        return Transformation([], source_to_display=lambda _: 0, display_to_source=lambda _: 0)


class Screen:
    """A Face over prompt_toolkit.

    Messages and answers have a line each, so that words typed ahead never become an answer: a question takes its line
    when it opens while nothing is being typed, else with Alt-A. A secret's line is in no history.
    """

    def __init__(self, chat: Chat, history_path: str | None) -> None:
        self._chat = chat
        self._code = 0
        self._unprinted: list[str] = []
        self._flushing: asyncio.Task[None] | None = None
        self._lines: list[str] = []
        self._looked = ""
        self._answering = ""
        self.answer = Buffer(multiline=False, on_text_changed=lambda _: chat.typed())
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
        self._take_line()
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
        hidden = Condition(lambda: self._wants() == "hidden")
        answer = Window(
            BufferControl(self.answer, [ConditionalProcessor(Unseen(), hidden), BeforeInput(self._answer_prompt)]),
            height=1,
            dont_extend_height=True,
        )
        answering = Condition(self._is_answering)
        status = Window(FormattedTextControl(self._status), height=1, style="class:status")
        roomy = Condition(lambda: self._app.output.get_size().rows >= 4)
        lines = [ConditionalContainer(prompt, ~answering), ConditionalContainer(answer, answering)]
        return Layout(HSplit([live, *lines, ConditionalContainer(status, roomy)]), focused_element=prompt)

    # --- which line has the keys --------------------------------------------------------------------------------------

    def _wants(self) -> str:
        question = self._chat.asking.question
        return question.wants if question is not None else "nothing"

    def _is_answering(self) -> bool:
        question = self._chat.asking.question
        mine = question is not None and question.request.request_id == self._answering
        return mine and self._wants() in ("line", "hidden")

    def _take_line(self) -> None:
        """Give the keys to the line they belong to now."""
        question = self._chat.asking.question
        asked = question.request.request_id if question is not None else ""
        if asked != self._looked:
            self._looked = asked
            self._answering = "" if self.buffer.text else asked
            self.answer.reset()
        wanted = self.answer if self._is_answering() else self.buffer
        if self._app.layout.current_buffer is not wanted:
            self.answer.reset()
            self._app.layout.focus(wanted)

    def _to_question(self) -> None:
        self._answering = self._looked
        self.redraw()

    def _from_question(self) -> None:
        """One step back in the question; where there is none, back to the message."""
        before = self._chat.asking.question
        self._chat.asking.back()
        if self._chat.asking.question == before:
            self._answering = ""
        self.answer.reset()
        self.redraw()

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
        sign = self._chat.painter.sign("›", ">")
        aside = self._wants() in ("line", "hidden")
        return FormattedText([("ansiyellow", "(Alt-A answers) " if aside else ""), ("bold", f"{sign} ")])

    def _answer_prompt(self) -> FormattedText:
        question = self._chat.asking.question
        sign = self._chat.painter.sign("›", ">")
        return FormattedText([("ansiyellow", f"{question.prompt if question else ''} {sign} ")])

    def _status(self) -> FormattedText:
        separator = self._chat.painter.sign(" · ", " | ")
        width = self._app.output.get_size().columns - 1
        line = status_line(self._chat.view, self._chat.situation(), width, separator)
        return FormattedText([("ansibrightblack" if self._chat.painter.look.colour else "", line)])

    # --- keys ---------------------------------------------------------------------------------------------------------

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        chat = self._chat
        asked = Condition(lambda: self._wants() == "keys")
        answering = Condition(self._is_answering)
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
            if answering() and self.answer.text:
                self.answer.reset()
            elif self.buffer.text and chat.view.turn is None:
                self.buffer.reset()
            else:
                chat.press_interrupt()

        @keys.add("c-d")
        def _(event: KeyPressEvent) -> None:
            if event.current_buffer.text:
                event.current_buffer.delete()
            else:
                chat.leave()

        @keys.add("c-o")
        def _(event: KeyPressEvent) -> None:
            chat.toggle()

        @keys.add("c-l")
        def _(event: KeyPressEvent) -> None:
            event.app.renderer.clear()

        @keys.add("tab", filter=~answering)
        def _(event: KeyPressEvent) -> None:
            self.buffer.text = commands.completed(self.buffer.text)
            self.buffer.cursor_position = len(self.buffer.text)

        @keys.add("escape", filter=answering)
        def _(event: KeyPressEvent) -> None:
            self._from_question()

        @keys.add("escape", "a")
        def _(event: KeyPressEvent) -> None:
            self._to_question()

        for key in "1234":

            @keys.add(key, filter=asked & untouched)
            def _(event: KeyPressEvent) -> None:
                self._press(event.data)

            @keys.add("escape", key, filter=asked)
            def _(event: KeyPressEvent) -> None:
                self._press(event.data)

        return keys

    def _press(self, key: str) -> None:
        self._chat.asking.press(key)
        if self._wants() == "line":  # a reason is asked for: this was no stray key, so it has the line at once
            self._to_question()

    def _enter(self) -> None:
        if self._is_answering():
            self._enter_answer()
            return
        text = self.buffer.text
        if not text.strip():
            return
        self.buffer.append_to_history()
        self.buffer.reset()
        self._run(text)

    def _enter_answer(self) -> None:
        text, hidden = self.answer.text, self._wants() == "hidden"
        self.answer.reset()
        if hidden or commands.plain_message(text):
            self._chat.asking.enter(text)
        else:
            self._run(text)

    def _run(self, text: str) -> None:
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
