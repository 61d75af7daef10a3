"""A shell command line as the simple commands it will run, also those inside substitutions and payloads.

Not a shell: a reader that errs towards seeing too much. Quotes, escapes, `$'…'`, comments, here-documents, pipes,
lists, groups, functions, command substitution and plain variables set in the same line are understood. What cannot
be read ends where it ends; nothing raises.
"""

from __future__ import annotations

from posixpath import basename, join, normpath

import msgspec

from hermes_daemon.core.shell_lexer import Operator, Word, lex
from hermes_daemon.core.shell_payloads import Inner, inner_of

_LISTS = frozenset({";", "&", "&&", "||", "|", "|&", "\n", "(", ")", ";;", ";&", ";;&"})
_KEYWORDS = frozenset(
    {"if", "then", "else", "elif", "do", "while", "until", "!", "{", "}", "fi", "done", "esac", "time", "coproc"}
)
_DEPTH = 12
_MOST = 2000
_MOST_CHARACTERS = 131_072
"""Linux takes no longer argument, so no longer line can run."""


class Redirect(msgspec.Struct, frozen=True):
    """`operator` such as `>`, `2>>`, `<<`; `target` is the file, or the text of a here-document."""

    operator: str
    target: str

    @property
    def writes(self) -> bool:
        """Whether it creates or changes a file (not /dev/null or a descriptor)."""
        return ">" in self.operator and not self.operator.endswith("&") and self.target not in _HARMLESS


_HARMLESS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"})


