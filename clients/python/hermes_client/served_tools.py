"""Tools that this program runs for a session: the model calls them, a function here answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from hermes_client.wire import Disconnected
from hermes_protocol import methods as m
from hermes_protocol.errors import ProtocolError
from hermes_protocol.events import RequestOpened

if TYPE_CHECKING:
    from hermes_client.session import Session

Handler: TypeAlias = Callable[[dict[str, Any]], Awaitable[Any]]
"""Takes the arguments of a call and gives what the model reads: text, or anything that JSON can say."""
KIND = "clientTool"


class ServedTools:
    """The tools of one session on this connection. They are offered again after a lost connection."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._tools: dict[str, tuple[m.ClientTool, Handler]] = {}
        self._following: asyncio.Task[None] | None = None
        self._running: dict[str, asyncio.Task[None]] = {}
        self._done: set[str] = set()

    async def add(self, tool: m.ClientTool, handler: Handler) -> None:
        """Offer `tool`. ValueError when the connection did not announce that it answers calls."""
        if KIND not in self._session.connection.hello.capabilities.requests:
            raise ValueError(f"open the connection with Capabilities(requests=({KIND!r},)) to serve tools")
        before = self._tools.get(tool.name)
        self._tools[tool.name] = (tool, handler)
        if self._following is None:
            self._following = asyncio.get_running_loop().create_task(self._follow())
        try:
            await self.register()
        except BaseException:
            if before is None:
                del self._tools[tool.name]
            else:
                self._tools[tool.name] = before
            raise

    async def remove(self, name: str) -> None:
        """Offer the tool no longer. KeyError when it was not offered."""
        del self._tools[name]
        await self.register()

    async def register(self) -> None:
        """Tell the daemon what is offered now."""
        params = m.RegisterParams(self._session.session_id, tuple(tool for tool, _ in self._tools.values()))
        await self._session.connection.request("hermes/session/register", params, m.RegisterResult)

    @property
    def offered(self) -> Mapping[str, m.ClientTool]:
        """Name -> tool."""
        return {name: tool for name, (tool, _) in self._tools.items()}

    def close(self) -> None:
        """Stop answering; calls under way are given up."""
        for task in (*([self._following] if self._following else []), *self._running.values()):
            task.cancel()

    # --- calls --------------------------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        changes = self._session.changes()
        self._look(self._session.view.requests)
        try:
            async for change in changes:
                self._look(change.view.requests)
        except ProtocolError:
            return  # the session can be followed no longer: nobody calls any more

    def _look(self, requests: tuple[RequestOpened, ...]) -> None:
        welcome = self._session.connection.welcome
        own = welcome.connection_id if welcome else ""
        asked = {row.request_id: row for row in requests if row.kind == KIND and row.connection_id == own}
        for request_id, task in list(self._running.items()):
            if request_id not in asked:  # interrupted, timed out, or the connection that was asked is gone
                task.cancel()
        for request_id, row in asked.items():
            if request_id not in self._done:
                self._done.add(request_id)
                self._running[request_id] = asyncio.get_running_loop().create_task(self._run(row))

    async def _run(self, row: RequestOpened) -> None:
        try:
            await self._session.answer(row.request_id, await self._answer(row))
        except (ProtocolError, Disconnected):
            return  # resolved meanwhile, or the connection that was asked is gone: nobody waits any more
        finally:
            self._running.pop(row.request_id, None)

    async def _answer(self, row: RequestOpened) -> m.Answer:
        known = self._tools.get(row.name or "")
        if known is None:
            return m.Answer(error=f"{row.name} is not offered here any more")
        try:
            arguments = json.loads(row.args or "{}")
            result = await known[1](arguments)
            msgspec.json.encode(result)
        except Exception as failed:
            # The caller's code: whatever it raises is the tool's failure and goes to the model.
            return m.Answer(error=f"{type(failed).__name__}: {failed}")
        return m.Answer(result=result)
