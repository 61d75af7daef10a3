"""One connection: bytes to messages, messages to handlers, answers and events back through the outbox.

The reader never waits for a handler. What is malformed is answered here; what the handler raises becomes an error of
the table; a bug becomes -32603 with an incident id that is in the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from hermes_daemon.core.ports import Refused, Rejected, StorageError, Unavailable
from hermes_daemon.engine.identity import new_id
from hermes_daemon.server.outbox import Outbox, Subscription
from hermes_daemon.server.peers import is_ours
from hermes_protocol import envelope
from hermes_protocol.content import By
from hermes_protocol.envelope import Answer, Batch, Call, Fault, Id, Note, Single
from hermes_protocol.errors import ErrorObject, ProtocolError
from hermes_protocol.framing import Broken, Decoder, Framing, Oversized
from hermes_protocol.methods import METHODS, NOTIFICATIONS, CancelParams, Hello, SeenParams

if TYPE_CHECKING:
    from hermes_daemon.server.daemon import Daemon

log = logging.getLogger(__name__)
MAX_IN_FLIGHT: Final = 64
STUCK_SECONDS: Final = 30.0
WRITE_HIGH: Final = 262_144
HANG_UP_SECONDS: Final = 1.0

Handler = Callable[[Any, Any], Awaitable[msgspec.Struct]]
_decoders: Final[dict[str, msgspec.json.Decoder[Any]]] = {
    name: msgspec.json.Decoder(row.params) for name, row in METHODS.items()
}


class Connection(asyncio.Protocol):
    """A client's connection. `by()` says who acts through it."""

    def __init__(self, daemon: Daemon, transport_name: str) -> None:
        settings = daemon.limits
        self.id = new_id("c")
        self.daemon = daemon
        self.transport_name = transport_name
        self.hello: Hello | None = None
        self.shut_down = False
        self.exit_code: int | None = None
        self.subscriptions: dict[str, Subscription] = {}
        self.outbox = Outbox(self._send, soft=settings.outbox_soft_bytes, hard=settings.outbox_hard_bytes)
        self._decoder = Decoder(settings.max_frame_bytes)
        self._transport: asyncio.WriteTransport | None = None
        self._in_flight: dict[Id, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._stuck: asyncio.TimerHandle | None = None
        self._closed = False
        self._deaf = False
        self._after: list[Callable[[], object]] = []

    # --- asyncio.Protocol ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is there."""
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's does not inherit
        self._transport.set_write_buffer_limits(high=WRITE_HIGH)
        if self.transport_name == "unix" and not is_ours(transport.get_extra_info("socket")):
            self._broken_off(ProtocolError("auth_failed", "this daemon serves the user who started it"))
            return
        self.daemon.connected(self)

    def data_received(self, data: bytes) -> None:
        """Bytes came: serve every message that is complete now."""
        if self._deaf:
            return
        framing = self._decoder.framing
        for frame in self._decoder.feed(data):
            if framing is None and self._decoder.framing is not None:
                self.outbox.framing = framing = self._decoder.framing
            if isinstance(frame, bytes):
                self._message(envelope.decode(frame))
            elif isinstance(frame, Oversized):
                text = f"a message may have at most {frame.limit} bytes"
                self._error(envelope.scan_id(frame.head), ProtocolError("too_large", text, limit=frame.limit))
            else:
                self._broken(frame)
        if self._decoder.framing is Framing.HTTP:
            self._broken(Broken("HTTP is not served here"))

    def eof_received(self) -> bool:
        """The client will send no more: that is a detach."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone; its sessions and turns stay."""
        self._closed = True
        if self._stuck is not None:
            self._stuck.cancel()
        for task in list(self._tasks):
            task.cancel()
        self.daemon.disconnected(self)

    def pause_writing(self) -> None:
        """The socket is full: a client that stays like this is cut off."""
        self.outbox.pause()
        if self._stuck is None:
            self._stuck = asyncio.get_running_loop().call_later(STUCK_SECONDS, self._give_up)

    def resume_writing(self) -> None:
        """The socket takes more."""
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None
        self.outbox.resume()

    def close(self) -> None:
        """Send what is queued and close."""
        if self._transport is not None and not self._closed:
            self.outbox.flush()
            self._transport.close()

    def _give_up(self) -> None:
        log.warning("connection %s took nothing for %d s: closed", self.id, STUCK_SECONDS)
        if self._transport is not None:
            self._transport.abort()

    def _send(self, data: bytes) -> None:
        if self._transport is not None and not self._closed:
            self._transport.write(data)

    def _broken(self, frame: Broken) -> None:
        if self._decoder.framing in (None, Framing.HTTP):
            self.outbox.framing = Framing.NEWLINE
        self._broken_off(ProtocolError("parse", frame.reason))

    def _broken_off(self, error: ProtocolError) -> None:
        """Say why and hang up. What still comes in is taken and dropped: closing on it would take the error back."""
        self._error(None, error)
        self._deaf = True
        if self._transport is not None and not self._closed:
            self.outbox.flush()
            self._transport.write_eof()
            asyncio.get_running_loop().call_later(HANG_UP_SECONDS, self.close)

    # --- who ---

    @property
    def ready(self) -> bool:
        """True after initialize."""
        return self.hello is not None

    @property
    def controller(self) -> bool:
        """True when this client may change things."""
        return self.hello is not None and self.hello.client.role == "controller"

    @property
    def can_answer(self) -> frozenset[str]:
        """The kinds of questions this client said it shows."""
        if self.hello is None or not self.controller:
            return frozenset()
        return frozenset(self.hello.capabilities.requests)

    def by(self, via: str = "native") -> By:
        """Who acts."""
        client = self.hello.client if self.hello is not None else None
        return By(client.id or self.id if client else self.id, client.name if client else "", via)

    # --- messages ---

    def _message(self, message: Single | Batch) -> None:
        if isinstance(message, Batch):
            self._track(self._batch(message))
        elif isinstance(message, Call):
            self._call(message, self.outbox.put)
        else:
            self._other(message, self.outbox.put)

    def _other(self, message: Single, reply: Callable[[bytes], None]) -> None:
        match message:
            case Note():
                self._note(message)
            case Fault():
                reply(envelope.error(message.id, message.error))
            case Answer():
                log.debug("connection %s sent an answer to nothing: id %s", self.id, message.id)

    def _call(self, call: Call, reply: Callable[[bytes], None]) -> asyncio.Task[None] | None:
        """Start a request. Gives the task, or None when it was answered at once."""
        refusal = self._refusal(call)
        if refusal is not None:
            reply(envelope.error(call.id, refusal.as_object()))
            return None
        if call.method == "initialize":
            self._initialize(call, reply)
            return None
        if call.method == "shutdown":
            self.shut_down = True
            reply(envelope.result(call.id, None))
            return None
        try:
            params = _decoders[call.method].decode(call.params)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            reply(envelope.error(call.id, _invalid(error).as_object()))
            return None
        at_once = self.daemon.reader_handlers.get(call.method)
        if at_once is not None:
            reply(self._answered_at_once(call, at_once, params))
            return None
        task = asyncio.get_running_loop().create_task(self._serve(call, params, reply))
        self._in_flight[call.id] = task
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._served(call, reply, done))
        return task

    def _refusal(self, call: Call) -> ProtocolError | None:
        if call.id in self._in_flight:
            return ProtocolError("invalid_request", f"id {call.id!r} is already in flight")
        if self.shut_down:
            return ProtocolError("invalid_request", "this connection has been shut down")
        if call.method == "initialize":
            again = "initialize was already answered on this connection"
            return ProtocolError("invalid_request", again) if self.ready else None
        if not self.ready:
            return ProtocolError("not_initialized", "send initialize first")
        if call.method != "shutdown" and call.method not in METHODS:
            return ProtocolError("method_not_found", f"no method {call.method!r}")
        if len(self._in_flight) >= MAX_IN_FLIGHT:
            text = f"{MAX_IN_FLIGHT} requests are in flight on this connection"
            return ProtocolError("overloaded", text, scope="connection", retryAfterMs=100)
        return None

    def _initialize(self, call: Call, reply: Callable[[bytes], None]) -> None:
        try:
            hello, welcome = self.daemon.welcome(self, call.params)
        except ProtocolError as error:
            reply(envelope.error(call.id, error.as_object()))
            return
        self.hello = hello
        self.outbox.latency = max(0, hello.capabilities.max_latency_ms) / 1000
        reply(envelope.result(call.id, welcome))

    def _answered_at_once(self, call: Call, handler: Callable[[Any, Any], Any], params: Any) -> bytes:
        try:
            return envelope.result(call.id, handler(self, params))
        except Exception as error:  # a request handler: its failure is an answer
            return envelope.error(call.id, self._as_error(call.method, error))

    async def _serve(self, call: Call, params: Any, reply: Callable[[bytes], None]) -> None:
        try:
            await self.daemon.ready()
            value = await self.daemon.handlers[call.method](self, params)
            body = envelope.result(call.id, value)
        except Exception as error:  # a request handler: its failure is an answer
            body = envelope.error(call.id, self._as_error(call.method, error))
        reply(body)
        after, self._after = self._after, []
        for step in after:
            step()

    def after_reply(self, step: Callable[[], object]) -> None:
        """Do `step` right behind the answer of the handler that calls this; nothing comes between."""
        self._after.append(step)

    def _served(self, call: Call, reply: Callable[[bytes], None], task: asyncio.Task[None]) -> None:
        """The request is over. One that was cancelled, perhaps before it began, is answered here."""
        self._tasks.discard(task)
        self._in_flight.pop(call.id, None)
        if task.cancelled() and not self._closed:
            reply(envelope.error(call.id, ProtocolError("cancelled", "cancelled by the client").as_object()))

    async def _batch(self, batch: Batch) -> None:
        answers: dict[int, bytes] = {}
        tasks: list[asyncio.Task[None]] = []
        for index, entry in enumerate(batch.entries):

            def reply(body: bytes, index: int = index) -> None:
                answers[index] = body

            if isinstance(entry, Call):
                task = self._call(entry, reply)
                if task is not None:
                    tasks.append(task)
                    await asyncio.wait([task])  # entries of a batch are handled in order
            else:
                self._other(entry, reply)
        if answers:
            self.outbox.put(envelope.batch([answers[index] for index in sorted(answers)]))

    def _note(self, note: Note) -> None:
        if note.method == "exit":
            self.exit_code = 0 if self.shut_down else 1
            self.close()
            return
        kind = NOTIFICATIONS.get(note.method)
        if kind is None or not self.ready:
            return
        try:
            params: Any = msgspec.json.decode(note.params, type=kind)
        except msgspec.MsgspecError as error:
            log.debug("connection %s: %s: %s", self.id, note.method, error)
            return
        if isinstance(params, CancelParams):
            task = self._in_flight.get(params.id)
            if task is not None:
                task.cancel()
        elif isinstance(params, SeenParams):
            self.daemon.seen(self, params)

    def _track(self, work: Awaitable[None]) -> None:
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _error(self, id: Id | None, error: ProtocolError) -> None:
        self.outbox.put(envelope.error(id, error.as_object()))

    def _as_error(self, method: str, error: Exception) -> ErrorObject:
        match error:
            case ProtocolError():
                return error.as_object()
            case StorageError():
                return ProtocolError("storage_error", f"the journal cannot be written: {error}").as_object()
            case Refused():
                return ProtocolError(error.kind, str(error), hint=error.hint).as_object()
            case Rejected():
                return ProtocolError("invalid_params", str(error), path=error.path).as_object()
            case Unavailable():
                return ProtocolError("failed", str(error), who=error.who).as_object()
        incident = new_id("incident")
        log.error("%s failed, incident %s", method, incident, exc_info=error)
        return ProtocolError("internal", f"a bug; incident {incident} is in the log", incident=incident).as_object()


def _invalid(error: Exception) -> ProtocolError:
    text = str(error)
    _, found, path = text.rpartition(" - at `")
    path = path.rstrip("`") if found else "$"
    return ProtocolError("invalid_params", f"params: {text}", path=path)
