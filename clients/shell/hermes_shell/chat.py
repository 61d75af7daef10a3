"""`hermes chat`: one question and its answer, or the interactive client."""

from __future__ import annotations

import sys

from hermes_local.arguments import Command, Option, UsageError, parse
from hermes_shell.options import ChatOptions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

PROFILE = Option("profile", "the profile to use", value="PROFILE", short="p")

CHAT = Command(
    "chat",
    "talk to the agent: interactively, or one question with -q",
    options=(
        Option("query", "ask this and print the answer; - reads standard input", value="TEXT", short="q"),
        Option("json", "print the events as JSON lines"),
        Option("session", "go on in this session", value="ID", short="s"),
        Option("continue", "go on in the latest session of this folder", short="c"),
        Option("cwd", "the folder to work in", value="DIR"),
        Option("model", "the model to ask, PROVIDER/NAME", value="MODEL", short="m"),
        Option("toolsets", "only these toolsets, comma separated", value="NAMES"),
        Option("yolo", "run tools without asking; the hardline list still holds"),
        Option("timeout", "interrupt the turn after this time", value="SECONDS", number=True),
        PROFILE,
    ),
)


def chat(argv: Sequence[str], profile: str | None) -> int:
    """Run `hermes chat` with these words; the exit code."""
    if "--help" in argv or "-h" in argv:
        from hermes_shell.dispatch import show_help

        return show_help(CHAT)
    options = read(parse(CHAT, argv), profile)
    if options.query is None and sys.stdin.isatty() and sys.stdout.isatty() and not options.json:
        from hermes_shell.interactive import main as interactive

        return interactive.run(options)
    from hermes_shell import oneshot

    return oneshot.run(options)


def read(given: dict[str, Any], profile: str | None) -> ChatOptions:
    """The options as a value; UsageError where two of them exclude each other."""
    if given["session"] and given["continue"]:
        raise UsageError("--session and --continue exclude each other: one names the session, the other finds it")
    toolsets = given["toolsets"]
    return ChatOptions(
        query=given["query"],
        json=given["json"],
        session=given["session"],
        continue_=given["continue"],
        cwd=given["cwd"],
        model=given["model"],
        yolo=given["yolo"],
        toolsets=None if toolsets is None else tuple(name for name in toolsets.replace(",", " ").split() if name),
        profile=given["profile"] or profile,
        timeout=given["timeout"],
    )
