"""From the words of a command line to the function that runs it."""

from __future__ import annotations

import sys
from importlib import import_module

from hermes_local.address import resolve
from hermes_local.arguments import Command, UsageError, parse, spell
from hermes_shell import plugin_command
from hermes_shell.commands import DEFAULT_VERBS, DEMO, ENTRIES, Entry, all_commands

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from hermes_local.address import Address

    Handler = Callable[[dict[str, Any], Address], int]

HELP_WORDS = ("--help", "-h", "help")


def dispatch(words: Sequence[str], profile: str | None) -> int:
    """Run the command that `words` spell; the exit code."""
    if not words:
        print(overview(), file=sys.stderr)
        return 2
    if words[0] in HELP_WORDS:
        rest = list(words[1:])
        if not rest:
            print(overview())
            return 0
        words = [*rest, "--help"]
    if words[0] == DEMO.name:
        return show_help(DEMO)
    if not words[0].startswith("-") and words[0] not in _first_words():
        code = plugin_command.run(resolve(profile=profile), words[0], words[1:])
        if code is not None:
            return code
    asks_help = any(word in HELP_WORDS[:2] for word in _before_end(words))
    if asks_help and len(words) == 2 and _family(words[0]):
        print(overview(words[0]))
        return 0
    entry, rest = find(words)
    if asks_help:
        return show_help(entry.command)
    given = parse(entry.command, rest)
    module, _, function = entry.handler.partition(":")
    handler: Handler = getattr(import_module(module), function)
    return handler(given, resolve(profile=given["profile"] or profile))  # type: ignore[arg-type]  # the table says TEXT


def find(words: Sequence[str]) -> tuple[Entry, list[str]]:
    """The entry that the first one or two words name, and the words after them. UsageError with the nearest name."""
    name, rest = words[0], list(words[1:])
    for entry in ENTRIES:
        if entry.command.name == name:
            return entry, rest
    family = _family(name)
    if not family:
        if name.startswith("-"):
            raise UsageError(f"unknown option {name}; see `hermes --help`")
        known = _first_words()
        raise UsageError(f"unknown command {name!r}{_near(name, known)}; see `hermes --help`")
    if not rest or rest[0].startswith("-"):
        if name not in DEFAULT_VERBS:
            raise UsageError(f"`hermes {name}` needs one of: {', '.join(family)}")
        rest = [DEFAULT_VERBS[name], *rest]
    verb = rest.pop(0)
    if verb not in family:
        raise UsageError(f"unknown command `{name} {verb}`{_near(verb, family)}: expected one of {', '.join(family)}")
    return next(entry for entry in ENTRIES if entry.command.name == f"{name} {verb}"), rest


def show_help(command: Command) -> int:
    """Print how one command is called."""
    print("\n".join(described(command)))
    return 0


def described(command: Command) -> list[str]:
    """The help text of one command, line by line."""
    lines = [f"usage: {command.usage('hermes')}", "", f"  {command.help}"]
    if command.options:
        width = max(len(spell(option)) for option in command.options)
        lines.append("")
        for option in command.options:
            chosen = f" ({', '.join(option.choices)})" if option.choices else ""
            lines.append(f"  {spell(option):{width}}  {option.help}{chosen}")
    return lines


def overview(family: str = "") -> str:
    """The list of commands, all or those of one family."""
    commands = [command for command in all_commands() if not family or command.name.split()[0] == family]
    rows = [(" ".join((command.name, *command.arguments)), command.help) for command in commands]
    width = max(len(left) for left, _ in rows)
    lines = [f"usage: hermes [-p PROFILE] [--daemon URL [--token-file FILE]] {family or 'COMMAND'} …", ""]
    lines += [f"  {left:{width}}  {text}" for left, text in rows]
    lines += ["", "Without a command on a terminal: hermes chat. `hermes COMMAND --help` shows a command's options."]
    return "\n".join(lines)


def _family(name: str) -> list[str]:
    return [entry.command.name.split()[1] for entry in ENTRIES if entry.command.name.startswith(f"{name} ")]


def _first_words() -> list[str]:
    return sorted({command.name.split()[0] for command in all_commands()})


def _before_end(words: Sequence[str]) -> list[str]:
    """The words that may be options: those before `--`."""
    found = list(words)
    return found[: found.index("--")] if "--" in found else found


def _near(name: str, known: Sequence[str]) -> str:
    import difflib

    found = difflib.get_close_matches(name, known, 1)
    return f" (did you mean {found[0]!r}?)" if found else ""
