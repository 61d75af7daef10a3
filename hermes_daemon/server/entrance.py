"""What a listener demands of those who come in: a token, a Host it is known by, an Origin it knows."""

from __future__ import annotations

import ipaddress
from typing import Final, Literal, TypeAlias

import msgspec

from hermes_daemon.server.tokens import Tokens

Transport: TypeAlias = Literal["unix", "tcp", "tls"]
PING_S: Final = 20.0


class Entrance(msgspec.Struct, frozen=True):
    """The demands of one listener.

    `tokens` None asks for none. `hosts` are the names, in lower case, by which the machine may be called beside
    loopback and the address that was dialled. `origins` are the web pages that may open a WebSocket, written as
    browsers send them. `ping_s` is the period of WebSocket pings in seconds, 0 = none. `patience_s`: who has said
    nothing for so long is let go, 0 = never.
    """

    transport: Transport
    tokens: Tokens | None = None
    hosts: frozenset[str] = frozenset()
    origins: frozenset[str] = frozenset()
    ping_s: float = PING_S
    patience_s: float = 10.0

    @property
    def local(self) -> bool:
        """True for the unix socket: the system says who is there."""
        return self.transport == "unix"

    def check(self, token: str, address: str) -> None:
        """ProtocolError `auth_required` or `auth_failed` unless this token lets in whoever is at `address`."""
        if self.tokens is not None:
            self.tokens.check(token, address)

    def known_host(self, host: str, dialled: str) -> bool:
        """Whether a Host header names this machine.

        A web page can make its own name point here (DNS rebinding), but then that name stands in the header. The port
        does not matter; `dialled` is the address the connection came in on. A unix socket has no name to rebind.
        """
        if self.local:
            return True
        name = host_name(host)
        if name == "localhost" or name in self.hosts:
            return True
        try:
            found = ipaddress.ip_address(name)
        except ValueError:
            return False
        return found.is_loopback or str(found) == dialled.partition("%")[0]


UNIX: Final = Entrance("unix", patience_s=0.0)


def host_name(host: str) -> str:
    """The name in a Host header, in lower case, without port, brackets and closing dot."""
    text = host.strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.rpartition(":")[0].rstrip(".") if text.count(":") == 1 else text.rstrip(".")


def bearer(value: str) -> str:
    """The token of an Authorization header, "" where it is of another kind."""
    kind, _, token = value.strip().partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""
