"""A daemon of a few lines on a real unix socket, in a thread: it answers as a test tells it to."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

Frame = dict[str, Any]

WELCOME: Frame = {
    "serverInfo": {"name": "hermes-daemon", "version": "0.1.0"},
    "capabilities": {"experimental": {"hermes": {"protocolVersion": "1.0", "bootId": "b", "buildId": "x"}}},
}


class Peer:
    """The daemon's side of one connection."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def send(self, *frames: Frame | bytes) -> None:
        """Send frames, or bytes as they are, in one write."""
        body = b"".join(
            f if isinstance(f, bytes) else json.dumps({"jsonrpc": "2.0", **f}).encode() + b"\n" for f in frames
        )
        self.sock.sendall(body)

    def result(self, frame: Frame, value: Any) -> None:
        """Answer a request."""
        self.send({"id": frame["id"], "result": value})

    def error(self, frame: Frame, code: int, kind: str, message: str, **data: Any) -> None:
        """Answer a request with an error."""
        self.send({"id": frame["id"], "error": {"code": code, "message": message, "data": {"kind": kind, **data}}})

    def event(self, **params: Any) -> None:
        """Send one hermes/event."""
        self.send({"method": "hermes/event", "params": params})

    def hang_up(self) -> None:
        """Close the connection."""
        self.sock.shutdown(socket.SHUT_RDWR)


class LocalDaemon:
    """Listens at `path`; `answer(peer, frame)` is called for every frame but `initialize` and `initialized`.

    `frames` holds everything received. As a context manager it ends with the block.
    """

    def __init__(
        self, path: str | Path, answer: Callable[[Peer, Frame], None], welcome: Frame | None = WELCOME
    ) -> None:
        self.frames: list[Frame] = []
        self._answer = answer
        self._welcome = welcome
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._peers: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]

    def __enter__(self) -> LocalDaemon:
        self._threads[0].start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for sock in self._peers:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self._peers.append(sock)
            thread = threading.Thread(target=self._serve, args=(sock,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, sock: socket.socket) -> None:
        peer = Peer(sock)
        with sock, sock.makefile("rb") as lines:
            try:
                for line in lines:
                    frame = json.loads(line)
                    self.frames.append(frame)
                    if frame["method"] == "initialize" and self._welcome is not None:
                        peer.result(frame, self._welcome)
                    elif frame["method"] != "initialized":
                        self._answer(peer, frame)
            except OSError:
                return
