"""Carries a Wire over a WebSocket: one message in each text frame. Imported only for ws:// and wss:// addresses."""

from __future__ import annotations

import asyncio
import logging
from typing import cast

from websockets.client import ClientProtocol
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Response
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from hermes_client.wire import MAX_FRAME_BYTES, Disconnected, Wire

# The library logs whole heads of requests at DEBUG, tokens included: this logger never goes below WARNING.
_log = logging.getLogger(__name__)
_log.setLevel(logging.WARNING)
ORDINARY = (CloseCode.NORMAL_CLOSURE, CloseCode.GOING_AWAY, CloseCode.NO_STATUS_RCVD)


class Link(asyncio.Transport, asyncio.Protocol):
    """To the socket a protocol, to the Wire its transport."""

    def __init__(self, url: str, token: str) -> None:
        super().__init__()
        self._protocol = ClientProtocol(
            parse_uri(url), subprotocols=[Subprotocol("hermes")], max_size=MAX_FRAME_BYTES, logger=_log
        )
        self._url = url
        self._token = token
        self._socket: asyncio.Transport | None = None
        self._wire: Wire | None = None
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._message: list[bytes] = []

    async def carry(self, wire: Wire) -> Wire:
        """`wire`, open. Disconnected with the daemon's reason where it refuses the upgrade."""
        await self._opened
        self._wire = wire
        wire.connection_made(self)
        return wire

    # --- the socket's protocol ----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = cast("asyncio.Transport", transport)
        request = self._protocol.connect()
        if self._token:
            request.headers["Authorization"] = f"Bearer {self._token}"
        self._protocol.send_request(request)
        self._flush()

    def data_received(self, data: bytes) -> None:
        self._protocol.receive_data(data)
        for event in self._protocol.events_received():
            if isinstance(event, Response):
                self._answered(event)
            elif isinstance(event, Frame):
                self._frame(event)
        self._flush()

    def eof_received(self) -> None:
        self._protocol.receive_eof()
        self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self._socket = None
        if not self._opened.done():
            self._opened.set_exception(Disconnected(f"{self._url} closed the connection during the upgrade"))
        close = self._protocol.close_rcvd or self._protocol.close_sent
        if exc is None and close is not None and close.code not in ORDINARY:
            exc = Disconnected(f"the connection was closed: {close.code} {close.reason}".rstrip())
        if self._wire is not None:
            self._wire.connection_lost(exc)

    # --- the Wire's transport -----------------------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send a message; the newline behind it is a matter of the other framing."""
        if self._protocol.state.name == "OPEN":
            self._protocol.send_text(bytes(data).rstrip(b"\n"))
            self._flush()

    def close(self) -> None:
        if self._protocol.state.name == "OPEN":
            self._protocol.send_close(CloseCode.NORMAL_CLOSURE)
            self._flush()
        if self._socket is not None:
            self._socket.close()

    def abort(self) -> None:
        if self._socket is not None:
            self._socket.abort()

    # --- inside -------------------------------------------------------------------------------------------------------

    def _answered(self, response: Response) -> None:
        if self._opened.done():
            return
        failed = self._protocol.handshake_exc
        if failed is None:
            self._opened.set_result(None)
            return
        said = bytes(response.body or b"")[:300].decode("utf-8", "replace").strip()
        self._opened.set_exception(Disconnected(f"{self._url} refused the WebSocket: {said or failed}"))
        if self._socket is not None:
            self._socket.close()

    def _frame(self, frame: Frame) -> None:
        if frame.opcode not in (Opcode.TEXT, Opcode.CONT):
            return
        self._message.append(bytes(frame.data))
        if frame.fin:
            body, self._message = b"".join(self._message), []
            if self._wire is not None:
                self._wire.data_received(body.replace(b"\n", b" ") + b"\n")

    def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            if self._socket is None:
                return
            if data:
                self._socket.write(data)
            elif self._socket.can_write_eof():
                self._socket.write_eof()
