"""`hermes papercuts` and `/papercuts`: the tool's modes for people, as lines or with --json."""

from __future__ import annotations

import shlex
from typing import Any, Final

import msgspec

from .backlog import UnknownPapercut
from .cut import BadReport
from .tool import BadArguments, PapercutsTool

USAGE: Final = (
    "usage: papercuts [list [--impact] [--all] [--limit N] | stats | ack ID | resolve ID | drafts | friction] [--json]"
)


class PapercutsCommand:
    """The command over the tool. Exit code 2 for arguments that do not fit, 1 for an unknown id."""

    def __init__(self, tool: PapercutsTool) -> None:
        self._tool = tool

    async def run(self, arguments: str) -> tuple[str, int]:
        """(text, exit code)."""
        try:
            args, as_json = parse(arguments)
            answer = await self._tool.answer(args)
        except (BadArguments, BadReport, ValueError) as error:
            return f"{error}\n{USAGE}", 2
        except UnknownPapercut as error:
            return f"{error}; `papercuts list --all` shows the ids", 1
        if as_json:
            return msgspec.json.format(msgspec.json.encode(answer)).decode(), 0
        return (_table(answer) if args["mode"] == "list" else _lines(answer)), 0


def parse(arguments: str) -> tuple[dict[str, Any], bool]:
    """(the tool's arguments, whether JSON is wanted). BadArguments."""
    words = shlex.split(arguments)
    as_json = "--json" in words
    words = [word for word in words if word != "--json"]
    mode = words.pop(0) if words else "list"
    args: dict[str, Any] = {"mode": mode}
    while words:
        word = words.pop(0)
        if mode == "list" and word == "--impact":
            args["sort"] = "impact"
        elif mode == "list" and word == "--all":
            args["status"] = "all"
        elif mode == "list" and word == "--limit" and words and words[0].isdigit():
            args["limit"] = int(words.pop(0))
        elif mode in ("ack", "resolve") and "id" not in args and not word.startswith("-"):
            args["id"] = word
        else:
            raise BadArguments(f"{mode} does not take {word!r}")
    if mode == "report":
        raise BadArguments("reports come from the tool: ask the agent to report a papercut")
    return args, as_json


def _table(answer: dict[str, Any]) -> str:
    if not answer["papercuts"]:
        return "No papercuts."
    lines = []
    for cut in answer["papercuts"]:
        lost = "" if cut["time_lost_seconds"] is None else f", {cut['time_lost_seconds']:g} s lost"
        head = f"{cut['id']}  {cut['severity']:<8}  {cut['recurrence']}×{lost}  {cut['status']}  {cut['category']}"
        lines += [head, f"    expected: {_short(cut['expected'])}", f"    observed: {_short(cut['observed'])}"]
    more = answer["total"] - len(answer["papercuts"])
    return "\n".join([*lines, *([f"… and {more} more"] if more else [])])


def _lines(answer: dict[str, Any]) -> str:
    return "\n".join(f"{key}: {_value(value)}" for key, value in answer.items())


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_value(each)}" for key, each in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "unknown" if value is None else str(value)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 100 else line[:99] + "…"
