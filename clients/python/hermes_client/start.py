"""Find the daemon of this user and profile, or start it: `hermes_local` does it, in a thread because it blocks."""

from __future__ import annotations

import asyncio

from hermes_client.dialling import Target
from hermes_local import address as local_address
from hermes_local import spawn


async def find_or_start(profile: str | None = None) -> Target:
    """Where a daemon answers: this user's, started if none runs, or the one that HERMES_DAEMON names.

    `profile` None takes HERMES_PROFILE. Raises what `hermes_local.spawn` raises: a sentence and an exit code when no
    daemon can be reached nor started (protocol section 12).
    """
    return await asyncio.to_thread(_find_or_start, profile)


def _find_or_start(profile: str | None) -> Target:
    where = local_address.resolve(profile=profile)
    if where.daemon_url:
        from hermes_local import elsewhere

        return Target(where.daemon_url, elsewhere.token(where))
    spawn.connect_or_start(where, "hermes-client").close()
    return Target(where.socket_path)
