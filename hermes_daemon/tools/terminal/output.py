"""A command's output in bounded memory: the first 40 % and the last 60 % of what is allowed, with a mark between."""

from __future__ import annotations

import codecs
import re
from collections import deque

from hermes_daemon.core.settings import ToolOutputSettings

_HEAD_SHARE = 0.4
_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC: titles, links
    r"|[PX^_][^\x1b]*\x1b\\"  # DCS, SOS, PM, APC
    r"|[ -/]+[0-~]|[0-OQ-WYZ\\`-~])"  # character sets, single functions
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_LONGEST_ESCAPE = 4096


class Capped:
    """Keeps the head and the tail of a text that is fed in pieces, counted in UTF-8 bytes."""

    def __init__(self, most: int) -> None:
        self._head_room = int(most * _HEAD_SHARE)
        self._tail_room = most - self._head_room
        self._head: list[bytes] = []
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self.size = 0

    def feed(self, text: str) -> None:
        """More text."""
        data = text.encode("utf-8", "replace")
        self.size += len(data)
        if self._head_room:
            self._head.append(data[: self._head_room])
            data, self._head_room = data[self._head_room :], max(0, self._head_room - len(data))
        if not data:
            return
        self._tail.append(data)
        self._tail_size += len(data)
        while self._tail_size - len(self._tail[0]) >= self._tail_room:
            self._tail_size -= len(self._tail.popleft())

    def parts(self) -> tuple[str, str, int]:
        """(head, tail, bytes left out between them)."""
        tail = b"".join(self._tail)[-self._tail_room :]
        head = b"".join(self._head)
        omitted = self.size - len(head) - len(tail)
        if omitted == 0:
            return (head + tail).decode("utf-8", "replace"), "", 0
        return head.decode("utf-8", "ignore"), tail.decode("utf-8", "ignore"), omitted


class Output:
    """Bytes of a command in; text for the model (no escapes) and for people (as it came) out."""

    def __init__(self, caps: ToolOutputSettings, keep: int = 0) -> None:
        """`keep`: so many bytes are kept whole, for who may change them."""
        self._caps = caps
        self._whole = Capped(keep) if keep else None
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._plain, self._raw = Capped(caps.max_bytes), Capped(caps.max_bytes)
        self._held = ""

    def feed(self, data: bytes, final: bool = False) -> str:
        """More bytes; the text they complete, escapes kept. A character or an escape may be split over two calls."""
        text = self._decoder.decode(data, final)
        self._raw.feed(text)
        pending = self._held + text
        start = pending.rfind("\x1b")
        broken = start >= 0 and not _ESCAPES.match(pending, start) and len(pending) - start < _LONGEST_ESCAPE
        self._held = pending[start:] if broken and not final else ""
        plain = _ESCAPES.sub("", pending[:start] if self._held else pending)
        self._plain.feed(plain)
        if self._whole is not None:
            self._whole.feed(plain)
        return text

    def whole(self) -> str:
        """What was kept, escapes taken out; both ends of what was longer."""
        head, tail, omitted = (self._whole or self._plain).parts()
        return f"{head}\n[… {omitted} bytes left out …]\n{tail}" if omitted else head

    @property
    def size(self) -> int:
        """Bytes of the whole output, escapes not counted."""
        return self._plain.size

    def for_model(self) -> str:
        """Without escapes and control characters, progress bars folded to their last state, within all three caps."""
        head, tail, omitted = self._plain.parts()
        width, most = self._caps.max_line_length, self._caps.max_lines
        lines, rest = _clean(head, width), _clean(tail, width)
        if omitted:
            mark = [f"[… {omitted} of {self._plain.size} bytes left out …]"]
            room = int(most * _HEAD_SHARE)
            shown = [*lines[:room], *mark, *rest[-(most - room) :]]
        elif len(lines) > most:
            room = int(most * _HEAD_SHARE)
            mark = [f"[… {len(lines) - most} of {len(lines)} lines left out …]"]
            shown = [*lines[:room], *mark, *lines[room - most :]]
        else:
            shown = lines
        return "\n".join(shown)

    def for_people(self) -> str:
        """As it came, within the byte cap."""
        head, tail, omitted = self._raw.parts()
        return f"{head}\n[… {omitted} bytes left out …]\n{tail}" if omitted else head


def _clean(text: str, width: int) -> list[str]:
    lines = text.replace("\r\n", "\n").split("\n")
    if lines and not lines[-1]:
        lines.pop()
    return [_clipped(_CONTROLS.sub("", _last_state(line)), width) for line in lines]


def _last_state(line: str) -> str:
    """What a terminal shows of a line whose writer went back to its start."""
    if "\r" not in line:
        return line
    return next((state for state in reversed(line.split("\r")) if state), "")


def _clipped(line: str, width: int) -> str:
    if len(line) <= width:
        return line
    head = int(width * _HEAD_SHARE)
    return f"{line[:head]}[… {len(line) - width} characters …]{line[head - width :]}"