class Command(msgspec.Struct, frozen=True):
    """A simple command. `cwd` is the folder it runs in as far as plain `cd`s tell; `fed_by` the words of the command
    whose output it reads through a pipe; `nested` when it was found inside another command's argument."""

    words: tuple[str, ...]
    assignments: tuple[str, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    cwd: str = ""
    fed_by: tuple[str, ...] = ()
    nested: bool = False

    @property
    def program(self) -> str:
        """The name of the program without its folder; empty for a bare assignment or redirect."""
        return basename(self.words[0]) if self.words else ""

    @property
    def text(self) -> str:
        """The command in one canonical line: program without folder, arguments unquoted, redirects last."""
        redirects = [
            f"{redirect.operator} {redirect.target}" for redirect in self.redirects if "<<" not in redirect.operator
        ]
        return " ".join([self.program, *self.words[1:], *redirects]).strip()


class Parsed(msgspec.Struct, frozen=True):
    """`commands` in order, outer before inner; `scripts` are all texts a shell would read, the line itself first.
    `whole` is false when the line is nested or long beyond what is read."""

    commands: tuple[Command, ...]
    scripts: tuple[str, ...]
    whole: bool = True
    lists: bool = False

    @property
    def simple(self) -> bool:
        """One plain command: no list, pipe, substitution, redirect to a file, assignment or wrapper."""
        if len(self.commands) != 1 or self.lists or not self.whole:
            return False
        command = self.commands[0]
        return not command.assignments and not any(redirect.writes for redirect in command.redirects)


def parse_line(text: str, cwd: str = "", home: str = "") -> Parsed:
    """Every simple command of the line, also inside substitutions, wrappers and payloads."""
    reader = _Reader(home)
    reader.whole = len(text) <= _MOST_CHARACTERS
    reader.script(text[:_MOST_CHARACTERS], cwd, 0, nested=False)
    return Parsed(tuple(reader.found), tuple(reader.scripts), reader.whole, reader.lists)


def read_commands(text: str, cwd: str = "", home: str = "") -> tuple[Command, ...]:
    """The commands of `parse_line`."""
    return parse_line(text, cwd, home).commands


def program_of_last(text: str) -> str:
    """The program whose exit code the line ends with, as far as plain reading tells."""
    outer = [command for command in read_commands(text) if not command.nested and command.words]
    return outer[-1].program if outer else ""


class _Reader:
    def __init__(self, home: str) -> None:
        self.found: list[Command] = []
        self.scripts: list[str] = []
        self.whole = True
        self.lists = False
        self.home = home
        self.variables: dict[str, str] = {"IFS": " ", "HOME": home or "~"}

    def script(self, text: str, cwd: str, depth: int, *, nested: bool, fed_by: tuple[str, ...] = ()) -> None:
        if not self.room(depth):
            return
        self.scripts.append(text)
        lexed = lex(text)
        pending: list[Word] = []
        redirects: list[Redirect] = []
        pipe: tuple[str, ...] = fed_by
        end = Operator("\n")
        for token in [*lexed.tokens, end]:
            if not self.room(depth):
                return
            if isinstance(token, Word):
                pending.append(token)
            elif token.target is not None:
                redirects.append(Redirect(token.text, self.expand(token.target)))
            elif token.text in _LISTS:
                self.lists = self.lists or token is not end
                words = self.simple(pending, redirects, cwd, depth, nested, pipe)
                cwd = self.moved(words, cwd)
                pipe = _spoken(words, redirects) if token.text in ("|", "|&") else ()
                pending, redirects = [], []
        for inner in lexed.substitutions:
            self.script(inner, cwd, depth + 1, nested=True)

    def simple(
        self,
        pending: list[Word],
        redirects: list[Redirect],
        cwd: str,
        depth: int,
        nested: bool,
        fed_by: tuple[str, ...],
    ) -> list[str]:
        """Note one command and what it carries inside; its words."""
        words = [word for token in pending for word in self.split(token)]
        while words and words[0] in _KEYWORDS:
            words.pop(0)
        assignments: list[str] = []
        while words and _is_assignment(words[0]):
            name, _, value = words[0].partition("=")
            self.variables[name.rstrip("+")] = value
            assignments.append(words.pop(0))
        if words and words[0] in ("for", "select"):
            self.variables |= {name: " ".join(words[3:]) for name in words[1:2]}
            return []
        if words and words[0] == "function":
            words = [word for word in words[2:] if word not in _KEYWORDS]
        if words and words[0] == "case":
            return []
        if not words and not redirects:
            return []
        command = Command(tuple(words), tuple(assignments), tuple(redirects), cwd, fed_by, nested)
        self.found.append(command)
        self.inside(command, depth)
        return words

    def inside(self, command: Command, depth: int) -> None:
        bodies = tuple(redirect.target for redirect in command.redirects if redirect.operator.startswith("<<"))
        inner: Inner = inner_of(command.words, command.fed_by, bodies)
        cwd = join(command.cwd, inner.folder) if inner.folder else command.cwd
        for script in inner.scripts:
            self.script(script, cwd, depth + 1, nested=True)
        for words in inner.commands:
            if self.room(depth + 1):
                found = Command(tuple(words), inner.assignments, command.redirects, cwd, command.fed_by, True)
                self.found.append(found)
                self.inside(found, depth + 1)

    def room(self, depth: int) -> bool:
        self.whole = self.whole and depth <= _DEPTH and len(self.found) <= _MOST
        return self.whole

    def moved(self, words: list[str], cwd: str) -> str:
        """The folder after the command: a plain `cd` or `pushd` moves, anything else stays."""
        if not words or words[0] not in ("cd", "pushd"):
            return cwd
        targets = [word for word in words[1:] if not word.startswith("-")]
        target = targets[0] if targets else "~"
        return normpath(join(cwd or ".", expand_home(target, self.home)))

    def split(self, token: Word) -> list[str]:
        """The words a token becomes: variables that were set in the line are put in, unquoted ones fall into words."""
        text = self.expand(token.text)
        if not token.splits:
            return [text]
        return text.split() if token.text != text else [text]

    def expand(self, text: str) -> str:
        if "\x00" not in text:
            return text
        pieces = text.split("\x00")
        for index in range(1, len(pieces), 2):
            name = pieces[index]
            pieces[index] = self.variables.get(name, f"${name}")
        return "".join(pieces)


def _spoken(words: list[str], redirects: list[Redirect]) -> tuple[str, ...]:
    """What feeds a pipe: the words of the command, or what `cat <<EOF` passes on, as an echo of it."""
    bodies = [redirect.target for redirect in redirects if redirect.operator.startswith("<<")]
    return ("echo", *bodies) if bodies and words[:1] == ["cat"] else tuple(words)


def expand_home(path: str, home: str) -> str:
    """`~` and `~/x` with the home folder put in, where it is known."""
    if home and (path == "~" or path.startswith("~/")):
        return home + path[1:]
    return path


def _is_assignment(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and name.rstrip("+").isidentifier() and name.isascii()
