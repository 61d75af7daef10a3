"""The tokens of a shell command line: words with their quotes taken off, operators, redirects, substitutions.

A variable stands in a word as NUL name NUL, for whoever knows its value.
"""

from __future__ import annotations

import re
import unicodedata

import msgspec

_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_INVISIBLE = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff\u00ad]")
_OPERATOR = re.compile(r"&&|\|\||;;&|;;|;&|\|&|[;&|()\n]")
_REDIRECT = re.compile(r"(?:\d+|\{\w+\})?(?:<<<|<<-|<<|<>|<&|>&|>>|>\||<|>)|&>>|&>")
_NAME = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)(?::?[-=+?][^}]*)?\})")
_PLAIN = re.compile(r"[\w./:,=@%+~^\-\[\]{}*?!#]+")
_QUOTED = re.compile(r'[^"\\$`]+')
_IDLE = re.compile(r"[^\\$`<>]+")
_ANSI_C = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "\\": "\\", "'": "'", '"': '"'}
_ANSI_CODE = re.compile(
    r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})|(.))", re.DOTALL
)


class Word(msgspec.Struct, frozen=True):
    """`splits` when it holds an unquoted variable, whose value falls into several words."""

    text: str
    splits: bool = False


class Operator(msgspec.Struct, frozen=True):
    """A list operator, or a redirect with its target."""

    text: str
    target: str | None = None


class Lexed(msgspec.Struct, frozen=True):
    """`substitutions` are the texts of `$(…)`, backquotes and `<(…)`."""

    tokens: tuple[Word | Operator, ...]
    substitutions: tuple[str, ...]


def lex(text: str) -> Lexed:
    """The tokens. Look-alike characters, terminal escapes and invisible marks are normalised away first."""
    text = _CONTROLS.sub("", _ESCAPES.sub("", text.replace("\r\n", "\n")))
    text = _INVISIBLE.sub("", text)
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    lexer = _Lexer(text)
    lexer.run()
    return Lexed(tuple(lexer.tokens), tuple(lexer.substitutions))


