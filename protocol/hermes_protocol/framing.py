"""Bytes in, message bodies out, no IO: newline JSON and Content-Length headers, told apart by the first byte.

Frames of a WebSocket are written here too, because a server's are a few bytes before the body (RFC 6455 section 5.2);
reading them is the work of whoever did the handshake. `Decoder` sniffs the framing once for a connection (protocol
section 1). Too long messages are skipped and reported, so that one of them does not end the conversation; a broken
header block does, because there is no way to resync.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, TypeAlias

import msgspec

MAX_HEADER: Final = 4096
_HEAD: Final = 1024


class Framing(Enum):
    """How messages are told apart on a connection."""

    NEWLINE = "newline"
    HEADERS = "content-length"
    HTTP = "http"
    WEBSOCKET = "websocket"


class Oversized(msgspec.Struct, frozen=True):
    """A message longer than the limit was skipped; `head` is its beginning."""

    head: bytes
    limit: int


class Broken(msgspec.Struct, frozen=True):
    """The stream cannot be followed any further: answer -32700 and close."""

    reason: str


Frame: TypeAlias = bytes | Oversized | Broken


def encode(framing: Framing, body: bytes) -> bytes:
    """The body as it goes on the wire."""
    if framing is Framing.NEWLINE:
        return body + b"\n"
    if framing is Framing.WEBSOCKET:
        return _text_frame_head(len(body)) + body
    return b"Content-Length: %d\r\n\r\n" % len(body) + body


def _text_frame_head(size: int) -> bytes:
    """The head of a whole, unmasked text frame of RFC 6455."""
    if size < 126:
        return bytes((0x81, size))
    if size < 65_536:
        return b"\x81\x7e" + size.to_bytes(2, "big")
    return b"\x81\x7f" + size.to_bytes(8, "big")


class Decoder:
    """Feed it what the socket gave; it gives back whole messages in order. `limit` may change between messages.

    HTTP it only recognises: `take` gives what has come, and whoever speaks HTTP goes on from there.
    """

    def __init__(self, limit: int, framing: Framing | None = None) -> None:
        self.framing = framing
        self.limit = limit
        self._buffer = bytearray()
        self._skipping = 0
        self._head: bytes | None = None
        self._length: int | None = None
        self._dead = False

    @property
    def pending(self) -> int:
        """Bytes received that are no whole message yet."""
        return len(self._buffer)

    def take(self) -> bytes:
        """The bytes that are no whole message yet; they are forgotten here."""
        data = bytes(self._buffer)
        self._buffer.clear()
        return data

    def feed(self, data: bytes) -> list[Frame]:
        """Messages that are complete now. After a Broken nothing more comes."""
        if self._dead:
            return []
        if self.framing is None:
            data = data.lstrip()
            if not self._sniff(data):
                return [Broken("neither JSON nor a Content-Length header")] if self._dead else []
        if self.framing is Framing.HTTP:
            self._buffer += data
            return []
        if self.framing is Framing.NEWLINE:
            return self._lines(data)
        return self._headers(data)

    def _sniff(self, data: bytes) -> bool:
        lead = data[:1]
        if lead in (b"{", b"["):
            self.framing = Framing.NEWLINE
        elif lead in (b"C", b"c"):
            self.framing = Framing.HEADERS
        elif lead in (b"G", b"H"):
            self.framing = Framing.HTTP
        elif lead:
            self._dead = True
        return self.framing is not None

    # --- newline ---

    def _lines(self, data: bytes) -> list[Frame]:
        frames: list[Frame] = []
        pieces = data.split(b"\n")
        if len(pieces) == 1:
            self._keep(data)
            return frames
        first = self._finish(pieces[0])
        if first is not None:
            frames.append(first)
        for piece in pieces[1:-1]:
            self._line(piece, frames)
        self._keep(pieces[-1])
        return frames

    def _line(self, piece: bytes, frames: list[Frame]) -> None:
        if len(piece) > self.limit:
            frames.append(Oversized(piece[:_HEAD], self.limit))
        elif piece and not piece.isspace():
            frames.append(piece)

    def _keep(self, piece: bytes) -> None:
        """Hold an unfinished line; beyond the limit only its head."""
        if self._head is not None:
            return
        self._buffer += piece
        if len(self._buffer) > self.limit:
            self._head = bytes(self._buffer[:_HEAD])
            self._buffer.clear()

    def _finish(self, piece: bytes) -> Frame | None:
        if self._head is not None:
            head, self._head = self._head, None
            return Oversized(head, self.limit)
        if self._buffer:
            piece = bytes(self._buffer) + piece
            self._buffer.clear()
        out: list[Frame] = []
        self._line(piece, out)
        return out[0] if out else None

    # --- Content-Length ---

    def _headers(self, data: bytes) -> list[Frame]:
        self._buffer += data
        frames: list[Frame] = []
        while not self._dead:
            if self._skipping:
                drop = min(self._skipping, len(self._buffer))
                del self._buffer[:drop]
                self._skipping -= drop
                if self._skipping:
                    break
                frames.append(Oversized(self._head or b"", self.limit))
                self._head = None
                continue
            if self._length is None and not self._header_block(frames):
                break
            if self._length is not None and not self._body(frames):
                break
        return frames

    def _header_block(self, frames: list[Frame]) -> bool:
        """Read one header block. False when more bytes are needed or the stream is broken."""
        while self._buffer and self._buffer[0] in b"\r\n":
            del self._buffer[:1]
        end = self._buffer.find(b"\r\n\r\n")
        if end > MAX_HEADER or (end < 0 and len(self._buffer) > MAX_HEADER):
            return self._break(frames, f"header block over {MAX_HEADER} bytes")
        if end < 0:
            return False
        length: int | None = None
        for line in bytes(self._buffer[:end]).split(b"\r\n"):
            name, colon, value = line.partition(b":")
            if not colon:
                return self._break(frames, "a header line without a colon")
            if name.strip().lower() == b"content-length":
                digits = value.strip()
                if not digits.isdigit() or len(digits) > 15:
                    return self._break(frames, "Content-Length must be a number of bytes")
                if length is not None and length != int(digits):
                    return self._break(frames, "two Content-Length headers that differ")
                length = int(digits)
        if length is None:
            return self._break(frames, "no Content-Length header")
        del self._buffer[: end + 4]
        self._length = length
        return True

    def _body(self, frames: list[Frame]) -> bool:
        """Take one body out of the buffer. False when more bytes are needed."""
        length = self._length or 0
        if length > self.limit:
            if len(self._buffer) < min(length, _HEAD):
                return False
            self._head = bytes(self._buffer[:_HEAD])
            self._skipping, self._length = length, None
            return True
        if len(self._buffer) < length:
            return False
        frames.append(bytes(self._buffer[:length]))
        del self._buffer[:length]
        self._length = None
        return True

    def _break(self, frames: list[Frame], reason: str) -> bool:
        self._dead = True
        self._buffer.clear()
        frames.append(Broken(reason))
        return False
