"""A Face that remembers, and a chat on it against a FakeDaemon."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable

from hermes_client import Connection, Session
from hermes_protocol import methods as m
from hermes_shell.interactive.chat import Chat
from hermes_shell.interactive.first_use import FirstUse
from hermes_shell.interactive.painter import Look, Painter
from tests.support.client_peer import FakeDaemon, fake_daemon

PATIENCE = 10.0
PLAIN = Look(colour=False, markdown=False)


class MemoryFace:
    """What was printed, given back and left with; `until` waits for a condition to hold."""

    def __init__(self) -> None:
        self.printed: list[str] = []
        self.restored: list[str] = []
        self.code: int | None = None
        self._moved = asyncio.Event()

    @property
    def text(self) -> str:
        return "\n".join(self.printed)

    async def until(self, holds: Callable[[], object]) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                while not holds():
                    self._moved.clear()
                    await self._moved.wait()
        except TimeoutError:
            raise AssertionError(f"it never came; printed was:\n{self.text}") from None

    async def shows(self, text: str) -> None:
        await self.until(lambda: text in self.text)

    def print(self, text: str) -> None:
        self.printed.append(text)
        self._moved.set()

    def redraw(self) -> None:
        self._moved.set()

    def restore(self, text: str) -> None:
        self.restored.append(text)
        self._moved.set()

    def leave(self, code: int) -> None:
        self.code = code
        self._moved.set()


@contextlib.asynccontextmanager
async def chatting(
    daemon: FakeDaemon, name: str = "me", *, made: bool = False
) -> AsyncIterator[tuple[Chat, MemoryFace]]:
    """A chat on the daemon's session."""
    client, capabilities = m.Client(name=name), m.Capabilities(requests=("permission", "clarify", "secret", "form"))
    async with await Connection.open(daemon.path, client=client, capabilities=capabilities) as connection:
        painter = Painter(PLAIN, lambda: 80, connection.client_id)
        chat, face = Chat(connection, painter, FirstUse(os.path.dirname(daemon.path))), MemoryFace()
        await chat.begin(face, await Session.open(connection, "s1"), made=made)
        try:
            yield chat, face
        finally:
            await chat.end()


@contextlib.asynccontextmanager
async def daemon_and_chat(*, made: bool = False) -> AsyncIterator[tuple[FakeDaemon, Chat, MemoryFace]]:
    """Both at once."""
    async with fake_daemon() as daemon, chatting(daemon, made=made) as (chat, face):
        yield daemon, chat, face
