"""The chat on a terminal that can only print lines (TERM=dumb, an editor's shell buffer): read a line, print lines."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

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

    async def run(self) -> int:
        """Read lines until somebody leaves; the exit code."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._chat.press_interrupt)
        loop.add_reader(sys.stdin.fileno(), self._readable)
        try:
            await self._left.wait()
        finally:
            loop.remove_reader(sys.stdin.fileno())
            loop.remove_signal_handler(signal.SIGINT)
        return self._code

    # --- Face ---------------------------------------------------------------------------------------------------------

    def print(self, text: str) -> None:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    def redraw(self) -> None:
        permission = self._chat.permission
        shown = "" if permission is None else f"{permission.request.request_id} {permission.denying}"
        if shown and shown != self._asked and permission is not None:
            self.print("\n".join(permission.lines(self._chat.painter)))
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

    def _line(self, text: str) -> None:
        chat = self._chat
        chat.typed()
        if chat.permission is not None and chat.permission.denying:
            chat.deny(text)
        elif chat.permission is not None and text.strip() in chat.permission.choices:
            chat.press(text.strip())
        elif not text.strip():
            return
        elif commands.plain_message(text):
            chat.submit(text)
        else:
            chat.start(commands.run(chat, text))
