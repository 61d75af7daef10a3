"""A client with which this daemon shares no protocol version.

What lets two such builds part in peace is frozen for every version of the protocol (protocol/README.md): how a client
says what it speaks, the answer -32056, and three methods that are served behind it, so that either side can drain the
other.
"""

from __future__ import annotations

from typing import Final

import msgspec

FROZEN_METHODS: Final = frozenset({"hermes/daemon/status", "hermes/daemon/ping", "hermes/daemon/shutdown"})


class StrangerClient(msgspec.Struct, frozen=True):
    """Of `client` only what is frozen: a name to show, and whether it may stop the daemon."""

    id: str = ""
    name: str = ""
    role: str = "controller"


class StrangerAuth(msgspec.Struct, frozen=True):
    """What a network client shows; without it nothing is served, whatever it speaks."""

    token: str = ""


class Stranger(msgspec.Struct, frozen=True, rename="camel"):
    """The frozen part of `initialize`."""

    protocol_versions: tuple[str, ...]
    client: StrangerClient = StrangerClient()
    auth: StrangerAuth = StrangerAuth()


class _Options(msgspec.Struct, frozen=True):
    hermes: Stranger


class _Params(msgspec.Struct, frozen=True, rename="camel"):
    hermes: Stranger | None = None
    initialization_options: _Options | None = None


_decode = msgspec.json.Decoder(_Params).decode


def stranger(raw: msgspec.Raw, ours: tuple[str, ...]) -> Stranger | None:
    """Who says `initialize` with these params, when none of its protocol versions is one of `ours`; else None.

    Everything that is not frozen may have another shape in another version and is not looked at.
    """
    try:
        params = _decode(raw)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None  # no hello that any version would send: the caller says what does not fit
    said = params.hermes or (params.initialization_options.hermes if params.initialization_options else None)
    return said if said is not None and not set(said.protocol_versions) & set(ours) else None
