"""The chat on a terminal that can only print lines (TERM=dumb, an editor's shell buffer): read a line, print lines."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import termios

from hermes_shell.interactive import commands
from hermes_shell.interactive.chat import Chat


class Plain:
    """A Face over lines. Answers appear block by block; a question is answered by a line with its key."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self._code = 0
        self._left = asyncio.Event()
        self._asked = ""
        self._partial = b""
        self._echoes = True

    async def run(self) -> int:
        """Read lines until somebody leaves; the exit code."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._chat.press_interrupt)
        loop.add_reader(sys.stdin.fileno(), self._readable)
        try:
            await self._left.wait()
        finally:
            self._echo(True)
            loop.remove_reader(sys.stdin.fileno())
            loop.remove_signal_handler(signal.SIGINT)
        return self._code

    # --- Face ---------------------------------------------------------------------------------------------------------

    def print(self, text: str) -> None:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    def redraw(self) -> None:
        question = self._chat.asking.question
        shown = "" if question is None else "\n".join(question.lines(self._chat.painter))
        self._echo(question is None or question.wants != "hidden")
        if shown and shown != self._asked:
            self.print(shown)
        if self._chat.hint and self._asked != self._chat.hint and not shown:
            shown = self._chat.hint
            self.print(shown)
        self._asked = shown

    def restore(self, text: str) -> None:
        self.print(f"not sent: {text}")

    def leave(self, code: int) -> None:
        self._code = code
        self._left.set()

    # --- input --------------------------------------------------------------------------------------------------------

    def _readable(self) -> None:
        data = os.read(sys.stdin.fileno(), 65536)
        if not data:
            self.leave(0)
            return
        *lines, self._partial = (self._partial + data).split(b"\n")
        for line in lines:
            self._line(line.decode("utf-8", "replace").rstrip("\r"))

    def _echo(self, on: bool) -> None:
        """Have the terminal show what is typed, or not while a secret is asked for."""
        if on == self._echoes:
            return
        self._echoes = on
        with contextlib.suppress(termios.error):  # input that is no terminal shows nothing anyway
            how = termios.tcgetattr(sys.stdin.fileno())
            how[3] = how[3] | termios.ECHO if on else how[3] & ~termios.ECHO
            termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, how)

    def _line(self, text: str) -> None:
        chat = self._chat
        chat.typed()
        question = chat.asking.question
        wants = question.wants if question is not None else "nothing"
        if wants == "hidden":
            chat.asking.enter(text)
        elif not commands.plain_message(text):
            chat.start(commands.run(chat, text))
        elif wants == "line":
            chat.asking.enter(text)
        elif question is not None and wants == "keys" and question.press(text.strip()) is not None:
            chat.asking.press(text.strip())
        elif text.strip():
            chat.submit(text)
