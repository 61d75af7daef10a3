"""One connection: bytes to messages, messages to handlers, answers and events back through the outbox.

The reader never waits for a handler. What is malformed is answered here; what the handler raises becomes an error of
the table; a bug becomes -32603 with an incident id that is in the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

import msgspec

from hermes_daemon.core.ports import Refused, Rejected, StorageError, Unavailable
from hermes_daemon.engine.identity import new_id
from hermes_daemon.server.fitting import fitted
from hermes_daemon.server.outbox import Outbox, Subscription
from hermes_daemon.server.peers import hung_up, is_ours
from hermes_daemon.server.stranger import FROZEN_METHODS, Stranger
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
MAX_IN_FLIGHT_OF_ALL: Final = 4096
STUCK_SECONDS: Final = 30.0
EOF_SECONDS: Final = 10.0
GONE_SECONDS: Final = 0.5
WRITE_HIGH: Final = 262_144
HANG_UP_SECONDS: Final = 1.0
FRAME_LIMITS: Final = (65_536, 16_777_216)
NOT_FOUND: Final = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

Handler = Callable[[Any, Any], Awaitable[msgspec.Struct]]
_decoders: Final[dict[str, msgspec.json.Decoder[Any]]] = {
    name: msgspec.json.Decoder(row.params) for name, row in METHODS.items()
}


class Reply(Protocol):
    """Takes the answer of a request, and the steps that belong right behind it."""

    def __call__(self, body: bytes, after: Sequence[Callable[[], object]] = ()) -> None: ...


class Connection(asyncio.Protocol):
    """A client's connection. `by()` says who acts through it."""

    def __init__(self, daemon: Daemon, transport_name: str) -> None:
        settings = daemon.limits
        self.id = new_id("c")
        self.daemon = daemon
        self.transport_name = transport_name
        self.hello: Hello | None = None
        self.stranger: Stranger | None = None
        self.shut_down = False
        self.exit_code: int | None = None
        self.subscriptions: dict[str, Subscription] = {}
        self.outbox = Outbox(
            self._send, soft=settings.outbox_soft_bytes, hard=settings.outbox_hard_bytes, relieved=self._relieved
        )
        self._decoder = Decoder(settings.max_frame_bytes)
        self._transport: asyncio.WriteTransport | None = None
        self._in_flight: dict[Id, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._stuck: asyncio.TimerHandle | None = None
        self._written = self._taken = 0
        self._leaving: asyncio.TimerHandle | None = None
        self._deaf = False
        self._hung_up = False
        self._closing = False
        self._closed = False
        self._after: list[Callable[[], object]] = []
        self._tells_seen = False

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
        if self._hung_up:
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
            self._send(NOT_FOUND)
            self.close()
        elif self.outbox.full:
            self._stop_reading()

    def eof_received(self) -> bool:
        """The client will send no more: that is a detach. What it has asked for is still answered."""
        self.daemon.detached(self)
        self.outbox.flush()
        if not self._busy:
            return False
        gone = self._transport is not None and hung_up(self._transport.get_extra_info("socket"))
        patience = GONE_SECONDS if gone else EOF_SECONDS
        self._leaving = asyncio.get_running_loop().call_later(patience, self.close)
        return True

    @property
    def _busy(self) -> bool:
        return bool(self._tasks or self.outbox.bytes)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone; its sessions and turns stay."""
        self._closed = True
        for timer in (self._stuck, self._leaving):
            if timer is not None:
                timer.cancel()
        for task in list(self._tasks):
            task.cancel()
        self.daemon.disconnected(self)

    def pause_writing(self) -> None:
        """The socket is full: a client that stays like this is cut off."""
        self.outbox.pause()
        if self._stuck is None:
            self._watch()

    def resume_writing(self) -> None:
        """The socket takes more."""
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None
        self.outbox.resume()

    def close(self) -> None:
        """Send what is queued and close."""
        if self._transport is not None and not self._closed and not self._closing:
            self._closing = True
            self.outbox.flush()
            self._transport.close()

    def abort(self) -> None:
        """Close at once; what is queued is lost."""
        if self._transport is not None:
            self._transport.abort()

    def _watch(self) -> None:
        self._taken = self._taken_now()
        self._stuck = asyncio.get_running_loop().call_later(STUCK_SECONDS, self._give_up)

    def _give_up(self) -> None:
        if self._taken_now() > self._taken:
            self._watch()  # slow, but it reads: one frame may take longer than that
            return
        log.warning("connection %s took nothing for %d s: closed", self.id, STUCK_SECONDS)
        self.abort()

    def _taken_now(self) -> int:
        """Bytes that the socket has taken so far."""
        return self._written - self._transport.get_write_buffer_size() if self._transport is not None else 0

    def _stop_reading(self) -> None:
        """The client asks and does not read its answers: it is heard again when it has."""
        if not self._deaf and self._transport is not None and not self._transport.is_closing():
            self._deaf = True
            cast(asyncio.ReadTransport, self._transport).pause_reading()

    def _relieved(self) -> None:
        if self._deaf and not self.outbox.full and self._transport is not None and not self._transport.is_closing():
            self._deaf = False
            cast(asyncio.ReadTransport, self._transport).resume_reading()
        if self._leaving is not None and not self._busy:
            self.close()

    def _send(self, data: bytes) -> None:
        if self._transport is not None and not self._closed:
            self._written += len(data)
            self._transport.write(data)

    def _broken(self, frame: Broken) -> None:
        if self._decoder.framing is None:
            self.outbox.framing = Framing.NEWLINE
        self._broken_off(ProtocolError("parse", frame.reason))

    def _broken_off(self, error: ProtocolError) -> None:
        """Say why and hang up. What still comes in is taken and dropped: closing on it would take the error back."""
        self._error(None, error)
        self._hung_up = True
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
        """True when this client may change things; a client of another protocol, when it may stop the daemon."""
        who = self.hello or self.stranger
        return who is not None and who.client.role == "controller"

    @property
    def can_answer(self) -> frozenset[str]:
        """The kinds of questions this client said it shows."""
        if self.hello is None or not self.controller:
            return frozenset()
        return frozenset(self.hello.capabilities.requests)

    @property
    def tells_seen(self) -> bool:
        """True for a client that says what it shows: it said so in initialize, or has done it once."""
        return self._tells_seen or (self.hello is not None and self.hello.capabilities.seen)

    @tells_seen.setter
    def tells_seen(self, told: bool) -> None:
        self._tells_seen = told

    def by(self, via: str = "native") -> By:
        """Who acts."""
        client = self.hello.client if self.hello is not None else None
        return By(client.id or self.id if client else self.id, client.name if client else "", via)

    # --- messages ---

    def _message(self, message: Single | Batch) -> None:
        if isinstance(message, Batch):
            _Replies(self, message).go_on()
        elif isinstance(message, Call):
            self.start(message, self._reply)
        else:
            self.other(message, self._reply)

    def other(self, message: Single, reply: Reply) -> None:
        match message:
            case Note():
                self._note(message)
            case Fault():
                reply(envelope.error(message.id, message.error))
            case Answer():
                log.debug("connection %s sent an answer to nothing: id %s", self.id, message.id)

    def start(self, call: Call, reply: Reply) -> asyncio.Task[None] | None:
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
            self.daemon.detached(self)
            reply(envelope.result(call.id, None))
            return None
        try:
            params = _decoders[call.method].decode(call.params)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            reply(envelope.error(call.id, invalid(error).as_object()))
            return None
        at_once = self.daemon.reader_handlers.get(call.method)
        if at_once is not None:
            reply(self._answered_at_once(call, at_once, params))
            return None
        task = asyncio.get_running_loop().create_task(self._serve(call, params, reply))
        self._in_flight[call.id] = task
        self._tasks.add(task)
        self.daemon.in_flight += 1
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
        if not self.ready and (self.stranger is None or call.method not in FROZEN_METHODS):
            return ProtocolError("not_initialized", "send initialize first")
        if call.method != "shutdown" and call.method not in METHODS:
            return ProtocolError("method_not_found", f"no method {call.method!r}")
        if call.method in self.daemon.reader_handlers or call.method == "shutdown":
            return None  # answered at once: never in flight
        if len(self._in_flight) >= MAX_IN_FLIGHT:
            text = f"{MAX_IN_FLIGHT} requests are in flight on this connection"
            return ProtocolError("overloaded", text, scope="connection", retryAfterMs=100)
        if self.daemon.in_flight >= MAX_IN_FLIGHT_OF_ALL:
            text = f"{MAX_IN_FLIGHT_OF_ALL} requests are in flight in this daemon"
            return ProtocolError("overloaded", text, scope="daemon", retryAfterMs=500)
        return None

    def _initialize(self, call: Call, reply: Reply) -> None:
        try:
            hello, welcome = self.daemon.welcome(self, call.params)
        except ProtocolError as error:
            reply(envelope.error(call.id, error.as_object()))
            return
        self.hello = hello
        self.outbox.latency = min(max(0, hello.capabilities.max_latency_ms), 1000) / 1000
        least, most = FRAME_LIMITS
        self.outbox.take_frames(min(max(hello.capabilities.max_frame_bytes, least), most))
        reply(envelope.result(call.id, welcome))

    def _answered_at_once(self, call: Call, handler: Callable[[Any, Any], Any], params: Any) -> bytes:
        try:
            return self._result(call, handler(self, params))
        except Exception as error:  # a request handler: its failure is an answer
            return envelope.error(call.id, self._as_error(call.method, error))

    async def _serve(self, call: Call, params: Any, reply: Reply) -> None:
        try:
            await self.daemon.ready()
            value = await self.daemon.handlers[call.method](self, params)
            body = self._result(call, value, getattr(params, "session_id", None) or "")
        except Exception as error:  # a request handler: its failure is an answer
            body = envelope.error(call.id, self._as_error(call.method, error))
        after, self._after = self._after, []
        reply(body, after)

    def _result(self, call: Call, value: Any, session_id: str = "") -> bytes:
        """The answer, cut to what the client takes."""
        body = envelope.result(call.id, value)
        limit = self.outbox.frame_limit
        if len(body) <= limit:
            return body
        body = envelope.result(call.id, fitted(value, limit - 1024 - len(str(call.id)), session_id))
        if len(body) <= limit:
            return body
        raise ProtocolError("too_large", f"the answer has more than {limit} bytes: ask for less", limit=limit)

    def _reply(self, body: bytes, after: Sequence[Callable[[], object]] = ()) -> None:
        self.outbox.put(body)
        for step in after:
            step()

    def answer_batch(self, answers: list[bytes], after: Sequence[Callable[[], object]]) -> None:
        """Send the answers of a batch. Nothing goes to a connection that is gone."""
        if not self._closed:
            self._reply(envelope.batch(answers), after)

    def after_reply(self, step: Callable[[], object]) -> None:
        """Do `step` right behind the answer of the handler that calls this; nothing comes between."""
        self._after.append(step)

    def _served(self, call: Call, reply: Reply, task: asyncio.Task[None]) -> None:
        """The request is over. One that was cancelled, perhaps before it began, is answered here."""
        self._tasks.discard(task)
        self._in_flight.pop(call.id, None)
        self.daemon.in_flight -= 1
        if task.cancelled() and not self._closed:
            reply(envelope.error(call.id, ProtocolError("cancelled", "cancelled by the client").as_object()))
        if self._leaving is not None and not self._busy:
            self.close()

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

    def _error(self, id: Id | None, error: ProtocolError) -> None:
        self.outbox.put(envelope.error(id, error.as_object()))

    def _as_error(self, method: str, error: Exception) -> ErrorObject:
        match error:
            case ProtocolError():
                return error.as_object()
            case StorageError():
                return storage_failure("the journal cannot be written", error).as_object()
            case Refused():
                return ProtocolError(error.kind, str(error), hint=error.hint).as_object()
            case Rejected():
                return ProtocolError("invalid_params", str(error), path=error.path).as_object()
            case Unavailable():
                again = {} if error.retry_after is None else {"retryAfterMs": int(error.retry_after * 1000)}
                return ProtocolError("failed", str(error), who=error.who, retryable=True, **again).as_object()
        incident = new_id("incident")
        log.error("%s failed, incident %s", method, incident, exc_info=error)
        return ProtocolError("internal", f"a bug; incident {incident} is in the log", incident=incident).as_object()


class _Replies:
    """The answers of a batch: its entries are handled in order, one after the other, and answered as one array."""

    def __init__(self, connection: Connection, batch: Batch) -> None:
        self._connection = connection
        self._entries = iter(batch.entries)
        self._answers: list[bytes] = []
        self._after: list[Callable[[], object]] = []

    def go_on(self) -> None:
        """Handle entries up to the first that takes time; its end brings us back here."""
        for entry in self._entries:
            if not isinstance(entry, Call):
                self._connection.other(entry, self._reply)
                continue
            task = self._connection.start(entry, self._reply)
            if task is not None:
                task.add_done_callback(lambda _: self.go_on())  # added behind the one that answers a cancelled request
                return
        if self._answers:
            self._connection.answer_batch(self._answers, self._after)
            self._answers = []

    def _reply(self, body: bytes, after: Sequence[Callable[[], object]] = ()) -> None:
        self._answers.append(body)
        self._after += after


def storage_failure(what: str, error: Exception) -> ProtocolError:
    """storage_error, with whether the same request may succeed later."""
    retryable = error.retryable if isinstance(error, StorageError) else True
    return ProtocolError("storage_error", f"{what}: {error}", retryable=retryable)


def invalid(error: Exception) -> ProtocolError:
    """invalid_params with the JSON path that the decoder's error names."""
    text = str(error)
    _, found, path = text.rpartition(" - at `")
    path = path.rstrip("`") if found else "$"
    return ProtocolError("invalid_params", f"params: {text}", path=path)
