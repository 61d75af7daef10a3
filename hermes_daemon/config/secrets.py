"""home/.env: credentials, one `NAME=value` a line, used only while the file is private to its owner."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping

from hermes_daemon.config.problem import Notes

_LINE = re.compile(r"(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*(.*)\Z", re.DOTALL)
_QUOTED = re.compile(r"""'([^']*)'|"((?:[^"\\]|\\.)*)\"""", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


class Secrets:
    """Looks credentials up: the environment first, then home/.env. Its repr and str show no value."""

    def __init__(self, environ: Mapping[str, str], stored: Mapping[str, str]) -> None:
        self._environ, self._stored = environ, stored

    def __call__(self, name: str) -> str | None:
        """The value, or None when it is set nowhere or empty."""
        return self._environ.get(name) or self._stored.get(name) or None

    def values(self) -> frozenset[str]:
        """Every value of home/.env: what must never be shown."""
        return frozenset(value for value in self._stored.values() if value)

    def stored(self, name: str) -> bool:
        """Whether the value comes from home/.env."""
        return not self._environ.get(name) and bool(self._stored.get(name))

    def __repr__(self) -> str:
        return f"<Secrets: {len(self._stored)} in .env>"


def read_env_file(path: str, notes: Notes) -> dict[str, str]:
    """The names and values of the file; nothing with a warning when others may read it; nothing when it is absent."""
    try:
        with open(path, "rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if mode & 0o077:
                notes.warn(f"not used: others on this machine may read it (mode {mode:04o}); run: chmod 600 {path}")
                return {}
            text = file.read().decode("utf-8-sig")
    except FileNotFoundError:
        return {}
    except UnicodeDecodeError as error:
        notes.warn(f"not used: byte {error.start} is not UTF-8")
        return {}
    except OSError as error:
        notes.warn(f"not used: {error.strerror}")
        return {}
    return parse_env(text, notes)


def parse_env(text: str, notes: Notes) -> dict[str, str]:
    """`NAME=value` lines with an optional `export`, comments, single quotes (literal) and double quotes (`\\n`, `\\"`).

    Nothing is expanded. A line that does not fit is skipped with a warning that does not repeat it.
    """
    values: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        match = _LINE.match(line)
        value = _value(match[2]) if match else None
        if match is None or value is None:
            notes.warn(f"line {number} is skipped: expected NAME=value, quotes closed on the same line")
            continue
        values[match[1]] = value
    return values


def _value(text: str) -> str | None:
    if text[:1] not in ("'", '"'):
        return re.split(r"[ \t]+#", text, maxsplit=1)[0].strip()
    match = _QUOTED.match(text)
    rest = text[match.end() :].strip() if match else "unclosed"
    if match is None or (rest and not rest.startswith("#")):
        return None
    if match[1] is not None:
        return match[1]
    return re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[1]), match[2], flags=re.DOTALL)
