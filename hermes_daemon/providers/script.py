"""A script of rounds, read from YAML, for `scripted/file:PATH`.

A file is a list of rounds, or a mapping with the key `rounds`:

    rounds:
      - text: I will look.               # all keys are optional
        reasoning: The user wants …
        calls:
          - {name: read_file, args: {path: a.txt}}
        delay_ms: 20                     # between the deltas
      - text: Done.
        usage: {input: 120, output: 4}   # else estimated
        stop: length                     # else tool_calls or stop
      - when: {contains: again, turn: 2} # only in turns whose user text holds this / only in this turn (from 1)
        error: {kind: rate, times: 2, retry_after: 0.1, after: 3, message: Slow down., retryable: true}
        text: Here I am.                 # what comes once the failures are given
      - hang: true                       # never ends

In a turn the rounds are played in order: of those whose `when` fits the turn, the one numbered by how many assistant
messages stand behind the turn's user text. A turn that asks for more rounds than there are fails with a sentence.
`times: 0` fails always; `after` deltas are shown before the failure.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from hermes_daemon.core.ports import FailureKind, Stop
from hermes_protocol.content import Message

Count = Annotated[int, msgspec.Meta(ge=0)]
_PASSING = frozenset({"rate", "overload", "network", "stall", "malformed", "incomplete"})


def retryable_kind(kind: str) -> bool:
    """Whether a failure of this kind is one that may pass."""
    return kind in _PASSING


class ScriptError(Exception):
    """The file cannot be read, or is no script: a sentence with the path, the place and what was expected."""


class Call(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tool call. `args` is an object, or a text to be sent as it is (to play a model that writes broken JSON)."""

    name: str
    args: Any = {}

    def text(self) -> str:
        """The raw arguments."""
        return self.args if isinstance(self.args, str) else msgspec.json.encode(self.args).decode()

    def fresh_id(self) -> str:
        """A new call id; random, as those of real endpoints."""
        return f"call_{uuid.uuid4().hex[:24]}"


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A failure given `times` times (0 = always). `retryable` defaults to whether the kind is one that passes."""

    kind: FailureKind
    message: str = ""
    times: Count = 1
    retryable: bool = False
    retry_after: Annotated[float, msgspec.Meta(ge=0)] | None = None
    after: Count = 0


class Tokens(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    input: Count = 0
    output: Count = 0


class When(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    contains: str = ""
    turn: Count = 0


class Round(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One answer of the model."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[Call, ...] = ()
    delay_ms: Annotated[float, msgspec.Meta(ge=0)] = 0
    usage: Tokens | None = None
    stop: Stop | None = None
    error: Fault | None = None
    when: When | None = None
    hang: bool = False


class Script(msgspec.Struct, frozen=True):
    path: str
    rounds: tuple[Round, ...]

    def round(self, messages: Sequence[Message]) -> tuple[Round, int]:
        """The round these messages ask for and its number in the file. Beyond the last: a round that fails."""
        said, index, turn = "", 0, 0
        for message in messages:
            if message.role == "user":
                said, index, turn = message.text, 0, turn + 1
            elif message.role == "assistant":
                index += 1
        fitting = [(r, n) for n, r in enumerate(self.rounds) if _fits(r.when, said, turn)]
        if index < len(fitting):
            return fitting[index]
        words = f"{self.path}: the script has {len(fitting)} rounds for this turn and was asked for number {index + 1}."
        return Round(error=Fault("bad_request", words, times=0)), len(self.rounds)


def load_script(path: str, known: tuple[tuple[int, int], Script] | None = None) -> tuple[tuple[int, int], Script]:
    """The script at `path` with its stamp (time and size); `known` is given back while the file has not changed."""
    try:
        status = os.stat(path)
        stamp = (status.st_mtime_ns, status.st_size)
        if known is not None and known[0] == stamp:
            return known
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise ScriptError(f"the script {path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return stamp, Script(path, parse_script(text, path))


def parse_script(text: str, path: str = "script") -> tuple[Round, ...]:
    """The rounds of a YAML text. Raises ScriptError with the line, or the path of the value that does not fit."""
    import yaml

    try:
        raw = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - both are safe loaders
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        raise ScriptError(f"{path}{place}: {getattr(error, 'problem', None) or error}") from None
    if isinstance(raw, dict) and set(raw) == {"rounds"}:
        raw = raw["rounds"]
    if not isinstance(raw, list):
        raise ScriptError(f"{path}: expected a list of rounds, or a mapping with the one key `rounds`")
    for row in raw:
        error_ = row.get("error") if isinstance(row, dict) else None
        if isinstance(error_, dict) and "retryable" not in error_:
            error_["retryable"] = retryable_kind(str(error_.get("kind")))
    try:
        return msgspec.convert(raw, tuple[Round, ...])
    except msgspec.ValidationError as error:
        raise ScriptError(f"{path}: {error}") from None


def _fits(when: When | None, said: str, turn: int) -> bool:
    return when is None or (when.contains in said and when.turn in (0, turn))
