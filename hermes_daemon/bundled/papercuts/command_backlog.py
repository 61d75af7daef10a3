"""A program that keeps the papercuts in place of our table (setting `binary`).

It is run as `BINARY report|list|ack|resolve --json`, gets one JSON object on its standard input, and gives one on its
standard output: {"papercut": …, "changed": …} or {"papercuts": […]}, with the fields of Papercut. An id that it does
not know is {"error": "unknown_id"}. Every other ending, and any exit code but 0, is a failure.
"""

from __future__ import annotations

import subprocess
from typing import Any, Final

import msgspec

from hermes_daemon.api import Rows

from .backlog import UnknownPapercut
from .cut import Origin, Papercut, Report, Status

SECONDS: Final = 10.0


class ProgramFailed(Exception):
    """The program gave no answer that can be used."""


class _Answer(msgspec.Struct, frozen=True):
    papercut: Papercut | None = None
    papercuts: tuple[Papercut, ...] = ()
    changed: bool = True
    error: str = ""


class Program:
    """Backlog over a program. It dedups by the `signature` it is given, and locks its own store."""

    def __init__(self, binary: str) -> None:
        self._binary = binary

    def file(self, rows: Rows, report: Report, signature: str, origin: Origin, now: str) -> Papercut:
        """See Backlog."""
        given = {**msgspec.to_builtins(report), "signature": signature, "origin": origin, "now": now}
        return self._papercut(self._ask("report", given))

    def all(self, rows: Rows) -> tuple[Papercut, ...]:
        """See Backlog."""
        return self._ask("list", {}).papercuts

    def mark(self, rows: Rows, id: str, status: Status) -> tuple[Papercut, bool]:
        """See Backlog."""
        answer = self._ask("ack" if status == "acked" else "resolve", {"id": id})
        if answer.error == "unknown_id":
            raise UnknownPapercut(id)
        return self._papercut(answer), answer.changed

    def _ask(self, mode: str, given: dict[str, Any]) -> _Answer:
        try:
            done = subprocess.run(
                [self._binary, mode, "--json"], input=msgspec.json.encode(given), capture_output=True, timeout=SECONDS,
                check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise ProgramFailed(f"{self._binary} {mode} took longer than {SECONDS:g} s") from None
        except OSError as error:
            raise ProgramFailed(f"{self._binary}: {error.strerror}") from None
        try:
            answer = msgspec.json.decode(done.stdout, type=_Answer)
        except msgspec.MsgspecError as error:
            raise ProgramFailed(f"{self._binary} {mode}: exit code {done.returncode}, {error}") from None
        if answer.error != "unknown_id" and (done.returncode or answer.error):
            raise ProgramFailed(f"{self._binary} {mode}: exit code {done.returncode} {answer.error}".strip())
        return answer

    def _papercut(self, answer: _Answer) -> Papercut:
        if answer.papercut is None:
            raise ProgramFailed(f"{self._binary} gave no papercut")
        return answer.papercut
