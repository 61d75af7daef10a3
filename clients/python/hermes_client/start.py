"""Find the daemon of this user and profile, or start it: `hermes_local` does it, in a thread because it blocks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hermes_client.dialling import Target
from hermes_local import address as local_address
from hermes_local import spawn
from hermes_local.connection import Connection as LocalConnection
from hermes_protocol.errors import ProtocolError


async def find_or_start(profile: str | None = None) -> Target:
    """Where a daemon answers: this user's, started if none runs, or the one that HERMES_DAEMON names.

    `profile` None takes HERMES_PROFILE. Raises ProtocolError `version_unsupported` for a daemon of another protocol,
    and what `hermes_local.spawn` raises: a sentence and an exit code when no daemon can be reached nor started
    (protocol section 12).
    """
    return await asyncio.to_thread(_reach, profile, spawn.connect_or_start)


async def find(profile: str | None = None) -> Target:
    """As `find_or_start`, but where no daemon runs that is an error: for one that was stopped on purpose."""
    return await asyncio.to_thread(_reach, profile, spawn.connect)


def _reach(profile: str | None, connect: Callable[[local_address.Address, str], LocalConnection]) -> Target:
    where = local_address.resolve(profile=profile)
    if where.daemon_url:
        from hermes_local import elsewhere

        return Target(where.daemon_url, elsewhere.token(where))
    try:
        connect(where, "hermes-client").close()
    except spawn.Incompatible as other:
        raise ProtocolError("version_unsupported", str(other), supported=list(other.supported)) from None
    return Target(where.socket_path)


async def replace(profile: str | None = None, tell: Callable[[str], None] = print) -> None:
    """Let the daemon of `profile` finish its turns and go, whatever version it speaks; the next `find_or_start` starts
    one of this installation. `tell` gets a line for people when turns are waited for. Raises as `find_or_start`."""
    where = local_address.resolve(profile=profile)
    reason = "another version of hermes takes its place"
    await asyncio.to_thread(spawn.replace, where, "hermes-client", reason, tell)