class _Lexer:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.tokens: list[Word | Operator] = []
        self.substitutions: list[str] = []
        self.documents: list[tuple[int, str, bool]] = []

    def run(self) -> None:
        while self.at < len(self.text):
            character = self.text[self.at]
            if character in " \t\r":
                self.at += 1
            elif character == "\\" and self.text.startswith("\\\n", self.at):
                self.at += 2
            elif character == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            elif not self.redirect() and not self.operator():
                word = self.word()
                if word is not None:
                    self.tokens.append(word)

    def operator(self) -> bool:
        match = _OPERATOR.match(self.text, self.at)
        if not match:
            return False
        self.at = match.end()
        self.tokens.append(Operator(match.group()))
        if match.group() == "\n":
            self.here_documents()
        return True

    def redirect(self) -> bool:
        match = _REDIRECT.match(self.text, self.at)
        if not match:
            return False
        operator = match.group()
        if operator in ("<", ">") and self.text.startswith("(", match.end()):
            return False
        self.at = match.end()
        while self.at < len(self.text) and self.text[self.at] in " \t":
            self.at += 1
        start = self.at
        target = self.word()
        quoted = any(mark in self.text[start : self.at] for mark in "\"'\\")
        text = target.text if target else ""
        if operator.lstrip("0123456789") in ("<<", "<<-"):
            self.documents.append((len(self.tokens), text, quoted))
        self.tokens.append(Operator(operator, text))
        return True

    def here_documents(self) -> None:
        for index, mark, quoted in self.documents:
            token = self.tokens[index]
            assert isinstance(token, Operator)
            body: list[str] = []
            while self.at < len(self.text):
                end = self.text.find("\n", self.at)
                end = len(self.text) if end < 0 else end
                line = self.text[self.at : end]
                self.at = min(end + 1, len(self.text))
                if (line.lstrip("\t") if token.text.endswith("-") else line) == mark:
                    break
                body.append(line)
            content = "\n".join(body)
            self.tokens[index] = Operator(token.text, content)
            if not quoted:
                inner = _Lexer(content)
                inner.document()
                self.substitutions += inner.substitutions
        self.documents = []

    def document(self) -> None:
        """Only substitutions count inside an unquoted here-document."""
        while self.at < len(self.text):
            idle = _IDLE.match(self.text, self.at)
            if idle:
                self.at = idle.end()
            elif not self.substitution():
                self.at += 2 if self.text[self.at] == "\\" else 1

    def word(self) -> Word | None:
        pieces: list[str] = []
        splits = False
        start = self.at
        while self.at < len(self.text):
            plain = _PLAIN.match(self.text, self.at)
            if plain:
                pieces.append(plain.group())
                self.at = plain.end()
                continue
            character = self.text[self.at]
            if character in " \t\r\n;&|)" or (character in "<>" and not self.text.startswith("(", self.at + 1)):
                break
            if character == "(":
                break
            if character == "'":
                pieces.append(self.until("'"))
            elif character == '"':
                pieces.append(self.double_quoted())
            elif character == "\\":
                pieces.append(self.text[self.at + 1 : self.at + 2].replace("\n", ""))
                self.at += 2
            elif self.text.startswith("$'", self.at):
                self.at += 1
                pieces.append(self.ansi_c())
            elif self.text.startswith('$"', self.at):
                self.at += 1
                pieces.append(self.double_quoted())
            elif found := self.arithmetic() or self.substitution():
                pieces.append(found)
            elif name := _NAME.match(self.text, self.at):
                pieces.append(f"\x00{name.group(1) or name.group(2)}\x00")
                splits, self.at = True, name.end()
            else:
                pieces.append(character)
                self.at += 1
        if self.at == start:
            self.at += 1
            return None
        return Word("".join(pieces), splits)

    def until(self, quote: str) -> str:
        end = self.text.find(quote, self.at + 1)
        end = len(self.text) if end < 0 else end
        inside = self.text[self.at + 1 : end]
        self.at = end + 1
        return inside

    def ansi_c(self) -> str:
        start = self.at + 1
        self.at = start
        while self.at < len(self.text) and self.text[self.at] != "'":
            self.at += 2 if self.text[self.at] == "\\" else 1
        inside = self.text[start : self.at]
        self.at += 1
        return _ANSI_CODE.sub(_ansi_character, inside).replace("\x00", "")

    def double_quoted(self) -> str:
        pieces: list[str] = []
        self.at += 1
        while self.at < len(self.text) and self.text[self.at] != '"':
            quoted = _QUOTED.match(self.text, self.at)
            if quoted:
                pieces.append(quoted.group())
                self.at = quoted.end()
                continue
            character = self.text[self.at]
            if character == "\\":
                following = self.text[self.at + 1 : self.at + 2]
                pieces.append("" if following == "\n" else following if following in '"\\$`' else character + following)
                self.at += 2
            elif found := self.arithmetic() or self.substitution():
                pieces.append(found)
            elif name := _NAME.match(self.text, self.at):
                pieces.append(f"\x00{name.group(1) or name.group(2)}\x00")
                self.at = name.end()
            else:
                pieces.append(character)
                self.at += 1
        self.at += 1
        return "".join(pieces)

    def arithmetic(self) -> str:
        """Take a `$((…))` here; its text, empty when there is none."""
        if not self.text.startswith("$((", self.at):
            return ""
        start, end = self.at, _closing(self.text, self.at + 2)
        inner = _Lexer(self.text[start + 3 : end])
        inner.document()
        self.substitutions += inner.substitutions
        self.at = end + 1
        return self.text[start : self.at]

    def substitution(self) -> str:
        """Take a `$(…)`, `` `…` ``, `<(…)` or `>(…)` here; its text as written, empty when there is none."""
        text, at = self.text, self.at
        if text.startswith(("$(", "<(", ">("), at):
            end = _closing(text, at + 2)
            self.substitutions.append(text[at + 2 : end])
        elif text.startswith("`", at):
            end = at + 1
            while end < len(text) and text[end] != "`":
                end += 2 if text[end] == "\\" else 1
            self.substitutions.append(re.sub(r"\\([`\\$])", r"\1", text[at + 1 : end]))
        else:
            return ""
        self.at = end + 1
        return text[at : self.at].replace("\x00", "")


def _closing(text: str, at: int) -> int:
    """The index of the bracket that closes one opened before `at`; quotes and escapes are skipped over."""
    depth = 1
    while at < len(text):
        character = text[at]
        if character == "\\":
            at += 1
        elif character == "'":
            end = text.find("'", at + 1)
            at = len(text) if end < 0 else end
        elif character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
            if depth == 0:
                return at
        at += 1
    return len(text)


def _ansi_character(match: re.Match[str]) -> str:
    for group, base in ((1, 16), (2, 16), (3, 16), (4, 8)):
        if match.group(group):
            code = int(match.group(group), base)
            return chr(code) if code < 0x110000 else ""
    return _ANSI_C.get(match.group(5), match.group(5))
