"""Command lines: what a command takes, and what was given. Small, because argparse costs as much as an interpreter.

One table of `Command`s is read by the parser, the help text, shell completion and the reference page.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    Given = dict[str, "str | bool | float | list[str] | None"]


class UsageError(Exception):
    """The command line does not fit; the message says which argument and what was expected."""


class Option:
    """`--name` (and `-short`). `value` is what follows it, for people (`TEXT`); empty = a switch.

    `number` options take a number of at least 0; `choices` are the only values allowed. Given again, the last one
    counts; what is given to a `many` option is joined with commas.
    """

    __slots__ = ("choices", "help", "many", "name", "number", "short", "value")

    def __init__(
        self,
        name: str,
        help: str,
        *,
        value: str = "",
        short: str = "",
        number: bool = False,
        choices: tuple[str, ...] = (),
        many: bool = False,
    ) -> None:
        self.name = name
        self.help = help
        self.value = value
        self.short = short
        self.number = number
        self.choices = choices
        self.many = many

    @property
    def key(self) -> str:
        """The key under which the parser gives the value: the name with `_` for `-`."""
        return self.name.replace("-", "_")


class Command:
    """One command: its positional arguments (`SESSION`, `[PATH]` optional, `TEXT...` one or more) and its options."""

    __slots__ = ("arguments", "help", "name", "options")

    def __init__(self, name: str, help: str, arguments: tuple[str, ...] = (), options: tuple[Option, ...] = ()) -> None:
        self.name = name
        self.help = help
        self.arguments = arguments
        self.options = options

    def usage(self, program: str) -> str:
        """The one line that shows how to call it."""
        parts = [program, self.name, *self.arguments, *(f"[{spell(option)}]" for option in self.options)]
        return " ".join(part for part in parts if part)


def spell(option: Option) -> str:
    """An option as it is typed, with what follows it."""
    text = f"--{option.name}"
    if option.short:
        text = f"-{option.short}, {text}"
    return f"{text} {option.value}" if option.value else text


def parse(command: Command, argv: Sequence[str]) -> Given:
    """The options (False, None or a value) and positional arguments (lower case keys) that `argv` gives.

    `--name=value`, `--name value`, `-qVALUE`, switches joined as in `-fn`, and `--` before arguments that look like
    options. UsageError else.
    """
    given: Given = {option.key: None if option.value else False for option in command.options}
    positional: list[str] = []
    rest = list(argv)
    rest.reverse()
    while rest:
        word = rest.pop()
        if word == "--":
            positional.extend(reversed(rest))
            break
        if word[:2] == "--":
            name, equals, attached = word[2:].partition("=")
            option = _find(command, name)
            _give(given, option, _value(option, f"--{name}", attached if equals else None, rest))
        elif word[:1] == "-" and len(word) > 1:
            _short_options(command, word, rest, given)
        else:
            positional.append(word)
    _place(command, positional, given)
    return given


def _short_options(command: Command, word: str, rest: list[str], given: Given) -> None:
    letters = word[1:]
    while letters:
        letter, letters = letters[0], letters[1:]
        option = next((option for option in command.options if option.short == letter), None)
        if option is None:
            raise UsageError(f"unknown option -{letter}{_hint(command)}")
        _give(given, option, _value(option, f"-{letter}", letters.removeprefix("=") if letters else None, rest))
        if option.value:
            return


def _give(given: Given, option: Option, value: str | bool | float) -> None:
    before = given[option.key] if option.many else None
    given[option.key] = value if before is None else f"{before},{value}"


def _find(command: Command, name: str) -> Option:
    for option in command.options:
        if option.name == name:
            return option
    raise UsageError(
        f"unknown option --{name}{_near(name, [option.name for option in command.options])}{_hint(command)}"
    )


def _hint(command: Command) -> str:
    return f"; `--help` lists the options of `{command.name}`"


def _near(name: str, known: list[str]) -> str:
    import difflib

    found = difflib.get_close_matches(name, known, 1)
    return f", did you mean --{found[0]}?" if found else ""


def _value(option: Option, typed: str, attached: str | None, rest: list[str]) -> str | bool | float:
    if not option.value:
        if attached is not None and typed[:2] == "--":
            raise UsageError(f"{typed} takes no value, got {attached!r}")
        return True
    if attached is None:
        if not rest:
            raise UsageError(f"{typed} needs {option.value} after it")
        attached = rest.pop()
    if option.choices and attached not in option.choices:
        raise UsageError(f"{typed} {attached!r}: expected one of {', '.join(option.choices)}")
    if not option.number:
        return attached
    try:
        number = float(attached)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise UsageError(f"{typed} {attached!r}: expected a number of at least 0")
    return number


def _place(command: Command, words: list[str], given: Given) -> None:
    for argument in command.arguments:
        optional = argument[:1] == "["
        name = argument.strip("[].")
        key = name.lower().replace("-", "_")
        if argument.rstrip("]").endswith("..."):
            if not words and not optional:
                raise UsageError(f"{name} is missing: {command.usage('').strip()}")
            given[key], words = words, []
        elif words:
            given[key] = words.pop(0)
        elif optional:
            given[key] = None
        else:
            raise UsageError(f"{name} is missing: {command.usage('').strip()}")
    if words:
        raise UsageError(f"unexpected argument {words[0]!r}: {command.usage('').strip()}")
