"""The ledgers: for each decision one file of lines, written by any number of processes, only ever added to.

A writer holds the lock beside the files and adds whole lines. Rows beyond the limit go, the oldest first, by a new file
put in the place of the old one: a reader has the whole old one or the whole new one. The name of a decision is the name
of its file.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec

from .policy import valid_name

SUFFIX: Final = ".jsonl"
MOST_KEY_CHARS: Final = 200
MOST_ROW_BYTES: Final = 16_384
SLACK: Final = 50
Kind: TypeAlias = Literal["verdict", "outcome"]


class LedgerUnavailable(Exception):
    """A ledger cannot be read or written: which file, and why."""


class InvalidRow(Exception):
    """What was to be written is no row: which field, and what was expected."""


class Row(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line. `value` is the verdict or the outcome, `at` the time of writing (RFC 3339)."""

    kind: Kind
    key: str
    value: str
    at: str = ""
    meta: dict[str, Any] = {}


class Read(msgspec.Struct, frozen=True):
    """The rows of a ledger in the order they were written, and how many lines are none."""

    rows: tuple[Row, ...] = ()
    corrupt: int = 0


class Ledgers:
    """All ledgers in `folder`, each with its newest `max_rows` rows. `redact` takes secrets out of what is kept.

    A file may hold 2 % more rows than `max_rows` before it is written anew, so that a full ledger is not rewritten with
    every row; the surplus is never shown.
    """

    def __init__(self, folder: str, max_rows: int, now: Callable[[], str], redact: Callable[[str], str] = str) -> None:
        self.folder, self.max_rows = folder, max_rows
        self._now, self._redact = now, redact
        self._known: dict[str, tuple[int, int, int]] = {}  # decision: inode, bytes, lines

    def append_verdict(self, decision: str, key: str, verdict: str, meta: Mapping[str, Any] | None = None) -> None:
        """What was decided for `key`. Raises InvalidRow and LedgerUnavailable."""
        self._append(decision, "verdict", key, verdict, meta)

    def append_outcome(self, decision: str, key: str, outcome: str, meta: Mapping[str, Any] | None = None) -> None:
        """What came of it. Raises InvalidRow and LedgerUnavailable."""
        self._append(decision, "outcome", key, outcome, meta)

    def names(self) -> tuple[str, ...]:
        """The decisions that have a ledger."""
        try:
            found = os.listdir(self.folder)
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise LedgerUnavailable(f"{self.folder}: {error.strerror}") from None
        names = (name.removesuffix(SUFFIX) for name in found if name.endswith(SUFFIX))
        return tuple(sorted(name for name in names if valid_name(name)))

    def read(self, decision: str) -> Read:
        """The newest rows; none where nothing was written. A last line without an end is being written: it does not
        count yet. LedgerUnavailable."""
        path = self.path(decision)
        try:
            with open(path, "rb") as file:
                data = file.read()
        except FileNotFoundError:
            return Read()
        except OSError as error:
            raise LedgerUnavailable(f"{path}: {error.strerror}") from None
        rows, corrupt = [], 0
        for line in data.split(b"\n")[:-1][-self.max_rows :]:
            try:
                rows.append(msgspec.json.decode(line, type=Row))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                corrupt += 1
        return Read(tuple(rows), corrupt)

    def path(self, decision: str) -> str:
        """The file of a decision. InvalidRow for a name that is none."""
        if not valid_name(decision):
            raise InvalidRow(f"decision: expected words of a-z, 0-9 and _ joined by dots, got {str(decision)[:80]!r}")
        return os.path.join(self.folder, decision + SUFFIX)

    # --- writing ---

    def _append(self, decision: str, kind: Kind, key: str, value: str, meta: Mapping[str, Any] | None) -> None:
        path = self.path(decision)
        line = self._line(kind, key, value, meta)
        try:
            with self._locked():
                self._add(path, decision, line)
        except OSError as error:
            raise LedgerUnavailable(f"{path}: {error.strerror}") from None

    def _line(self, kind: Kind, key: str, value: str, meta: Mapping[str, Any] | None) -> bytes:
        if not isinstance(key, str) or not 0 < len(key) <= MOST_KEY_CHARS:
            raise InvalidRow(f"key: expected 1 to {MOST_KEY_CHARS} characters")
        if not isinstance(value, str) or not value:
            raise InvalidRow(f"{kind}: expected text, got {value if value == '' else type(value).__name__}")
        row = Row(kind, self._redact(key), self._redact(value), self._now(), self._clean(dict(meta or {})))
        try:
            line = msgspec.json.encode(row) + b"\n"
        except (TypeError, ValueError, RecursionError):
            raise InvalidRow("meta: expected values that JSON can carry") from None
        if len(line) > MOST_ROW_BYTES:
            raise InvalidRow(f"meta: the row has {len(line):,} bytes; at most {MOST_ROW_BYTES:,} are kept")
        return line

    def _clean(self, value: Any) -> Any:
        """The same without secrets."""
        if isinstance(value, str):
            return self._redact(value)
        if isinstance(value, Mapping):
            return {str(key): self._clean(each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [self._clean(each) for each in value]
        return value

    def _add(self, path: str, decision: str, line: bytes) -> None:
        """Add the line; the lock is held."""
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            status = os.fstat(descriptor)
            lines = self._lines(descriptor, decision, status)
            if status.st_size and os.pread(descriptor, 1, status.st_size - 1) != b"\n":
                line = b"\n" + line  # a writer was killed within its line: that one is corrupt, ours is whole
                lines += 1
            _write(descriptor, line)
            lines += 1
            self._known[decision] = (status.st_ino, status.st_size + len(line), lines)
            if lines > self.max_rows + self.max_rows // SLACK:
                self._shorten(path, descriptor)
                del self._known[decision]
        finally:
            os.close(descriptor)

    def _lines(self, descriptor: int, decision: str, status: os.stat_result) -> int:
        """How many lines there are; only what others added since is counted anew."""
        inode, seen, lines = self._known.get(decision, (0, 0, 0))
        if inode != status.st_ino or seen > status.st_size:
            seen, lines = 0, 0
        while seen < status.st_size and (piece := os.pread(descriptor, 1_048_576, seen)):
            lines += piece.count(b"\n")
            seen += len(piece)
        return lines

    def _shorten(self, path: str, descriptor: int) -> None:
        """Put a file with the newest rows in the place of this one."""
        data = bytearray()
        while piece := os.pread(descriptor, 1_048_576, len(data)):
            data += piece
        kept = bytes(data).split(b"\n")[:-1][-self.max_rows :]
        new, name = tempfile.mkstemp(dir=self.folder, prefix=".ledger")
        try:
            try:
                _write(new, b"\n".join(kept) + b"\n")
                os.fsync(new)
            finally:
                os.close(new)
            os.replace(name, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        descriptor = os.open(os.path.join(self.folder, ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _write(descriptor: int, data: bytes) -> None:
    """Write all of it; a write may take less than it was given."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
