"""Which commands the user let run as hooks: each once, by its very words."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from typing import Final

import msgspec

FILE: Final = "shell-hooks-allowlist.json"


class Consent:
    """The allow list in the home. With `all` everything is allowed (`hooks_auto_accept`, HERMES_ACCEPT_HOOKS)."""

    def __init__(self, home: str, *, all: bool = False) -> None:
        self._path = os.path.join(home, FILE)
        self.all = all

    def given(self, event: str, command: str) -> bool:
        """True when this command may run at this event. A list that cannot be read allows nothing."""
        return self.all or _key(event, command) in self._read()

    def give(self, event: str, command: str) -> None:
        """Allow it from now on."""
        allowed = self._read()
        allowed[_key(event, command)] = f"{event}: {command}"
        self._write(allowed)

    def withdraw(self, event: str, command: str) -> None:
        """Allow it no more."""
        allowed = self._read()
        if allowed.pop(_key(event, command), None) is not None:
            self._write(allowed)

    def _read(self) -> dict[str, str]:
        try:
            with open(self._path, "rb") as file:
                return msgspec.json.decode(file.read(), type=dict[str, str])
        except (OSError, msgspec.MsgspecError):
            return {}

    def _write(self, allowed: dict[str, str]) -> None:
        os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
        descriptor, path = tempfile.mkstemp(dir=os.path.dirname(self._path), prefix=".hooks")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(allowed)))
                file.flush()
                os.fsync(file.fileno())
            os.replace(path, self._path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(path)
            raise


def _key(event: str, command: str) -> str:
    return hashlib.sha256(f"{event}\0{command}".encode()).hexdigest()
