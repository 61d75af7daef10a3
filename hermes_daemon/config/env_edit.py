"""Writing home/.env: one name changed, every other line as it was, private to its owner."""

from __future__ import annotations

import os
import re
import stat
import tempfile

from hermes_daemon.config.problem import Notes
from hermes_daemon.config.secrets import parse_env
from hermes_daemon.core.ports import Refused

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN = re.compile(r"[A-Za-z0-9_./+=:@%~-]+")
LONGEST = 16_384


def put_secret(path: str, name: str, value: str | None) -> None:
    """Set `name`, None takes it out. Refused, with nothing written, for a name or a value that no line can hold, and
    for a file that others may read; no error repeats the value."""
    if not _NAME.fullmatch(name):
        raise Refused(f"{name!r} is no name of a variable.", kind="invalid_params")
    line = None if value is None else f"{name}={_spelled(value)}"
    path = os.path.realpath(path)
    kept = [text for text in _lines(path) if _name_of(text) != name]
    _write(path, "".join(f"{text}\n" for text in (*kept, *([line] if line else []))))


def _spelled(value: str) -> str:
    if not value.strip():
        raise Refused("The key is empty.", kind="invalid_params")
    if value != value.strip() or not value.isprintable() or len(value) > LONGEST:
        raise Refused(
            "The key holds white space at its ends, a line break or another control character, or is longer than "
            f"{LONGEST:,} characters.",
            "Give it as the provider shows it, in one line.",
            kind="invalid_params",
        )
    if _PLAIN.fullmatch(value):
        return value
    if "'" not in value:
        return f"'{value}'"
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8-sig") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            text = file.read()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"{path} cannot be read: {error}.") from None
    if mode & 0o077:
        raise Refused(f"{path}: others on this machine may read it (mode {mode:04o}).", f"Run: chmod 600 {path}")
    return text.splitlines()


def _name_of(line: str) -> str:
    return next(iter(parse_env(line, Notes(""))), "")


def _write(path: str, text: str) -> None:
    folder = os.path.dirname(path)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=".env-", dir=folder)  # made with mode 0600
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
