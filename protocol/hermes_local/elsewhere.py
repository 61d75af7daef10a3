"""A daemon that is named by a URL, on this machine or another, instead of found. It is never started from here."""

from __future__ import annotations

import _socket
import os

from hermes_local.connection import Connection
from hermes_local.spawn import EXIT_NOT_RUNNING, EXIT_UNAVAILABLE, DaemonUnavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from hermes_local.address import Address

CONNECT_S = 10.0
SCHEMES = ("unix", "tcp", "tls", "ws", "wss")
TOKEN_NAME = "token"  # noqa: S105 (the file's name)


class Place:
    """A URL in its parts. `path` is the socket's for unix, the request's for ws and wss."""

    __slots__ = ("host", "path", "port", "scheme", "url")

    def __init__(self, url: str) -> None:
        """DaemonUnavailable for a URL of no known form; the message says what was expected."""
        scheme, colon, rest = url.partition(":")
        self.url, self.scheme = url, scheme.lower()
        self.host, self.port, self.path = "", 0, ""
        if not colon or self.scheme not in SCHEMES:
            raise _no_url(url)
        if self.scheme == "unix":
            self.path = rest[2:] if rest.startswith("///") else rest
            if self.path[:1] != "/":
                raise _no_url(url)
            return
        authority, slash, path = rest.removeprefix("//").partition("/")
        host, colon, port = authority.rpartition(":")
        self.path = slash + path
        self.host = host.removeprefix("[").removesuffix("]")
        well_formed = colon and self.host and port.isascii() and port.isdigit() and 0 < int(port) < 65_536
        web = self.scheme in ("ws", "wss")
        if not rest.startswith("//") or not well_formed or "@" in host or (self.path not in ("", "/") and not web):
            raise _no_url(url)
        self.port = int(port)

    @property
    def loopback(self) -> bool:
        """True for this machine."""
        return self.scheme == "unix" or self.host in ("localhost", "::1") or self.host.startswith("127.")


def _no_url(url: str) -> DaemonUnavailable:
    return DaemonUnavailable(
        f"{url!r} names no daemon: expected tcp://HOST:PORT, tls://HOST:PORT, ws://HOST:PORT, wss://HOST:PORT "
        "or unix:/PATH (from --daemon or HERMES_DAEMON)",
        2,
    )


def dial(url: str) -> Connection:
    """A bare connection to the daemon at `url`; DaemonUnavailable where nobody answers or this URL needs another
    client."""
    place = Place(url)
    try:
        if place.scheme == "unix":
            return Connection.open(place.path, CONNECT_S)
        if place.scheme == "tcp":
            return Connection(_tcp(place))
        if place.scheme == "tls":
            return Connection(_tls(place))
    except (FileNotFoundError, ConnectionRefusedError) as error:
        raise DaemonUnavailable(f"no daemon answers at {url}: {error.strerror}", EXIT_NOT_RUNNING) from None
    except TimeoutError:
        reason = f"no answer within {CONNECT_S:g} s"
        raise DaemonUnavailable(f"cannot connect to {url}: {reason}", EXIT_UNAVAILABLE) from None
    except OSError as error:  # what TLS refuses is one too
        reason = str(getattr(error, "verify_message", "") or error.strerror or error)
        raise DaemonUnavailable(f"cannot connect to {url}: {reason}", EXIT_UNAVAILABLE) from None
    other = "tls" if place.scheme == "wss" else "tcp"
    raise DaemonUnavailable(
        f"{url}: only the interactive chat speaks WebSocket; a daemon listens for {other}:// on the same port", 2
    )


def token(address: Address) -> str:
    """The token for the daemon at `address.daemon_url`: from the file that was named, else, for a daemon on this
    machine, from this home's own; "" where there is none."""
    path = address.token_file
    if not path and not Place(address.daemon_url).loopback:
        return ""
    try:
        fd = os.open(path or f"{address.home}/{TOKEN_NAME}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            text = os.read(fd, 4096)
        finally:
            os.close(fd)
    except OSError as error:
        if path:
            reason = f"the token file {path} cannot be read: {error.strerror} (from --token-file or "
            raise DaemonUnavailable(f"{reason}HERMES_DAEMON_TOKEN_FILE)", EXIT_UNAVAILABLE) from None
        return ""
    return text.decode("ascii", "replace").strip()


def _tcp(place: Place) -> _socket.socket:
    """Connected to the first of the host's addresses that answers; the last one's OSError where none does."""
    failed = OSError(f"{place.host} has no address")
    for family, kind, protocol, _, name in _socket.getaddrinfo(place.host, place.port, 0, _socket.SOCK_STREAM):
        sock = _socket.socket(family, kind, protocol)
        try:
            sock.settimeout(CONNECT_S)
            sock.connect(name)
        except OSError as error:
            sock.close()
            failed = error
            continue
        sock.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
        sock.setsockopt(_socket.SOL_SOCKET, _socket.SO_KEEPALIVE, 1)
        return sock
    raise failed


def _tls(place: Place) -> Any:
    import socket
    import ssl  # 25 ms: only for who asks for it

    context = ssl.create_default_context()  # trusts what SSL_CERT_FILE names too
    plain = _tcp(place)
    sock = socket.socket(fileno=plain.detach())
    try:
        sock.settimeout(CONNECT_S)
        return context.wrap_socket(sock, server_hostname=place.host)
    except BaseException:
        sock.close()
        raise
