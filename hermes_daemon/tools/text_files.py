"""Text as it lies on disk: encoding, byte-order mark and line ends, told apart from binary data and kept by edits."""

from __future__ import annotations

import codecs
import os
import stat
import unicodedata
from typing import BinaryIO

import msgspec

from hermes_daemon.core.ports import Refused

SAMPLE = 65_536
MOST_TRANSCODED = 10_485_760
MOST_EDITED = 52_428_800

_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


class Encoding(msgspec.Struct, frozen=True):
    """`mark` is the byte-order mark the file begins with, or empty."""

    name: str
    mark: bytes = b""

    @property
    def utf8(self) -> bool:
        return self.name == "utf-8"

    @property
    def note(self) -> str:
        """What a reader should know, empty for plain UTF-8."""
        if self.utf8:
            return "the file begins with a UTF-8 byte-order mark, which edits keep" if self.mark else ""
        mark = "with" if self.mark else "without"
        return f"shown transcoded from {self.name.upper()} {mark} byte-order mark; edits are written back in it"


class TextFile(msgspec.Struct, frozen=True):
    """A file to be edited: its text without mark, and how it goes back to bytes."""

    text: str
    encoding: Encoding
    status: os.stat_result


def open_regular(path: str) -> tuple[BinaryIO, os.stat_result]:
    """The file opened for reading, and its state. Folders, pipes, sockets and devices are Refused, without waiting."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            hint = "List it with search_files, target files, pattern *." if stat.S_ISDIR(status.st_mode) else ""
            raise Refused(f"{path} is {_kind(status.st_mode)}, not a file.", hint)
        return os.fdopen(descriptor, "rb"), status
    except BaseException:
        os.close(descriptor)
        raise


def detect(sample: bytes) -> Encoding | None:
    """The encoding of a file by its first bytes, or None for binary data.

    Without a mark: UTF-16 is recognised by zero bytes standing almost only at even or only at odd places in text that
    decodes to printable characters; any other zero byte means binary. What is not UTF-8 counts as UTF-8 with damage.
    """
    for mark, name in _MARKS:
        if sample.startswith(mark):
            return Encoding(name, mark)
    if b"\0" not in sample:
        return Encoding("utf-8")
    for first, name in ((1, "utf-16-le"), (0, "utf-16-be")):
        if _looks_utf16(sample, first, name):
            return Encoding(name)
    return None


def load(path: str) -> TextFile:
    """The whole file as text. Refused for binary data and for files too large to edit.

    Bytes that are not UTF-8 become surrogate escapes, so that the rest can be edited and they go back unchanged.
    """
    file, status = open_regular(path)
    with file:
        if status.st_size > MOST_EDITED:
            raise Refused(
                f"{path} has {status.st_size} bytes; files above {MOST_EDITED} are not edited.",
                "Use the terminal tool.",
            )
        data = file.read()
    encoding = detect(data[:SAMPLE])
    if encoding is None or (encoding.utf8 and b"\0" in data):
        raise Refused(f"{path} is a binary file ({len(data)} bytes).", "Use the terminal tool.")
    body = data[len(encoding.mark) :]
    if encoding.utf8:
        return TextFile(body.decode("utf-8", "surrogateescape"), encoding, status)
    try:
        return TextFile(body.decode(encoding.name), encoding, status)
    except UnicodeDecodeError as error:
        raise Refused(
            f"{path} is not whole {encoding.name.upper()} text: {error.reason} at byte {error.start}."
        ) from None


def encoded(text: str, encoding: Encoding) -> bytes:
    """Text to bytes, mark first."""
    return encoding.mark + text.encode(encoding.name, "surrogateescape" if encoding.utf8 else "strict")


def newline_of(text: str) -> str:
    r"""The line end the text uses most, `\n` when there is none."""
    crlf = text.count("\r\n")
    return "\r\n" if crlf * 2 > text.count("\n") else "\n"


def _looks_utf16(sample: bytes, first: int, name: str) -> bool:
    even = sample[: len(sample) // 2 * 2]
    zeros, others = even[first::2].count(0), even[1 - first :: 2].count(0)
    if len(even) < 4 or zeros * 10 < len(even) // 2 * 4 or others * 50 > zeros:
        return False
    try:
        text = even.decode(name)
    except UnicodeDecodeError as error:
        if error.end < len(even) - 2:  # a pair cut by the sample's end is no sign of binary data
            return False
        text = even[: error.start].decode(name)
    odd = sum(
        1 for character in text if unicodedata.category(character) in ("Cc", "Cn", "Co") and character not in "\t\n\r\f"
    )
    return odd * 33 < len(text)


def _kind(mode: int) -> str:
    kinds = (
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISFIFO, "a named pipe"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a device"),
        (stat.S_ISBLK, "a device"),
    )
    return next((words for test, words in kinds if test(mode)), "something else")
