"""The search in plain Python, run as a process of its own: a pattern that never ends can then be stopped.

Reads one Search as JSON from standard input; writes one JSON Line (or Complaint) to a line of standard output.
"""

from __future__ import annotations

import codecs
import os
import re
import stat
import sys
from collections import deque
from collections.abc import Iterator

import msgspec

from hermes_daemon.tools.search.model import MOST_FILE_BYTES, Complaint, Line, Search, excerpt
from hermes_daemon.tools.search.walk import files_below


def main() -> None:
    """Answer the search on standard input."""
    search = msgspec.json.decode(sys.stdin.buffer.read(), type=Search)
    encode = msgspec.json.encode
    for row in found(search):
        sys.stdout.buffer.write(encode(row) + b"\n")
    sys.stdout.buffer.flush()


def found(search: Search) -> Iterator[Line | Complaint]:
    """The lines, or the files, of the search. Paths are relative to the root; a root that is a file is itself."""
    single = not os.path.isdir(search.root)
    paths = iter([""]) if single else files_below(search.root, search.repository)
    if search.target == "files":
        yield from (Line(os.fsencode(path).decode("utf-8", "replace")) for path in paths)
        return
    try:
        pattern = re.compile(search.pattern)
    except (re.error, RecursionError, OverflowError) as error:
        yield Complaint(f"the pattern is no regular expression: {error}")
        return
    for path in paths:
        text = _text(os.path.join(search.root, path) if path else search.root)
        if text is not None:
            yield from _matches(pattern, text, os.fsencode(path).decode("utf-8", "replace"), search.context)


def _matches(pattern: re.Pattern[str], text: str, path: str, context: int) -> Iterator[Line]:
    before: deque[Line] = deque(maxlen=context) if context else deque(maxlen=0)
    after = 0
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    for number, raw in enumerate(lines, 1):
        line = raw.removesuffix("\r")
        match = pattern.search(line)
        if match:
            yield from before
            before.clear()
            yield Line(path, number, excerpt(line, match.start()))
            after = context
        elif after:
            after -= 1
            yield Line(path, number, excerpt(line, 0), match=False)
        elif context:
            before.append(Line(path, number, excerpt(line, 0), match=False))


def _text(path: str) -> str | None:
    """The file as text, None for what ripgrep leaves out too: binary, too large, unreadable."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_FILE_BYTES:
                return None
            data = file.read()
    except OSError:
        return None
    for mark, name in ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")):
        if data.startswith(mark):
            return data[2:].decode(name, "replace")
    data = data.removeprefix(codecs.BOM_UTF8)
    return None if b"\0" in data else data.decode("utf-8", "replace")


if __name__ == "__main__":
    main()
