"""The network listeners: TCP, and TCP through TLS. Each speaks every framing; the unix socket is `lifecycle`'s.

What cannot be listened on is a problem for people to read and no end of the daemon: its unix socket serves.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import socket
import ssl
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from hermes_daemon.core.settings import ListenSettings
from hermes_daemon.server.connection import Connection
from hermes_daemon.server.entrance import Entrance
from hermes_daemon.server.tokens import TokenFileError, Tokens

if TYPE_CHECKING:
    from hermes_daemon.server.daemon import Daemon

log = logging.getLogger(__name__)
BACKLOG: Final = 128
HANDSHAKE_SECONDS: Final = 10.0
SHUTDOWN_SECONDS: Final = 5.0
SCHEMES: Final = {"tcp": "tcp", "ws": "tcp", "tls": "tls", "wss": "tls"}
TOKEN_NAME: Final = "token"  # noqa: S105 (the file's name)


class CannotListenThere(Exception):
    """An address that cannot be listened on: which, why, and what was expected."""


class RemoteRefused(CannotListenThere):
    """An address that other machines could reach, and nobody has allowed that."""


class Listening:
    """The open network listeners. `endpoints` are URLs with the real ports; `problems` say what is not listened on,
    `refused` is the first of them that was a matter of permission."""

    def __init__(self) -> None:
        self.endpoints: tuple[str, ...] = ()
        self.problems: tuple[str, ...] = ()
        self.refused = ""
        self._servers: list[asyncio.AbstractServer] = []

    @classmethod
    async def open(cls, daemon: Daemon, settings: ListenSettings, home: str) -> Listening:
        """Listen where `settings` say. Never raises for what the settings or the system are to blame for."""
        listening = cls()
        wanted = [("tcp", text) for text in settings.tcp] + [("tls", text) for text in settings.tls]
        if not wanted:
            return listening
        tokens = Tokens(os.path.join(home, settings.token_file or TOKEN_NAME), time.monotonic)
        for kind, text in wanted:
            transport: Literal["tcp", "tls"] = "tls" if kind == "tls" else "tcp"
            try:
                await listening._listen(daemon, settings, transport, text, tokens)
            except (CannotListenThere, TokenFileError) as error:
                listening._complain(f"not listening on {transport}://{text}: {error}")
                if isinstance(error, RemoteRefused) and not listening.refused:
                    listening.refused = listening.problems[-1]
        return listening

    def close(self) -> None:
        """Take no more connections; the ports are free. Those that there are go on."""
        for server in self._servers:
            server.close()
        self._servers.clear()

    async def _listen(
        self, daemon: Daemon, settings: ListenSettings, transport: Literal["tcp", "tls"], text: str, tokens: Tokens
    ) -> None:
        host, port = host_and_port(text)
        addresses = await _resolved(host, port)
        loopback = all(ipaddress.ip_address(address).is_loopback for _, address in addresses)
        if not loopback and not settings.allow_remote:
            raise RemoteRefused(
                "other machines could reach it; `listen.allow_remote: true` or --allow-remote allows that"
            )
        open_to_all = loopback and settings.loopback_without_token
        if not open_to_all:
            tokens.ensure()
        context = _tls_context(settings.tls_cert, settings.tls_key) if transport == "tls" else None
        names = {name.lower().rstrip(".") for name in (*settings.hosts, host, socket.gethostname()) if name}
        entrance = Entrance(
            transport,
            None if open_to_all else tokens,
            frozenset(names),
            frozenset(origin.rstrip("/") for origin in settings.origins),
            settings.ping_s,
        )
        if not loopback and context is None:
            log.warning("tcp://%s is not encrypted: the token and all text can be read on the way", text)
        for bound in _bind(addresses, port):
            await self._serve(daemon, entrance, bound, context)

    async def _serve(
        self, daemon: Daemon, entrance: Entrance, bound: socket.socket, context: ssl.SSLContext | None
    ) -> None:
        server = await asyncio.get_running_loop().create_server(
            lambda: Connection(daemon, entrance).wire,
            sock=bound,
            backlog=BACKLOG,
            ssl=context,
            ssl_handshake_timeout=HANDSHAKE_SECONDS if context else None,
            ssl_shutdown_timeout=SHUTDOWN_SECONDS if context else None,
        )
        self._servers.append(server)
        host, port = bound.getsockname()[:2]
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        schemes = ("tls", "wss") if context else ("tcp", "ws")
        self.endpoints += tuple(f"{scheme}://{place}" for scheme in schemes)
        log.info("listening on %s://%s", schemes[0], place)

    def _complain(self, problem: str) -> None:
        log.error("%s", problem)
        self.problems += (problem,)


def host_and_port(text: str) -> tuple[str, int]:
    """`HOST:PORT` or `[IPV6]:PORT`; CannotListenThere for anything else. An empty host or `*` is every address."""
    host, colon, port = text.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    well_formed = colon and port.isascii() and port.isdigit() and int(port) < 65_536
    if not well_formed or (":" in bare) != host.startswith("["):
        raise CannotListenThere("expected HOST:PORT such as 127.0.0.1:7777 or [::1]:7777; port 0 takes a free one")
    return ("" if bare == "*" else bare), int(port)


def with_flags(
    settings: ListenSettings, listen: str, *, allow_remote: bool = False, tls_cert: str = "", tls_key: str = ""
) -> ListenSettings:
    """`settings` with what the command line adds. `listen` is comma separated: tcp://HOST:PORT, tls://HOST:PORT (ws
    and wss are the same listeners). CannotListenThere for another form."""
    places: dict[str, list[str]] = {"tcp": list(settings.tcp), "tls": list(settings.tls)}
    for word in filter(None, map(str.strip, listen.split(","))):
        scheme, found, place = word.partition("://")
        if not found or scheme not in SCHEMES:
            raise CannotListenThere(f"--listen {word}: expected tcp://HOST:PORT or tls://HOST:PORT")
        try:
            host_and_port(place.rstrip("/"))
        except CannotListenThere as error:
            raise CannotListenThere(f"--listen {word}: {error}") from None
        places[SCHEMES[scheme]].append(place.rstrip("/"))
    return msgspec.structs.replace(
        settings,
        tcp=tuple(places["tcp"]),
        tls=tuple(places["tls"]),
        allow_remote=settings.allow_remote or allow_remote,
        tls_cert=tls_cert or settings.tls_cert,
        tls_key=tls_key or settings.tls_key,
    )


async def _resolved(host: str, port: int) -> list[tuple[int, str]]:
    """(family, address) of every address that the host has here, without doubles."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE | socket.AI_NUMERICSERV
        )
    except OSError as error:
        raise CannotListenThere(f"{host!r} has no address here: {error.strerror or error}") from None
    families = (socket.AF_INET, socket.AF_INET6)
    return list(dict.fromkeys((family, str(name[0])) for family, _, _, _, name in found if family in families))


