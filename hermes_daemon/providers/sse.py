"""Server-sent events, sans IO: bytes in, events out.

Every legal form of the stream is read (WHATWG HTML, section 9.2): lines that end in CR, LF or CRLF, a leading BOM,
comments, several `data` lines in one event, no space after the colon, characters cut anywhere by the network. One
tolerance beyond the standard: an event that the end of the stream left without its blank line is still given by
`finish`, because servers that close early do so after their last word.
"""

from __future__ import annotations

from hermes_daemon.providers.wire import Event, TooLong

_BOM = b"\xef\xbb\xbf"
_CR, _LF = 13, 10


class SSEReader:
    """Feed it the bytes of a stream in any cut. `max_bytes` bounds one event, so that a broken peer costs no memory."""

    def __init__(self, max_bytes: int = 16 * 1024 * 1024) -> None:
        self._max = max_bytes
        self._start = b""  # the first bytes while they may still be a BOM
        self._started = False
        self._after_cr = False
        self._line: list[bytes] = []  # pieces of a line whose end has not come
        self._line_bytes = 0
        self._data: list[str] = []
        self._data_bytes = 0
        self._has_data = False
        self._name = ""

    def feed(self, data: bytes) -> list[Event]:
        """The events that these bytes complete. Raises TooLong."""
        if not self._started:
            data = self._skip_bom(data)
        if self._after_cr and data:
            self._after_cr = False
            if data[0] == _LF:
                data = data[1:]
        if not data:
            return []
        lines = data.splitlines()
        self._after_cr = data[-1] == _CR
        rest = b"" if data[-1] in (_CR, _LF) else lines.pop()
        events: list[Event] = []
        if lines and self._line:
            lines[0] = b"".join((*self._line, lines[0]))
            self._line.clear()
            self._line_bytes = 0
        for line in lines:
            self._take(line, events)
        if rest:
            self._line.append(rest)
            self._line_bytes += len(rest)
            self._check(self._line_bytes)
        return events

    def finish(self) -> list[Event]:
        """The event that the end of the stream left open, if there is one."""
        events: list[Event] = []
        if not self._started:
            self._started = True
            self._line.append(self._start)
        if self._line:
            line = b"".join(self._line)
            self._line.clear()
            self._take(line, events)
        if self._has_data:
            self._take(b"", events)
        return events

    def _skip_bom(self, data: bytes) -> bytes:
        self._start += data
        if len(self._start) < len(_BOM) and _BOM.startswith(self._start):
            return b""
        self._started = True
        data, self._start = self._start.removeprefix(_BOM), b""
        return data

    def _take(self, line: bytes, events: list[Event]) -> None:
        if not line:
            if self._has_data:
                events.append(Event("\n".join(self._data), self._name))
                self._data.clear()
                self._data_bytes = 0
                self._has_data = False
            self._name = ""
            return
        field, _, value = line.partition(b":")
        if value[:1] == b" ":
            value = value[1:]
        if field == b"data":
            self._data_bytes += len(value)
            self._check(self._data_bytes)
            self._data.append(value.decode("utf-8", "replace"))
            self._has_data = True
        elif field == b"event":
            self._name = value.decode("utf-8", "replace")
        elif field == b"error" and not self._has_data:
            # Older llama.cpp servers tell a failure in a field of this name, which the standard would ignore.
            events.append(Event('{"error":' + value.decode("utf-8", "replace") + "}", "error"))
        # `id` and `retry` steer automatic reconnection, which no model endpoint offers; comments have an empty name.

    def _check(self, size: int) -> None:
        if size > self._max:
            raise TooLong(f"an event of more than {self._max} bytes")
