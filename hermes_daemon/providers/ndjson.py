"""Newline-delimited JSON, sans IO: bytes in any cut in, lines out."""

from __future__ import annotations

from hermes_daemon.providers.wire import Event, TooLong


class LineReader:
    """A Framing: every line that is not blank is one event. `max_bytes` bounds a line."""

    def __init__(self, max_bytes: int = 16 * 1024 * 1024) -> None:
        self._max = max_bytes
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[Event]:
        """The lines that these bytes complete. Raises TooLong."""
        *lines, rest = data.split(b"\n")
        if lines and self._pieces:
            lines[0] = b"".join((*self._pieces, lines[0]))
            self._pieces.clear()
            self._size = 0
        if rest:
            self._pieces.append(rest)
            self._size += len(rest)
        if self._size > self._max or any(len(line) > self._max for line in lines):
            raise TooLong(f"a line of more than {self._max} bytes")
        return [Event(text) for line in lines if (text := line.decode("utf-8", "replace").strip())]

    def finish(self) -> list[Event]:
        """The line that the end of the stream left without its newline."""
        return self.feed(b"\n")
