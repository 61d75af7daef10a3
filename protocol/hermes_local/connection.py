"""A blocking connection to a daemon: newline-delimited JSON-RPC, for commands that do one thing.

The C socket is used as it is: `import socket` brings selectors and enum along for conveniences not needed here.
"""

from __future__ import annotations

import _socket
import os
import sys
import time

from hermes_local import PROTOCOL_VERSIONS, __version__, codec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

READ_BYTES = 65_536


class RpcError(Exception):
    """An answer that is an error: `code` and `kind` from protocol section 10, a sentence, and `data` with details."""

    def __init__(self, code: int, kind: str, message: str, data: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.code = code
        self.kind = kind
        self.message = message
        self.data = data


class ConnectionLost(ConnectionError):
    """The daemon went away or closed this connection; what was asked may or may not have happened."""


class Connection:
    """One connection. Requests may be sent ahead of their answers; notifications wait in arrival order.

    Every `timeout` is in seconds for the whole call, None = for ever; TimeoutError when it is over. ConnectionLost
    when the stream ends. Not for several threads.
    """

    __slots__ = ("_answers", "_inbox", "_lines", "_next_id", "_parts", "_socket", "welcome")

    def __init__(self, sock: _socket.socket) -> None:  # or an SSLSocket: whatever sends, receives and has timeouts
        self._socket = sock
        self._lines: list[bytes] = []  # whole frames not looked at yet, newest first
        self._parts: list[bytes] = []  # the beginning of a frame whose end has not come
        self._inbox: list[dict[str, Any]] = []
        self._answers: dict[int, dict[str, Any]] = {}
        self._next_id = 1
        self.welcome: dict[str, Any] = {}

    @classmethod
    def open(cls, path: str, timeout: float | None = 0.5) -> Connection:
        """Connect to the socket at `path`. OSError as the system gives it; PermissionError: another user's daemon."""
        sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            sock.settimeout(timeout)
            sock.connect(path)
            _check_peer(sock, path)
        except BaseException:
            sock.close()
            raise
        return cls(sock)

    def close(self) -> None:
        """Detach. The daemon and its turns go on."""
        self._socket.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def half_close(self) -> None:
        """Say that nothing more will be asked; what the daemon has still to say can be read."""
        self._socket.shutdown(_socket.SHUT_WR)

    def fileno(self) -> int:
        """The socket's descriptor, for select and poll."""
        return self._socket.fileno()

    def initialize(
        self,
        name: str,
        *,
        requests: Sequence[str] = (),
        role: str = "controller",
        detail: str = "full",
        telemetry: str = "off",
        client_id: str = "",
        token: str = "",
        timeout: float | None = 10.0,
    ) -> dict[str, Any]:
        """Introduce this client and return what the daemon says of itself (protocol section 2), kept in `welcome`.

        `token` is for a daemon that is reached over the network.
        """
        hello: dict[str, Any] = {
            "protocolVersions": list(PROTOCOL_VERSIONS),
            "client": {"id": client_id or new_id(), "name": name, "version": __version__, "role": role},
            "capabilities": {"requests": list(requests), "events": {"detail": detail}, "telemetry": telemetry},
        }
        if token:
            hello["auth"] = {"token": token}
        result = self.request("initialize", {"hermes": hello}, timeout)
        try:
            self.welcome = result["capabilities"]["experimental"]["hermes"]
        except (KeyError, TypeError):
            raise RpcError(-32603, "internal", "what answered is not a hermes daemon", {"result": result}) from None
        self.notify("initialized")
        return self.welcome

    def request(self, method: str, params: Mapping[str, Any] | None = None, timeout: float | None = None) -> Any:
        """Ask and wait for the result. RpcError where the daemon answers with an error."""
        return self.answer(self.send(method, params), timeout)

    def send(self, method: str, params: Mapping[str, Any] | None = None) -> int:
        """Ask now, wait later: the id for `answer`. The daemon keeps the order in which requests were sent."""
        request_id = self._next_id
        self._next_id += 1
        self._write({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params or {}})
        return request_id

    def answer(self, request_id: int, timeout: float | None = None) -> Any:
        """The result of a request sent before."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while request_id not in self._answers:
            self._read_one(deadline)
        frame = self._answers.pop(request_id)
        error = frame.get("error")
        if error is None:
            return frame.get("result")
        raise _as_error(error)

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Say something that has no answer."""
        self._write({"jsonrpc": "2.0", "method": method, "params": params or {}})

    def notification(self, timeout: float | None = None) -> dict[str, Any]:
        """The next notification, as {method, params}."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._inbox:
            self._read_one(deadline)
        return self._inbox.pop(0)

    def events(self, timeout: float | None = None) -> Iterator[dict[str, Any]]:
        """The params of each hermes/event as it comes; other notifications are passed over. `timeout` is for each."""
        while True:
            note = self.notification(timeout)
            if note["method"] == "hermes/event":
                yield note["params"]

    def drop_events(self, session_id: str) -> None:
        """Forget the events of a session that have come and were not looked at, as after a new subscription."""
        self._inbox = [note for note in self._inbox if note["params"].get("sessionId") != session_id]

    def _write(self, frame: Mapping[str, Any]) -> None:
        try:
            self._socket.settimeout(None)
            self._socket.sendall(codec.encode(frame).encode() + b"\n")
        except OSError as error:
            raise ConnectionLost(f"the daemon is gone: {error.strerror or error}") from None

    def _read_one(self, deadline: float | None) -> None:
        """Take one frame to where it belongs."""
        while not self._lines:
            self._fill(deadline)
        line = self._lines.pop()
        if not line.strip():
            return
        try:
            frame = codec.decode(line)
        except ValueError as error:
            raise ConnectionLost(f"the daemon sent a line that is not JSON: {error}") from None
        # Batches are never asked for, so an array is no frame for us; neither is anything without id and method.
        if not isinstance(frame, dict):
            return
        if isinstance(frame.get("method"), str):
            if "id" not in frame:
                frame.setdefault("params", {})
                self._inbox.append(frame)
        elif isinstance(frame.get("id"), int):
            self._answers[frame["id"]] = frame
        elif frame.get("error") is not None:
            raise _as_error(frame["error"])  # id null: a frame of ours could not be read

    def _fill(self, deadline: float | None) -> None:
        if deadline is None:
            self._socket.settimeout(None)
        else:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError("no answer from the daemon in time")
            self._socket.settimeout(left)
        try:
            chunk = self._socket.recv(READ_BYTES)
        except TimeoutError:
            raise TimeoutError("no answer from the daemon in time") from None
        except OSError as error:
            raise ConnectionLost(f"the daemon is gone: {error.strerror or error}") from None
        if not chunk:
            raise ConnectionLost("the daemon closed the connection")
        head, newline, rest = chunk.rpartition(b"\n")
        if not newline:
            self._parts.append(chunk)
            return
        lines = (b"".join(self._parts) + head).split(b"\n")
        self._parts = [rest] if rest else []
        lines.reverse()
        self._lines = lines


def new_id() -> str:
    """A random UUID (version 4) without importing uuid."""
    raw = bytearray(os.urandom(16))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _as_error(error: Any) -> RpcError:
    if not isinstance(error, dict):
        return RpcError(-32603, "internal", f"the daemon answered with an error of no known form: {error!r}", {})
    data = error.get("data")
    details = data if isinstance(data, dict) else {}
    kind = str(details.get("kind", "internal"))
    return RpcError(int(error.get("code", -32603)), kind, str(error.get("message", kind)), details)


def _check_peer(sock: _socket.socket, path: str) -> None:
    """PermissionError unless the process behind the socket is this user's (where the system can tell)."""
    option = getattr(_socket, "SO_PEERCRED", None)
    if option is None:
        return
    # struct ucred: pid, uid, gid, four bytes each in the machine's order
    uid = int.from_bytes(sock.getsockopt(_socket.SOL_SOCKET, option, 12)[4:8], sys.byteorder)
    if uid != os.geteuid():
        raise PermissionError(1, f"the daemon at {path} belongs to uid {uid}, not to you (uid {os.geteuid()})")
