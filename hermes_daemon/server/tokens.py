"""The token that network clients show, the file it stands in, and the pause after wrong ones."""

from __future__ import annotations

import contextlib
import hmac
import ipaddress
import os
import secrets
import stat
from collections.abc import Callable
from typing import Final

import msgspec

from hermes_protocol.errors import ProtocolError

TOKEN_BYTES: Final = 32
SHORTEST: Final = 16
"""Characters of a token that somebody wrote by hand."""
FREE_FAILURES: Final = 5
FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 60.0
MAX_ADDRESSES: Final = 1024


class TokenFileError(Exception):
    """The token file cannot be used; the message names it, what is wrong and what was expected."""


class Failed(msgspec.Struct):
    """Wrong tokens from one address, and until when it is not listened to."""

    count: int = 0
    until: float = 0.0


class Tokens:
    """The token in the file at `path`. The file is read at every check, so a new token counts at once.

    `clock` gives seconds that never go back.
    """

    def __init__(self, path: str, clock: Callable[[], float]) -> None:
        self.path = path
        self._clock = clock
        self._failed: dict[str, Failed] = {}

    def ensure(self) -> None:
        """Make the file with a random token where there is none (mode 0600); TokenFileError where it cannot be used."""
        if not os.path.lexists(self.path):
            self._create()
        self._read()

    def check(self, token: str, address: str) -> None:
        """Nothing for the right token. ProtocolError `auth_required` without one, `auth_failed` for a wrong one and,
        with retryAfterMs, for any from an address that has shown too many wrong ones."""
        if not token:
            text = "this connection needs the daemon's token: the text of its token file"
            raise ProtocolError("auth_required", text)
        source = _network_of(address)
        failed = self._failed.get(source)
        now = self._clock()
        if failed is not None and failed.until > now:
            raise _paused(failed.until - now)
        try:
            right = hmac.compare_digest(token.encode("utf-8", "surrogatepass"), self._read().encode())
        except TokenFileError as error:
            raise ProtocolError("auth_failed", f"the daemon cannot read its token: {error}") from None
        if not right:
            pause = self._note_failure(source, now)
            raise _paused(pause) if pause else ProtocolError("auth_failed", "this is not the daemon's token")
        self._failed.pop(source, None)

    def _note_failure(self, source: str, now: float) -> float:
        """Seconds for which that address is not listened to from now on."""
        failed = self._failed.pop(source, Failed())
        while len(self._failed) >= MAX_ADDRESSES:
            del self._failed[next(iter(self._failed))]  # the one whose last failure is longest ago
        self._failed[source] = failed
        failed.count += 1
        if failed.count < FREE_FAILURES:
            return 0.0
        pause = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(30, failed.count - FREE_FAILURES))
        failed.until = now + pause
        return pause

    def _create(self) -> None:
        """Whole or not at all: a second daemon of this user must not read half a token."""
        temporary = f"{self.path}.{os.getpid()}"
        try:
            fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                os.fchmod(fd, 0o600)  # the umask may have narrowed it
                os.write(fd, f"{secrets.token_urlsafe(TOKEN_BYTES)}\n".encode())
            finally:
                os.close(fd)
            with contextlib.suppress(FileExistsError):
                os.link(temporary, self.path)
        except OSError as error:
            raise TokenFileError(f"{self.path} cannot be made: {error.strerror}") from None
        finally:
            with contextlib.suppress(OSError):
                os.unlink(temporary)

    def _read(self) -> str:
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                found = os.fstat(fd)
                text = os.read(fd, 4096) if stat.S_ISREG(found.st_mode) else b""
            finally:
                os.close(fd)
        except OSError as error:
            raise TokenFileError(f"{self.path} cannot be read: {error.strerror}") from None
        if not stat.S_ISREG(found.st_mode):
            raise TokenFileError(f"{self.path} is not a regular file")
        if found.st_uid != os.geteuid():
            raise TokenFileError(f"{self.path} belongs to uid {found.st_uid}, expected {os.geteuid()}, the daemon's")
        if found.st_mode & 0o077:
            mode = stat.S_IMODE(found.st_mode)
            raise TokenFileError(f"{self.path} has mode {mode:04o}, expected 0600: `chmod 600` it, or remove it")
        token = text.decode("ascii", "replace").strip()
        if len(token) < SHORTEST or not token.isascii() or any(letter.isspace() for letter in token):
            raise TokenFileError(
                f"{self.path} holds no token: expected one word of at least {SHORTEST} ASCII characters; "
                "remove the file to get a new one"
            )
        return token


def _paused(seconds: float) -> ProtocolError:
    after = int(seconds * 1000) + 1
    return ProtocolError("auth_failed", "too many wrong tokens from this address", retryable=True, retryAfterMs=after)


def _network_of(address: str) -> str:
    """What one attacker has: an IPv4 address, but a whole /64 of IPv6."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ipaddress.IPv6Network((found, 64), strict=False))
    return str(found)
