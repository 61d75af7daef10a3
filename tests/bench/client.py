"""The fastest client that is still honest: a blocking socket, whole frames, JSON read only where it is looked at."""

from __future__ import annotations

import json
import socket
from typing import Any

INITIALIZE: dict[str, Any] = {
    "protocolVersions": ["1.0"],
    "client": {"id": "bench", "name": "bench", "version": "1"},
    "capabilities": {},
}

PATIENCE_S = 60.0


class BenchClient:
    def __init__(self, path: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(PATIENCE_S)  # A daemon that says nothing more fails the run instead of stopping it.
        self.socket.connect(path)
        self._buffer = b""
        self._id = 0

    def close(self) -> None:
        self.socket.close()

    def initialize(self, **capabilities: Any) -> dict[str, Any]:
        """Introduce this client; what the daemon says of itself."""
        hello = {"hermes": {**INITIALIZE, "capabilities": capabilities}}
        return self.request("initialize", hello)

    def send(self, method: str, params: dict[str, Any]) -> int:
        """Ask; the id of the request."""
        self._id += 1
        frame = {"jsonrpc": "2.0", "id": self._id, "method": method, "params": params}
        self.socket.sendall(json.dumps(frame).encode() + b"\n")
        return self._id

    def line(self) -> bytes:
        """The next frame, undecoded. EOFError at the end of the stream."""
        while True:
            line, newline, rest = self._buffer.partition(b"\n")
            if newline:
                self._buffer = rest
                return line
            piece = self.socket.recv(1 << 20)
            if not piece:
                raise EOFError("the daemon closed the connection")
            self._buffer += piece

    def exchange(self, frame: bytes) -> bytes:
        """Send one prepared frame and take the next one that comes."""
        self.socket.sendall(frame)
        return self.line()

    def request(self, method: str, params: dict[str, Any]) -> Any:
        """Ask, pass over notifications, and return the result; AssertionError on an error."""
        wanted = self.send(method, params)
        while True:
            frame = json.loads(self.line())
            if "method" not in frame and frame.get("id") == wanted:
                assert "error" not in frame, frame["error"]
                return frame["result"]

    def session(self, model: str, cwd: str) -> str:
        """A new session with a model; its id."""
        result = self.request("hermes/session/create", {"cwd": cwd, "model": model, "options": {"mode": "off"}})
        session_id: str = result["session"]["sessionId"]
        return session_id

    def subscribe(self, session_id: str) -> Any:
        return self.request("hermes/session/subscribe", {"sessionId": session_id})

    def submit(self, session_id: str, key: str, text: str = "go") -> int:
        block = {"type": "text", "text": text}
        return self.send("hermes/turn/submit", {"sessionId": session_id, "key": key, "input": [block]})

    def until_turn_ended(self) -> dict[str, Any]:
        """Take frames up to the end of a turn; its event."""
        while True:
            line = self.line()
            if b'"turn.ended"' in line and b'"hermes/event"' in line:
                ended: dict[str, Any] = json.loads(line)["params"]
                assert ended["data"]["status"] == "completed", ended
                return ended
