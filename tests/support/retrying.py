"""The loop an engine runs around a provider: one attempt after another as core.retry plans them."""

from __future__ import annotations

import asyncio

from hermes_daemon.core.ports import Provider, ProviderFailure, Reply, Request
from hermes_daemon.core.retry import next_attempt
from hermes_daemon.core.settings import AgentSettings
from tests.support.model_streams import collect


async def persistently(
    provider: Provider, request: Request, settings: AgentSettings | None = None
) -> tuple[Reply | None, list[ProviderFailure]]:
    """The reply of the first attempt that succeeds, None when the rule gives up; and the failures on the way."""
    failures: list[ProviderFailure] = []
    while True:
        chunks, failure = await collect(provider, request)
        if failure is None:
            reply = chunks[-1]
            assert isinstance(reply, Reply)
            return reply, failures
        failures.append(failure)
        plan = next_attempt(failure, len(failures), settings or AgentSettings(), visible=False, rand=0.5)
        if plan is None:
            return None, failures
        await asyncio.sleep(plan.delay)
