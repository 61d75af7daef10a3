"""One session, followed: its View kept up to date, its changes to iterate over, and what one can do to it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import uuid
from collections.abc import AsyncIterator, Iterable
from typing import Any, Literal, TypeAlias

import msgspec

from hermes_client import view as views
from hermes_client.blobs import Blobs
from hermes_client.connection import Connection, State
from hermes_client.cursor import advance
from hermes_client.queue import Queue
from hermes_client.served_tools import Handler, ServedTools
from hermes_client.view import View
from hermes_client.wire import Disconnected
from hermes_local.environment import session_environment
from hermes_protocol import methods as m
from hermes_protocol.content import InputBlock, TextBlock
from hermes_protocol.errors import ProtocolError
from hermes_protocol.events import Event, EventData, SessionDeleted, SessionRewound, TurnEnded

_decode_event = msgspec.json.Decoder(Event).decode
_decode_desync = msgspec.json.Decoder(m.DesyncParams).decode

WhenBusy: TypeAlias = Literal["queue", "steer", "interrupt", "reject"]


class Change(msgspec.Struct, frozen=True):
    """One step of a session. `view` is the View after it.

    `event` and `payload` are None when the View was rebuilt from a snapshot because too much was missed to replay.
    `payload` alone is None for a kind of event this version does not know.
    """

    view: View
    event: Event | None = None
    payload: EventData | None = None


class Changes:
    """An iterator over the changes of one session from the moment it was made. Ends when the session is closed.

    Raises ProtocolError when the session can be followed no longer, such as `session_deleted`.
    """

    def __init__(self) -> None:
        self._waiting: asyncio.Queue[Change | ProtocolError | None] = asyncio.Queue()

    def put(self, change: Change | ProtocolError | None) -> None:
        """Hand on a change; None and an error end the iteration."""
        self._waiting.put_nowait(change)

    def __aiter__(self) -> AsyncIterator[Change]:
        return self

    async def __anext__(self) -> Change:
        change = await self._waiting.get()
        if isinstance(change, Change):
            return change
        self._waiting.put_nowait(change)
        if change is None:
            raise StopAsyncIteration
        raise change


class Session:
    """Made by `create` or `open`; subscribed from then on, also over lost connections and restarted daemons."""

    def __init__(self, connection: Connection, session_id: str, *, tail: int, detail: m.Detail | None = None) -> None:
        self.connection = connection
        self.session_id = session_id
        self.queue = Queue(connection, session_id)
        self.blobs = Blobs(connection, session_id)
        self.tools = ServedTools(self)
        self.view = views.empty(session_id)
        self.cursor: m.Cursor | None = None
        self._tail = tail
        self._detail = detail
        self._live = False
        self._closed = False
        self._sync: asyncio.Task[None] | None = None
        self._streams: list[Changes] = []
        self._stop_notes = connection.on_note(self._note)
        self._stop_states = connection.on_state(self._state)

    @classmethod
    async def create(
        cls,
        connection: Connection,
        cwd: str | None = None,
        *,
        title: str = "",
        model: str | None = None,
        options: m.SessionOptions | None = None,
        env: dict[str, str] | None = None,
        tail: int = 200,
    ) -> Session:
        """A new session in folder `cwd` (None: the current one), durable before this returns, and followed.

        `env` None gives its commands what `environment.session_environment` takes from this process.
        """
        params = m.CreateParams(
            cwd=os.path.abspath(cwd or os.getcwd()),  # noqa: ASYNC240 (reads no disk)
            title=title,
            model=model,
            options=options or m.SessionOptions(),
            env=session_environment() if env is None else env,
            key=uuid.uuid4().hex,
        )
        made = await connection.request("hermes/session/create", params, m.CreateResult, resend=True)
        return await cls.open(connection, made.session.session_id, tail=tail)

    @classmethod
    async def open(
        cls, connection: Connection, session_id: str, *, tail: int = 200, detail: m.Detail | None = None
    ) -> Session:
        """Follow an existing session; `view` holds its last `tail` items. ProtocolError `session_not_found` …

        `detail` "final" leaves out words as they come, "status" everything but turns, options and questions; None
        takes what the connection asked for.
        """
        session = cls(connection, session_id, tail=tail, detail=detail)
        try:
            await session._subscribe()
        except BaseException:
            session._detach()
            raise
        return session

    # --- following ----------------------------------------------------------------------------------------------------

    def changes(self) -> Changes:
        """Every change from now on, for one reader. Any number of readers may follow."""
        stream = Changes()
        self._streams.append(stream)
        if self._closed:
            stream.put(None)
        return stream

    async def close(self) -> None:
        """Follow no longer. The session itself goes on in the daemon."""
        self._detach()
        self.tools.close()
        if self._sync is not None:
            self._sync.cancel()
            await asyncio.gather(self._sync, return_exceptions=True)
        if self.connection.state == "ready":
            # Deleted meanwhile, or the daemon is gone: either way nothing is sent to us any more.
            with contextlib.suppress(ProtocolError, Disconnected):
                await self.connection.request("hermes/session/unsubscribe", m.SessionParams(self.session_id), m.Empty)
        self._tell(None)

    # --- doing --------------------------------------------------------------------------------------------------------

    async def submit(
        self,
        text: str | Iterable[InputBlock],
        *,
        when_busy: WhenBusy = "queue",
        options: m.TurnOptions | None = None,
        key: str | None = None,
        depth: int = 0,
    ) -> m.SubmitResult:
        """Hand in one turn. Returns when the daemon has it on disk; the answer arrives as changes.

        `depth` is HERMES_AGENT_DEPTH where an agent's tool started this program, 0 for a person's words. A lost
        connection is waited out and the same key sent again, so that one call is one turn.
        """
        blocks = (TextBlock(text),) if isinstance(text, str) else tuple(text)
        params = m.SubmitParams(
            self.session_id,
            blocks,
            key or uuid.uuid4().hex,
            when_busy=when_busy,
            options=options or m.TurnOptions(),
            depth=depth,
        )
        return await self.connection.request("hermes/turn/submit", params, m.SubmitResult, resend=True)

    async def run(self, text: str | Iterable[InputBlock], *, options: m.TurnOptions | None = None) -> TurnEnded | None:
        """Submit, and wait until that turn has ended; `view` then holds what it said.

        None when the turn ended while so much was missed that its end was not seen.
        """
        stream = self.changes()
        try:
            turn_id = (await self.submit(text, options=options)).turn_id
            async for change in stream:
                if isinstance(change.payload, TurnEnded) and change.event and change.event.turn_id == turn_id:
                    return change.payload
                if change.event is None and not _pending(change.view, turn_id):
                    return None
        finally:
            self._streams.remove(stream)
        raise Disconnected("the session was closed before the turn ended")

    async def interrupt(
        self, turn_id: str | None = None, *, queue: Literal["keep", "pause", "clear"] = "keep", reason: str = ""
    ) -> m.InterruptResult:
        """Stop the turn `turn_id` (None: the one this view shows as running). A turn that is over is left alone."""
        running = self.view.turn.turn_id if self.view.turn else None
        params = m.InterruptParams(self.session_id, turn_id or running, queue, reason, uuid.uuid4().hex)
        return await self.connection.request("hermes/turn/interrupt", params, m.InterruptResult, resend=True)

    async def answer(self, request_id: str, answer: m.Answer) -> m.AnswerResult:
        """Answer an open request. ProtocolError `already_resolved` when another client was faster."""
        params = m.AnswerParams(request_id, answer, uuid.uuid4().hex)
        return await self.connection.request("hermes/request/answer", params, m.AnswerResult, resend=True)

    def seen(self, request_id: str) -> None:
        """Tell that the request is on a screen: its clock starts."""
        self.connection.notify("hermes/request/seen", m.SeenParams(request_id))

    async def set_option(self, name: str, value: object) -> m.SetOptionResult:
        """Set a session option such as `model`."""
        params = m.SetOptionParams(self.session_id, name, value, key=uuid.uuid4().hex)
        return await self.connection.request("hermes/session/setOption", params, m.SetOptionResult, resend=True)

    async def rename(self, title: str) -> m.GetResult:
        """Give the session a title."""
        params = m.RenameParams(self.session_id, title, key=uuid.uuid4().hex)
        return await self.connection.request("hermes/session/rename", params, m.GetResult, resend=True)

    async def steer(self, text: str | Iterable[InputBlock], *, turn_id: str | None = None) -> m.SteerResult:
        """Hand words to the turn `turn_id` (None: the one that runs); its next model call reads them.

        ProtocolError `turn_mismatch` when it is not the running one. A turn that ends first leaves them in the queue.
        """
        running = turn_id or (self.view.turn.turn_id if self.view.turn else None)
        if running is None:
            raise ProtocolError("turn_mismatch", "no turn is running that could be steered")
        blocks = (TextBlock(text),) if isinstance(text, str) else tuple(text)
        params = m.SteerParams(self.session_id, running, blocks, uuid.uuid4().hex)
        return await self.connection.request("hermes/turn/steer", params, m.SteerResult, resend=True)

    async def fork(self, at_item_id: str | None = None, *, title: str | None = None) -> Session:
        """A new session that begins with what this one holds, up to and with the item (None: all of it); followed."""
        params = m.ForkParams(self.session_id, at_item_id, title, uuid.uuid4().hex)
        made = await self.connection.request("hermes/session/fork", params, m.CreateResult, resend=True)
        return await Session.open(self.connection, made.session.session_id, tail=self._tail)

    async def rewind(self, to_item_id: str, *, expect_rev: int | None = None) -> m.RewindResult:
        """Take back everything behind the item; a user message goes too, and its words come back in `input`.

        `expect_rev` None takes the View's. ProtocolError `stale_revision`, or `turn_in_progress` while a turn runs.
        """
        rev = self.view.session.rev if expect_rev is None else expect_rev
        params = m.RewindParams(self.session_id, to_item_id, rev, uuid.uuid4().hex)
        return await self.connection.request("hermes/session/rewind", params, m.RewindResult, resend=True)

    async def archive(self, archived: bool = True) -> m.GetResult:
        """Take the session out of the ordinary lists, or (False) put it back."""
        params = m.ArchiveParams(self.session_id, archived, uuid.uuid4().hex)
        return await self.connection.request("hermes/session/archive", params, m.GetResult, resend=True)

    async def events(self, after: int = 0, *, limit: int = 500) -> AsyncIterator[Event]:
        """The journal's events behind number `after`, oldest first, up to its head at the last page.

        ProtocolError `replay_truncated` when events that old are not kept any more.
        """
        epoch = self.cursor.epoch if self.cursor else ""
        while True:
            params = m.EventsParams(self.session_id, epoch, after, limit)
            page = await self.connection.request("hermes/session/events", params, m.EventsResult, resend=True)
            for event in page.events:
                yield event
                after = event.seq
            if not page.truncated or not page.events:
                return

    async def serve_tool(
        self,
        name: str,
        description: str,
        parameters: dict[str, Any],
        handler: Handler,
        *,
        read_only: bool = False,
        timeout_ms: int = 60_000,
    ) -> None:
        """Offer a tool that `await handler(arguments)` runs here, for as long as this connection follows the session.

        `parameters` is a JSON Schema of type object. What the handler gives back is the model's result; what it raises
        is the call's error. A call that is interrupted cancels it. Open the connection with "clientTool" among its
        capabilities' requests: ValueError otherwise. ProtocolError `invalid_params` for a name that is taken.
        """
        await self.tools.add(m.ClientTool(name, description, parameters, read_only, timeout_ms), handler)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _note(self, method: str, params: msgspec.Raw) -> None:
        if method == "hermes/event":
            event = _decode_event(params)
            if event.session_id == self.session_id:
                self._event(event)
        elif method == "hermes/desync" and _decode_desync(params).session_id == self.session_id:
            self._resubscribe()

    def _event(self, event: Event) -> None:
        if not self._live or self.cursor is None:
            return  # what an old subscription still sends while a new one is asked for
        following = advance(self.cursor, event)
        if following is None:
            self._resubscribe()
            return
        self.cursor = following
        try:
            payload = event.payload()
        except msgspec.DecodeError:
            payload = None
        if payload is not None:
            last = payload.last_item_id if isinstance(payload, SessionRewound) else None
            if last is not None and self.view.item(last) is None:
                self.cursor = None  # rewound to before what this View holds: only a snapshot tells what is left
                self._resubscribe()
                return
            self.view = views.apply_payload(self.view, event, payload)
        self._tell(Change(self.view, event, payload))
        if isinstance(payload, SessionDeleted):
            self._detach()
            self._tell(None)

    def _state(self, state: State, reason: str) -> None:
        if state == "lost":
            self._resubscribe()
        elif state == "closed":
            self._detach()
            self._tell(None)

    def _resubscribe(self) -> None:
        self._live = False
        if self._sync is None and not self._closed:
            self._sync = asyncio.get_running_loop().create_task(self._follow_again())

    async def _follow_again(self) -> None:
        try:
            while not self._live and not self._closed:
                try:
                    await self._subscribe()
                    if self.tools.offered:
                        await self.tools.register()
                except Disconnected:
                    continue  # `ready` raises for good once the connection is closed, and `_closed` is set by then
        except ProtocolError as refused:
            self._detach()
            self._tell(refused)
        finally:
            self._sync = None

    async def _subscribe(self) -> None:
        await self.connection.ready()
        params = m.SubscribeParams(self.session_id, self.cursor, self._tail, self._detail)
        await self.connection.request("hermes/session/subscribe", params, m.SubscribeResult, at_once=self._subscribed)

    def _subscribed(self, result: m.SubscribeResult) -> None:
        self.cursor = m.Cursor(result.epoch, result.seq)
        self._live = True
        if result.snapshot is not None:
            self.view = views.from_snapshot(result.snapshot)
            self._tell(Change(self.view))

    def _tell(self, change: Change | ProtocolError | None) -> None:
        for stream in self._streams:
            stream.put(change)

    def _detach(self) -> None:
        if not self._closed:
            self._closed, self._live = True, False
            self._stop_notes()
            self._stop_states()


def _pending(view: View, turn_id: str) -> bool:
    running = view.turn is not None and view.turn.turn_id == turn_id
    return running or any(entry.turn_id == turn_id for entry in view.queue)