def _bind(addresses: Sequence[tuple[int, str]], port: int) -> list[socket.socket]:
    """Listening sockets, all on one port. CannotListenThere where one cannot be bound; then none is."""
    bound: list[socket.socket] = []
    try:
        for family, address in addresses:
            sock = socket.socket(family, socket.SOCK_STREAM)
            bound.append(sock)
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.bind((address, port))
            sock.listen(BACKLOG)
            port = port or sock.getsockname()[1]
    except OSError as error:
        for sock in bound:
            sock.close()
        raise CannotListenThere(f"{(error.strerror or str(error)).lower()}") from None
    return bound


def _tls_context(certificate: str, key: str) -> ssl.SSLContext:
    """TLS 1.2 and later with this certificate chain and key (PEM)."""
    if not certificate:
        raise CannotListenThere("`listen.tls_cert` names no certificate: expected a PEM file with its chain")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    for path in filter(None, (certificate, key)):
        try:
            os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        except OSError as error:
            raise CannotListenThere(f"{path} cannot be read: {error.strerror}") from None
    try:
        context.load_cert_chain(certificate, key or None, password="")  # a password must not be asked for at a terminal
    except (ssl.SSLError, OSError, ValueError) as error:
        files = f"{certificate} and {key}" if key else certificate
        what = getattr(error, "reason", None) or error
        raise CannotListenThere(f"{files}: no PEM certificate with its unencrypted key ({what})") from None
    return context
