"""The WebSocket framing: bytes in, messages out, what the protocol itself answers beside them. No IO.

The `websockets` library does handshake and frames (RFC 6455); the rules for messages are protocol section 1. Imported
only when an upgrade comes.
"""

from __future__ import annotations

import logging
from typing import Final

from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from hermes_protocol.framing import Frame as Message
from hermes_protocol.framing import Oversized

HEAD: Final = 1024
LONGEST_REASON: Final = 123
"""Bytes of a close frame's reason (RFC 6455 section 5.5)."""

# The library logs whole heads of requests at DEBUG, tokens included: this logger never goes below WARNING.
_log = logging.getLogger(__name__)
_log.setLevel(logging.WARNING)


class WebSocket:
    """One connection after the upgrade.

    `limit` is the longest message in bytes. A longer one is skipped and told where it comes in fragments or is up to
    twice as long; a longer frame ends the connection with 1009, because it would have to be held to be skipped.
    """

    def __init__(self, head: bytes, subprotocol: str | None, limit: int) -> None:
        """`head` is the request with whatever came behind it. What to answer is in `replies`."""
        self._protocol = ServerProtocol(
            subprotocols=None if subprotocol is None else [Subprotocol(subprotocol)],
            max_size=(None, 2 * limit),
            logger=_log,
        )
        self._limit = limit
        self._message = bytearray()
        self._size = 0
        self._deaf = False
        self._head = head

    @property
    def limit(self) -> int:
        """The longest message in bytes."""
        return self._limit

    @limit.setter
    def limit(self, limit: int) -> None:
        self._limit = limit
        self._protocol.max_fragment_size = 2 * limit

    @property
    def over(self) -> bool:
        """True when nothing more may be sent: the handshake failed, or a close frame was sent."""
        return self._protocol.state is not State.OPEN

    def open(self) -> list[Message]:
        """Do the handshake; the messages that came right behind it. `over` when it was refused."""
        end = self._head.index(b"\r\n\r\n") + 4
        head, rest, self._head = self._head[:end], self._head[end:], b""
        self._protocol.receive_data(head)
        for request in self._protocol.events_received():
            assert isinstance(request, Request)
            self._protocol.send_response(self._protocol.accept(request))
        # Not before: the library would answer a ping behind the head ahead of the handshake.
        return self.feed(rest) if rest else []

    def feed(self, data: bytes) -> list[Message]:
        """Messages that are complete now."""
        self._protocol.receive_data(data)
        messages: list[Message] = []
        for event in self._protocol.events_received():
            if isinstance(event, Frame) and not self._deaf:
                self._take(event, messages)
        return messages

    def replies(self) -> tuple[bytes, bool]:
        """What the protocol wants sent now, and whether the stream ends behind it."""
        pieces = self._protocol.data_to_send()
        return b"".join(pieces), b"" in pieces

    def ping(self) -> None:
        """Ask whether somebody is there."""
        if not self.over:
            self._protocol.send_ping(b"")

    def close(self, code: int, reason: str = "") -> None:
        """Say goodbye. Twice is once."""
        if not self.over:
            self._protocol.send_close(code, _short(reason))

    def _take(self, frame: Frame, messages: list[Message]) -> None:
        if frame.opcode is Opcode.BINARY:
            self._fail(CloseCode.UNSUPPORTED_DATA, "one JSON message in each text frame")
        elif frame.opcode is Opcode.CLOSE:
            self._deaf = True
        elif frame.opcode in (Opcode.TEXT, Opcode.CONT):
            self._size += len(frame.data)
            self._message += frame.data
            if self._size > self._limit:
                del self._message[HEAD:]
            if frame.fin:
                self._whole(messages)

    def _whole(self, messages: list[Message]) -> None:
        body, self._message = bytes(self._message), bytearray()
        size, self._size = self._size, 0
        if size > self._limit:
            messages.append(Oversized(body, self._limit))
            return
        try:
            body.decode()
        except UnicodeDecodeError as error:
            self._fail(CloseCode.INVALID_DATA, f"not UTF-8 at byte {error.start}")
            return
        if body and not body.isspace():
            messages.append(body)

    def _fail(self, code: CloseCode, reason: str) -> None:
        self._deaf = True
        self._protocol.fail(code, reason)


def _short(reason: str) -> str:
    return reason.encode()[:LONGEST_REASON].decode("utf-8", "ignore")
