"""A client that knows nothing but sockets and JSON: what any program in any language would do."""

from __future__ import annotations

import json
import select
import socket
import time
from typing import Any, Literal

Framing = Literal["newline", "content-length"]
PATIENCE_S = 20.0


class Peer:
    """One connection. Frames are plain dicts; every wait ends with an AssertionError after `patience` seconds."""

    def __init__(self, path: str, framing: Framing = "newline", patience: float = PATIENCE_S) -> None:
        self.framing, self.patience = framing, patience
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(path)
        self._buffer = bytearray()

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def send(self, frame: Any) -> None:
        """Send one value as a frame."""
        self.send_body(json.dumps(frame, ensure_ascii=False).encode())

    def send_body(self, body: bytes) -> None:
        """Send bytes as the body of one frame, whatever they are."""
        if self.framing == "newline":
            self._socket.sendall(body + b"\n")
        else:
            self._socket.sendall(b"Content-Length: %d\r\n\r\n" % len(body) + body)

    def receive(self) -> Any:
        """The next frame; EOFError when the daemon closed the connection."""
        give_up = time.monotonic() + self.patience
        while (body := self._take()) is None:
            if not select.select([self._socket], [], [], max(0.0, give_up - time.monotonic()))[0]:
                raise AssertionError(f"nothing came for {self.patience} s")
            piece = self._socket.recv(1 << 20)
            if not piece:
                raise EOFError("the daemon closed the connection")
            self._buffer += piece
        return json.loads(body)

    def pending(self) -> bool:
        """Whether a frame, or a part of one, can be read without waiting."""
        return bool(self._buffer) or bool(select.select([self._socket], [], [], 0)[0])

    def request(self, request_id: int | str, method: str, params: Any = None) -> Any:
        """Ask, pass over everything else, and return the result; AssertionError on an error."""
        self.send({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params or {}})
        while (frame := self.receive()).get("id") != request_id or "method" in frame:
            pass
        assert "error" not in frame, frame["error"]
        return frame["result"]

    def _take(self) -> bytes | None:
        if self.framing == "newline":
            end = self._buffer.find(b"\n")
            if end < 0:
                return None
            body = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            return body or self._take()
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return None
        head = dict(line.lower().split(b":", 1) for line in bytes(self._buffer[:end]).split(b"\r\n"))
        size = int(head[b"content-length"])
        if len(self._buffer) < end + 4 + size:
            return None
        body = bytes(self._buffer[end + 4 : end + 4 + size])
        del self._buffer[: end + 4 + size]
        return body
