"""What one "yes" covers: the key that an approval for a session or for ever is kept under.

- `edit:<folder>`: edits of files below the session's folder.
- `terminal:<program> <subcommand>`: one plain command of a program whose subcommands are known (`git status`,
  `npm run test`), or of one that only reads (`ls`). Only for a line without lists, pipes, substitutions, redirects to
  files, assignments or wrappers.
- `terminal:=<line> in <folder>`: exactly this line, in this folder. Everything else.
- `tool:<name>`: any other tool, whatever its arguments.
"""

from __future__ import annotations

import re

import msgspec

from hermes_daemon.core.commands import Command, is_simple, read_commands


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Programs whose first argument is a subcommand; how many words name what is done (`npm run test` is three).
_SUBCOMMANDS: dict[str, frozenset[str]] = {
    "git": frozenset({"status", "log", "diff", "show", "branch", "add", "commit", "fetch", "blame", "ls-files",
                      "rev-parse", "describe", "shortlog", "tag", "stash", "grep", "switch"}),
    "cargo": frozenset({"build", "check", "test", "clippy", "fmt", "doc", "tree", "metadata", "bench"}),
    "go": frozenset({"build", "test", "vet", "fmt", "list", "mod", "doc", "version", "env"}),
    "npm": frozenset({"test", "run", "ci", "ls", "outdated", "audit", "view"}),
    "pnpm": frozenset({"test", "run", "list", "outdated"}),
    "yarn": frozenset({"test", "run", "list"}),
    "pip": frozenset({"list", "show", "freeze", "check"}),
    "uv": frozenset({"sync", "lock", "tree"}),
    "poetry": frozenset({"check", "show", "lock", "build"}),
    "make": frozenset(),
    "just": frozenset(),
    "docker": frozenset({"ps", "images", "logs", "inspect"}),
    "kubectl": frozenset({"get", "describe", "logs"}),
    "gh": frozenset({"status"}),
    "dotnet": frozenset({"build", "test"}),
    "mvn": frozenset({"compile", "test", "verify"}),
    "ruff": frozenset({"check", "format"}),
}  # fmt: skip
_NAMED_TASKS = frozenset({"make", "just"})
_WHOLE = _names(
    "ls cat head tail wc grep egrep fgrep pwd echo du df file stat which diff cmp tree cut tr basename dirname "
    "realpath readlink ps uname whoami id date true false test seq nl od hexdump md5sum sha256sum column jq pytest "
    "mypy tsc eslint flake8 pylint shellcheck"
)
"""Granted whatever their arguments: they read, or they check the project."""

_ESCAPES = re.compile(
    r"--?(?:output|exec\S*|toolexec|vettool|overlay|ext-diff|textconv|pre|compress-program|upload-pack|receive-pack|"
    r"open-files-in-pager|git-dir|work-tree|config\S*|rcfile|plugin\S*|load-plugins|file|directory|makefile)(?:=|$)|-[oCcOp]$"
)
"""Options that make a harmless command write elsewhere or run something else."""


class Grant(msgspec.Struct, frozen=True):
    """`key` is what is kept; `covers` says to people what it allows."""

    key: str
    covers: str


def exact_grant(command: str, cwd: str) -> Grant:
    """Only this line, in this folder."""
    return Grant(f"terminal:={command.strip()} in {cwd}", "exactly this command in this folder")


def command_grant(command: str, cwd: str) -> Grant:
    """The widest grant that is safe to offer for a line."""
    prefix = _prefix(command)
    return Grant(f"terminal:{prefix}", f"`{prefix} …`") if prefix else exact_grant(command, cwd)


def edit_grant(cwd: str) -> Grant:
    """Edits below the session's folder."""
    return Grant(f"edit:{cwd}", f"edits in {cwd}")


def tool_grant(name: str) -> Grant:
    """Any call of the tool."""
    return Grant(f"tool:{name}", f"every call of {name}")


def _prefix(line: str) -> str:
    if not is_simple(line):
        return ""
    command: Command = read_commands(line)[0]
    words, program = command.words, command.program
    if not words or words[0] != program or any(_ESCAPES.match(word) for word in words[1:]):
        return ""
    if program in _WHOLE:
        return program
    known = _SUBCOMMANDS.get(program)
    if known is None or len(words) < 2 or words[1].startswith("-"):
        return ""
    if program in _NAMED_TASKS:
        return f"{program} {words[1]}" if "=" not in words[1] and len(words) == 2 else ""
    if words[1] not in known:
        return ""
    if words[1] == "run":
        return " ".join(words[:3]) if len(words) > 2 and not words[2].startswith("-") else ""
    return f"{program} {words[1]}"
