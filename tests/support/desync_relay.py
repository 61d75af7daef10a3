"""In place of `hermes-daemon stdio`: a pump that once loses events on the way, as a daemon does with a slow reader.

After the third item.delta everything of that session is dropped and hermes/desync is sent in its place, until the
client subscribes again. With DESYNC=gap nothing is said: the client must see it by the numbers. Knows both framings.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from typing import BinaryIO

from hermes_local.address import resolve

QUIET = os.environ.get("DESYNC") == "gap"


class Stream:
    """Frames out of bytes, in whatever framing the client speaks."""

    headers = False

    def read(self, source: BinaryIO) -> bytes | None:
        """The next body, None at the end."""
        line = source.readline()
        if not line:
            return None
        if not line.lower().startswith(b"content-length:"):
            return line.rstrip(b"\n")
        Stream.headers = True
        while source.readline().strip():
            pass
        return source.read(int(line.split(b":")[1]))

    def write(self, target: BinaryIO, body: bytes) -> None:
        """Send one body."""
        target.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body) if Stream.headers else body + b"\n")
        target.flush()


def main() -> None:
    daemon = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    daemon.connect(resolve().socket_path)
    stream, wire, resumed = Stream(), daemon.makefile("rwb"), threading.Event()

    def upward() -> None:
        while (body := stream.read(sys.stdin.buffer)) is not None:
            if json.loads(body).get("params", {}).get("since"):
                resumed.set()
            stream.write(wire, body)
        daemon.shutdown(socket.SHUT_RDWR)

    threading.Thread(target=upward, daemon=True).start()
    deltas, lost = 0, 0
    while (body := stream.read(wire)) is not None:
        frame = json.loads(body)
        if frame.get("method") == "hermes/event" and not resumed.is_set():
            event = frame["params"]
            deltas += event["kind"] == "item.delta"
            if deltas > 3:
                lost += 1
                if lost == 1 and not QUIET:
                    note = {"sessionId": event["sessionId"], "lastSeq": event["prev"], "reason": "lag"}
                    body = json.dumps({"jsonrpc": "2.0", "method": "hermes/desync", "params": note}).encode()
                elif lost > 2 and QUIET:
                    pass  # the client sees the gap by this one's `prev`
                else:
                    continue
        stream.write(sys.stdout.buffer, body)


main()
