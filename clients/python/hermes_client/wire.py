"""One socket: newline-framed JSON-RPC in both directions, requests matched to answers, notifications handed on.

A Wire lives exactly as long as its socket. Reconnecting is the work of `connection`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import msgspec

from hermes_protocol.errors import CODES, ErrorObject, ProtocolError

MAX_FRAME_BYTES = 16_777_216
"""A daemon never sends more than the client's own maxFrameBytes; past this the peer is not one."""


class Disconnected(ConnectionError):
    """The daemon went away before it answered. Whether a request took effect is unknown: repeat it with its key."""


class Frame(msgspec.Struct):
    """Any JSON-RPC message as a client receives it."""

    id: int | str | None = None
    method: str | None = None
    params: msgspec.Raw = msgspec.Raw(b"{}")
    result: msgspec.Raw = msgspec.Raw(b"null")
    error: ErrorObject | None = None


class Call(msgspec.Struct):
    """A request under way: who waits, and what runs on the reader before the next frame is looked at."""

    future: asyncio.Future[msgspec.Raw]
    at_once: Callable[[msgspec.Raw], None] | None = None


_decode = msgspec.json.Decoder(Frame).decode
_encode = msgspec.json.Encoder().encode


def error_from(error: ErrorObject) -> ProtocolError:
    """The typed exception of an error answer. A kind this version does not know keeps its name."""
    data = dict(error.data)
    kind = data.pop("kind", None)
    if not isinstance(kind, str):
        kind = next((name for name, code in CODES.items() if code == error.code), "failed")
    raised = ProtocolError(kind, error.message)
    raised.data = data
    return raised


class Wire(asyncio.Protocol):
    """The protocol object of one connection. `on_note(method, params)` and `on_lost(reason)` run on the loop."""

    def __init__(self, on_note: Callable[[str, msgspec.Raw], None], on_lost: Callable[[str], None]) -> None:
        self._on_note = on_note
        self._on_lost = on_lost
        self._parts: list[bytes] = []
        self._size = 0
        self._calls: dict[int, Call] = {}
        self._last_id = 0
        self._transport: asyncio.Transport | None = None
        self._reason = "the daemon closed the connection"

    # --- asyncio.Protocol ---------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's, so they cannot be told apart by isinstance.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if b"\n" not in data:
            self._parts.append(data)
            self._size += len(data)
            if self._size > MAX_FRAME_BYTES:
                self._abort(f"the daemon sent a frame of more than {MAX_FRAME_BYTES} bytes")
            return
        lines = b"".join((*self._parts, data)).split(b"\n")
        rest = lines.pop()
        self._parts, self._size = ([rest] if rest else []), len(rest)
        for line in lines:
            if line.strip():
                self._handle(line)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if exc is not None:
            self._reason = str(exc) or type(exc).__name__
        calls, self._calls = self._calls, {}
        for call in calls.values():
            if not call.future.done():
                call.future.set_exception(Disconnected(self._reason))
        self._on_lost(self._reason)

    # --- what connection uses -----------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        return self._transport is not None

    def call(
        self, method: str, params: Any, at_once: Callable[[msgspec.Raw], None] | None = None
    ) -> asyncio.Future[msgspec.Raw]:
        """Send a request. The future gives the raw result, or raises ProtocolError or Disconnected.

        Should the waiter be cancelled, the daemon is told by `$/cancelRequest`.
        """
        if self._transport is None:
            raise Disconnected(self._reason)
        self._last_id += 1
        number = self._last_id
        future: asyncio.Future[msgspec.Raw] = asyncio.get_running_loop().create_future()
        self._calls[number] = Call(future, at_once)
        future.add_done_callback(lambda done: self._withdraw(number, done))
        self._write({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return future

    def notify(self, method: str, params: Any) -> None:
        """Send a notification; dropped when the socket is gone."""
        if self._transport is not None:
            self._write({"jsonrpc": "2.0", "method": method, "params": params})

    def close(self, reason: str = "closed") -> None:
        """Flush what was written and close."""
        self._reason = reason
        if self._transport is not None:
            self._transport.close()

    # --- inside -------------------------------------------------------------------------------------------------------

    def _write(self, message: dict[str, Any]) -> None:
        assert self._transport is not None
        self._transport.write(_encode(message) + b"\n")

    def _withdraw(self, number: int, future: asyncio.Future[msgspec.Raw]) -> None:
        if future.cancelled() and self._calls.pop(number, None) is not None:
            self.notify("$/cancelRequest", {"id": number})

    def _abort(self, reason: str) -> None:
        self._reason = reason
        if self._transport is not None:
            self._transport.abort()

    def _handle(self, line: bytes) -> None:
        try:
            frame = _decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:
            self._abort(f"the peer does not speak JSON-RPC: {wrong}")
            return
        if frame.method is not None:
            self._on_note(frame.method, frame.params)
            return
        call = self._calls.pop(frame.id, None) if isinstance(frame.id, int) else None
        if call is None or call.future.done():
            return
        if frame.error is not None:
            call.future.set_exception(error_from(frame.error))
            return
        if call.at_once is not None:
            try:
                call.at_once(frame.result)
            except msgspec.DecodeError as wrong:
                call.future.set_exception(wrong)
                return
        call.future.set_result(frame.result)
