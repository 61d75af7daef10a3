"""What a plugin keeps between runs: one JSON file of its own, whole or not at all."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import tempfile
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from hermes_daemon.core.ports import Refused

MOST_BYTES: Final = 10 * 1_048_576
KEY: Final = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_.:/-]{0,199}$")


class PluginState:
    """Values by key in `folder/state.json`. Every change is on the disk before it returns; other processes see whole
    files and take turns by a lock beside it."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._path = os.path.join(folder, "state.json")

    def get(self, key: str, default: Any = None) -> Any:
        """The value, or `default`."""
        return self._read().get(key, default)

    def keys(self) -> tuple[str, ...]:
        """All keys."""
        return tuple(self._read())

    def set(self, key: str, value: Any) -> None:
        """Keep a JSON value. Refused for a key that is none, or when all values together exceed 10 MiB."""
        if not KEY.match(key):
            raise Refused(f"a key of plugin state must match {KEY.pattern}, got {key!r}")
        with self._locked():
            values = self._read()
            values[key] = value
            self._write(values)

    def delete(self, key: str) -> None:
        """Forget a key; one that is not there is fine."""
        with self._locked():
            values = self._read()
            if values.pop(key, msgspec.UNSET) is not msgspec.UNSET:
                self._write(values)

    def _read(self) -> dict[str, Any]:
        try:
            with open(self._path, "rb") as file:
                values = msgspec.json.decode(file.read())
        except FileNotFoundError:
            return {}
        except msgspec.DecodeError as error:
            raise Refused(f"{self._path} is damaged: {error}", "Move it away to begin anew.") from None
        return values if isinstance(values, dict) else {}

    def _write(self, values: dict[str, Any]) -> None:
        data = msgspec.json.encode(values)
        if len(data) > MOST_BYTES:
            raise Refused(f"{self._path} would have {len(data):,} bytes; a plugin may keep {MOST_BYTES:,}")
        descriptor, path = tempfile.mkstemp(dir=self.folder, prefix=".state")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(path, self._path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(path)
            raise

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        with open(os.path.join(self.folder, "state.lock"), "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
