"""Where keys come from, and which of several is used: one that was refused or limited rests while others are there.

A source is the name of a variable, `keyring:SERVICE/USER` (the system's key store, with the extra `keyring`) or
`file:PATH` (mode 0600). A value is never part of an error.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable
from typing import Any

import msgspec

REFUSED_S = 600.0  # how long a key that was refused rests; it may be renewed meanwhile
LIMITED_S = 60.0  # how long one that was limited rests when nobody said how long
STORE_S = 10.0  # a key store may ask its user; a turn does not wait longer than this


class CredentialError(Exception):
    """A key cannot be had; the sentence says from where and why."""


class Key(msgspec.Struct, frozen=True):
    """A key and where it came from. Printing it shows the source alone."""

    source: str
    value: str

    def __repr__(self) -> str:
        return f"Key({self.source!r})"


class Keys:
    """The keys of one endpoint. `secret` looks a variable up; `now` is in seconds."""

    def __init__(
        self,
        sources: tuple[str, ...],
        secret: Callable[[str], str | None],
        now: Callable[[], float],
        on_stored: Callable[[], None] = lambda: None,
    ) -> None:
        self._sources = sources
        self._secret = secret
        self._now = now
        self._on_stored = on_stored
        self._seen: set[str] = set()
        self._rests: dict[str, float] = {}
        self._stored: dict[str, str] = {}

    @property
    def values(self) -> frozenset[str]:
        """Values that were read from a key store or a file: what must never be shown."""
        return frozenset(self._seen)

    async def usable(self) -> list[Key]:
        """The keys there are, those that rest last and among them the one that is free first.

        Raises CredentialError only when there is none at all and a source said why.
        """
        found, problem = [], None
        for source in self._sources:
            try:
                value = await self._read(source)
            except CredentialError as error:
                problem = problem or error
                continue
            if value:
                found.append(Key(source, value))
        if not found and problem is not None:
            raise problem
        now = self._now()
        return sorted(found, key=lambda key: max(self._rests.get(key.source, 0.0) - now, 0.0))

    def rest(self, key: Key, seconds: float) -> None:
        """Use others first for that long. A refused key is read anew the next time."""
        self._rests[key.source] = self._now() + seconds
        self._stored.pop(key.source, None)

    def forget(self, source: str) -> None:
        """Read this source anew the next time: the key in it was changed."""
        self._stored.pop(source, None)
        self._rests.pop(source, None)

    async def _read(self, source: str) -> str:
        if source in self._stored:
            return self._stored[source]
        kind, colon, rest = source.partition(":")
        if not colon:
            return (self._secret(source) or "").strip()
        if kind == "file":
            value = _from_file(rest)
        elif kind == "keyring":
            try:
                async with asyncio.timeout(STORE_S):
                    value = await asyncio.to_thread(_from_keyring, rest)
            except TimeoutError:
                raise CredentialError(f"The key store did not answer for {source} within {STORE_S:g} s.") from None
        else:
            raise CredentialError(f"{source!r} is no source of a key: name a variable, keyring:SERVICE/USER or "
                                  "file:PATH.")  # fmt: skip
        if value:
            self._stored[source] = value
            if value not in self._seen:
                self._seen.add(value)  # a key that was replaced stays a secret
                self._on_stored()
        return value


def _from_file(path: str) -> str:
    path = os.path.expanduser(path)
    try:
        with open(path, encoding="utf-8") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if mode & 0o077:
                raise CredentialError(f"The key file {path} may be read by others (mode {mode:04o}): chmod 600 it.")
            return file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CredentialError(f"The key file {path} cannot be read: {error}.") from None


def keep_in_keyring(where: str, value: str | None) -> None:
    """Put a key into the system's key store, None takes it out. Raises CredentialError. Blocks: it may ask its user."""
    service, user = _place(where)
    store, failed = _keyring()
    try:
        if value is not None:
            store.set_password(service, user, value)
        elif store.get_password(service, user) is not None:
            store.delete_password(service, user)
    except failed as error:
        raise CredentialError(f"The key store did not take the key: {error or type(error).__name__}.") from None


def _from_keyring(where: str) -> str:
    service, user = _place(where)
    store, failed = _keyring()
    try:
        return (store.get_password(service, user) or "").strip()
    except failed as error:
        raise CredentialError(
            f"The key store gave no key for keyring:{where}: {error or type(error).__name__}."
        ) from None


def _place(where: str) -> tuple[str, str]:
    service, slash, user = where.partition("/")
    if not slash or not service or not user:
        raise CredentialError(f"keyring:{where} is no place in the key store: write keyring:SERVICE/USER.")
    return service, user


def _keyring() -> tuple[Any, type[Exception]]:
    """The library, and what it raises."""
    try:
        import keyring
        from keyring.errors import KeyringError
    except ImportError:
        raise CredentialError("Keys from the key store need an extra: pip install 'hermes-daemon[keyring]'.") from None
    return keyring, KeyringError
