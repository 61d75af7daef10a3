"""From a daemon's address to an open Wire: a unix socket, TCP, TLS, or a WebSocket, plain or secure."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from hermes_client.wire import Disconnected, Wire
from hermes_local.elsewhere import Place

if TYPE_CHECKING:
    from hermes_client.websocket import Link

CONNECT_SECONDS = 10.0


class Target(msgspec.Struct, frozen=True):
    """Where to connect. `address` is a path or a URL as `Connection.open` takes it; `token` goes into initialize."""

    address: str
    token: str = ""


async def open_wire(target: Target, make: Callable[[], Wire], context: ssl.SSLContext | None) -> Wire:
    """A Wire whose socket is open. OSError, TimeoutError included, where nobody answers or TLS or the upgrade failed;
    DaemonUnavailable for a URL of no known form.

    `context` says whom TLS trusts; None trusts what this system does.
    """
    if ":" not in target.address or target.address[:1] in "/.":
        return await _unix(target.address, make)
    place = Place(target.address)
    if place.scheme == "unix":
        return await _unix(place.path, make)
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            return await _network(place, target, make, context)
    except TimeoutError:
        raise TimeoutError(f"no answer from {target.address} within {CONNECT_SECONDS:g} s") from None
    except ConnectionRefusedError as error:
        raise ConnectionRefusedError(error.errno, f"no daemon answers at {target.address}") from None
    except ssl.SSLCertVerificationError as error:
        raise Disconnected(f"the certificate of {target.address} is not trusted: {error.verify_message}") from error


async def _unix(path: str, make: Callable[[], Wire]) -> Wire:
    _, wire = await asyncio.get_running_loop().create_unix_connection(make, path)
    return wire


async def _network(place: Place, target: Target, make: Callable[[], Wire], context: ssl.SSLContext | None) -> Wire:
    secure: dict[str, Any] = {}
    if place.scheme in ("tls", "wss"):
        secure = {"ssl": context or ssl.create_default_context(), "server_hostname": place.host}
    loop = asyncio.get_running_loop()
    if place.scheme in ("tcp", "tls"):
        _, wire = await loop.create_connection(make, place.host, place.port, **secure)
        return wire
    from hermes_client.websocket import Link  # only for WebSockets: it imports their library

    link: Link
    _, link = await loop.create_connection(lambda: Link(target.address, target.token), place.host, place.port, **secure)
    return await link.carry(make())
