"""One connection: messages to handlers, answers and events back through the outbox. Its socket is a `wire.Wire`.

The reader never waits for a handler. What is malformed is answered here; what the handler raises becomes an error of
the table; a bug becomes -32603 with an incident id that is in the log.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from hermes_daemon.core.ports import Refused, Rejected, StorageError, Unavailable
from hermes_daemon.engine.identity import new_id
from hermes_daemon.server.entrance import Entrance
from hermes_daemon.server.fitting import fitted
from hermes_daemon.server.gate import Gate
from hermes_daemon.server.outbox import Stage, Subscription
from hermes_daemon.server.peers import is_ours
from hermes_daemon.server.replies import Replies, Reply
from hermes_daemon.server.stranger import FROZEN_METHODS, Stranger
from hermes_daemon.server.wire import Wire
from hermes_protocol import envelope
from hermes_protocol.content import By
from hermes_protocol.envelope import Answer, Batch, Call, Fault, Id, Note, Single
from hermes_protocol.errors import ErrorObject, ProtocolError
from hermes_protocol.framing import Broken, Oversized
from hermes_protocol.methods import NOTIFICATIONS, CancelParams, Hello, LogMessageParams, SeenParams

if TYPE_CHECKING:
    from hermes_daemon.server.daemon import Daemon

log = logging.getLogger(__name__)
MAX_IN_FLIGHT: Final = 64
MAX_IN_FLIGHT_OF_ALL: Final = 4096
WARNING: Final = 2  # a MessageType of the Language Server Protocol
FRAME_LIMITS: Final = (65_536, 16_777_216)
NORMAL: Final = 1000
"""The code of a WebSocket's close frame when the client itself said exit."""

Handler = Callable[[Any, Any], Awaitable[msgspec.Struct]]


class Connection:
    """A client's connection. `by()` says who acts through it; `wire` is its socket."""

    def __init__(self, daemon: Daemon, entrance: Entrance) -> None:
        self.id = new_id("c")
        self.daemon = daemon
        self.hello: Hello | None = None
        self.gate = Gate(daemon.methods, self._announce)
        self.stranger: Stranger | None = None
        self.shut_down = False
        self.exit_code: int | None = None
        self.subscriptions: dict[str, Subscription] = {}
        self.wire = Wire(self, daemon, entrance)
        self.outbox = self.wire.outbox
        self.since = time.monotonic()
        self._in_flight: dict[Id, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._after: list[Callable[[], object]] = []
        self._tells_seen = False

    # --- wire.Receiver ---

    @property
    def busy(self) -> bool:
        """True while an answer is still to come."""
        return bool(self._tasks or self.outbox.bytes)

    def opened(self) -> None:
        """Somebody is there."""
        if self.wire.entrance.local and not is_ours(self.wire.detail("socket")):
            self._broken_off(ProtocolError("auth_failed", "this daemon serves the user who started it"))
            return
        self.daemon.connected(self)

    def received(self, frame: bytes | Oversized) -> None:
        """Serve a message."""
        if isinstance(frame, bytes):
            self._message(envelope.decode(frame))
            return
        text = f"a message may have at most {frame.limit} bytes"
        self._error(envelope.scan_id(frame.head), ProtocolError("too_large", text, limit=frame.limit))

    def broken(self, frame: Broken) -> None:
        """Say why the stream cannot be followed and hang up."""
        self._broken_off(ProtocolError("parse", frame.reason))

    def ended(self) -> None:
        """The client will send no more: that is a detach."""
        self.daemon.detached(self)

    def lost(self) -> None:
        """The socket is gone; its sessions and turns stay."""
        for task in list(self._tasks):
            task.cancel()
        self.daemon.disconnected(self)

    def stalled(self, stage: Stage) -> None:
        """The queue reached a stage of back-pressure."""
        self.daemon.audience.stalled(self, stage)

    def close(self) -> None:
        """Send what is queued and close."""
        self.wire.close()

    def abort(self) -> None:
        """Close at once; what is queued is lost."""
        self.wire.abort()

    def _broken_off(self, error: ProtocolError) -> None:
        self._error(None, error)
        self.wire.hang_up()

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

    def admit(self, token: str) -> None:
        """Let the client in, or say why not: auth_required, auth_failed; draining where it should try the successor."""
        wire = self.wire
        if not wire.admitted:
            wire.entrance.check(token, wire.address)
            wire.admit()
        if not wire.entrance.local and self.daemon.state != "ready":
            text = "the daemon is stopping"
            raise ProtocolError("draining", text, restart=self.daemon.restart, retryAfterMs=1000)

    # --- messages ---

    def _message(self, message: Single | Batch) -> None:
        if isinstance(message, Batch):
            Replies(self, message).go_on()
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
            params = self.daemon.decoders[call.method].decode(call.params)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            reply(envelope.error(call.id, invalid(error).as_object()))
            return None
        if (trial := self.gate.fields(call.method, params)) is not None:
            reply(envelope.error(call.id, trial.as_object()))
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
        if call.method != "shutdown" and call.method not in self.daemon.methods:
            return ProtocolError("method_not_found", f"no method {call.method!r}")
        if (trial := self.gate.method(call.method)) is not None:
            return trial
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
        self.daemon.audience.joined(self)
        self.gate.opt_in(hello)
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
        self._tell_first(getattr(params, "session_id", None))
        reply(body, after)

    def _tell_first(self, session_id: str | None) -> None:
        """What has happened in the session by now is queued before the answer that may speak of it (G1)."""
        if session_id is None:
            for subscription in self.subscriptions.values():
                subscription.told()
        elif session_id in self.subscriptions:
            self.subscriptions[session_id].told()

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
        if not self.wire.closed:
            self._reply(envelope.batch(answers), after)

    def after_reply(self, step: Callable[[], object]) -> None:
        """Do `step` right behind the answer of the handler that calls this; nothing comes between."""
        self._after.append(step)

    def _served(self, call: Call, reply: Reply, task: asyncio.Task[None]) -> None:
        """The request is over. One that was cancelled, perhaps before it began, is answered here."""
        self._tasks.discard(task)
        self._in_flight.pop(call.id, None)
        self.daemon.in_flight -= 1
        if task.cancelled() and not self.wire.closed:
            reply(envelope.error(call.id, ProtocolError("cancelled", "cancelled by the client").as_object()))
        self.wire.relax()

    def _note(self, note: Note) -> None:
        if note.method == "exit":
            self.exit_code = 0 if self.shut_down else 1
            self.wire.close(NORMAL)
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

    def _announce(self, text: str) -> None:
        self.outbox.put(envelope.note("window/logMessage", LogMessageParams(WARNING, text)))

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
