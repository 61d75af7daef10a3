"""The format of protocol/stories: reading, and comparing what was said with what the story says. No IO but files."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[2] / "protocol" / "stories"
PASSED_OVER = frozenset({"session.updated", "item.progress", "request.clock", "request.seen"})

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\Z")
MATCHERS: dict[str, Any] = {
    "$any": lambda value: True,
    "$int": lambda value: type(value) is int,
    "$number": lambda value: type(value) in (int, float),
    "$text": lambda value: isinstance(value, str) and value != "",
    "$time": lambda value: isinstance(value, str) and TIME.match(value) is not None,
}


@dataclass(frozen=True)
class Step:
    """One line after the first. `client` speaks when `said` is set, else the daemon speaks to it."""

    line: int
    client: str
    said: dict[str, Any] | None = None
    raw: str | None = None
    close: bool = False
    heard: dict[str, Any] | None = None
    deltas: dict[str, Any] | None = None
    closed: bool = False


@dataclass(frozen=True)
class Story:
    name: str
    about: str
    steps: tuple[Step, ...]
    config: dict[str, Any] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)


class Mismatch(AssertionError):
    """What was said is not what the story says: where in the frame, and both values."""


def stories() -> list[Path]:
    """Every story in the folder."""
    return sorted(FOLDER.glob("*.jsonl"))


def read(path: Path) -> Story:
    """The story in a file; ValueError with file and line when it is none."""
    head: dict[str, Any] = {}
    steps: list[Step] = []
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            line = json.loads(text)
        except ValueError as error:
            raise ValueError(f"{path}:{number}: {error}") from None
        if number == 1:
            head = line
        else:
            steps.append(_step(line, f"{path}:{number}", number))
    if not {"story", "about"} <= head.keys():
        raise ValueError(f"{path}:1: expected story and about")
    return Story(head["story"], head["about"], tuple(steps), head.get("config", {}), head.get("files", {}))


def _step(line: dict[str, Any], where: str, number: int) -> Step:
    speaker, listener = line.get("from", ""), line.get("to", "")
    what = line.keys() - {"from", "to"}
    if speaker.startswith("client:") and not listener and len(what) == 1 and what <= {"frame", "raw", "close"}:
        return Step(number, speaker, said=line.get("frame"), raw=line.get("raw"), close=bool(line.get("close")))
    if (
        speaker == "daemon"
        and listener.startswith("client:")
        and len(what) == 1
        and what <= {"frame", "deltas", "closed"}
    ):
        heard, deltas = line.get("frame"), line.get("deltas")
        return Step(number, listener, heard=heard, deltas=deltas, closed=bool(line.get("closed")))
    raise ValueError(f"{where}: expected a line as in protocol/stories/README.md, got {sorted(line)}")


class Names:
    """The values that names of a story stand for, and the paths that stand in texts."""

    def __init__(self, **paths: str) -> None:
        self.values: dict[str, Any] = {}
        self._paths = paths

    def fill(self, value: Any) -> Any:
        """What a client's line really says. Mismatch when a name has no value yet."""
        if isinstance(value, dict):
            return {key: self.fill(below) for key, below in value.items()}
        if isinstance(value, list):
            return [self.fill(below) for below in value]
        if not isinstance(value, str):
            return value
        if value.startswith("$$"):
            return value[1:]
        if value.startswith("$") and not value.startswith("${"):
            if value not in self.values:
                raise Mismatch(f"{value} has no value yet")
            return self.values[value]
        return self._with_paths(value)

    def compare(self, expected: Any, said: Any, at: str = "$") -> None:
        """Mismatch unless `said` is what the story says; names get their values."""
        if isinstance(expected, dict):
            if not isinstance(said, dict):
                raise Mismatch(f"{at}: expected an object, got {said!r}")
            for key, below in expected.items():
                if below == "$absent":
                    if key in said:
                        raise Mismatch(f"{at}.{key}: expected no such field, got {said[key]!r}")
                elif key not in said:
                    raise Mismatch(f"{at}.{key}: expected {below!r}, the field is left out")
                else:
                    self.compare(below, said[key], f"{at}.{key}")
        elif isinstance(expected, list):
            self._compare_lists(expected, said, at)
        elif isinstance(expected, str):
            self._compare_texts(expected, said, at)
        elif expected != said or isinstance(expected, bool) != isinstance(said, bool):
            raise Mismatch(f"{at}: expected {expected!r}, got {said!r}")

    def _compare_lists(self, expected: list[Any], said: Any, at: str) -> None:
        open_ended = expected[-1:] == ["$rest"]
        wanted = expected[:-1] if open_ended else expected
        fits = isinstance(said, list) and (len(said) >= len(wanted) if open_ended else len(said) == len(wanted))
        if not fits:
            raise Mismatch(f"{at}: expected {len(wanted)} entries, got {said!r}")
        for index, below in enumerate(wanted):
            self.compare(below, said[index], f"{at}[{index}]")

    def _compare_texts(self, expected: str, said: Any, at: str) -> None:
        if expected in MATCHERS:
            if not MATCHERS[expected](said):
                raise Mismatch(f"{at}: expected {expected}, got {said!r}")
        elif expected.startswith("$") and not expected.startswith(("$$", "${")):
            if self.values.setdefault(expected, said) != said:
                raise Mismatch(f"{at}: {expected} is {self.values[expected]!r}, got {said!r}")
        else:
            text = expected[1:] if expected.startswith("$$") else self._with_paths(expected)
            if text != said:
                raise Mismatch(f"{at}: expected {text!r}, got {said!r}")

    def _with_paths(self, text: str) -> str:
        for name, path in self._paths.items():
            text = text.replace(f"${{{name}}}", path)
        return text


class Chain:
    """The client's rule for the numbers of one subscription: every event continues the one before it."""

    def __init__(self, epoch: str, seq: int) -> None:
        self.epoch, self.seq = epoch, seq

    def follow(self, event: dict[str, Any]) -> None:
        """Mismatch when an event is missing, repeated or of another epoch."""
        if event["epoch"] != self.epoch or event["prev"] != self.seq or event["seq"] <= event["prev"]:
            raise Mismatch(
                f"{event['kind']} has epoch {event['epoch']!r}, prev {event['prev']}, seq {event['seq']}; "
                f"expected to continue epoch {self.epoch!r}, seq {self.seq}"
            )
        self.seq = event["seq"]
