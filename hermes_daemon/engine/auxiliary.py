"""Models that are asked beside the conversation, one task a call: titles, summaries, judgements.

The task's own model first (`auxiliary.NAME.model`), then, if the settings allow it, the session's. A call passes the
points of model calls with `aux_task` in their context, and is announced by pre_ and post_auxiliary_call. What it used
is kept under the task's name and counts for the session.
"""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING, Any

import msgspec

from hermes_daemon.core.ports import ModelInfo, Provider, ProviderFailure, Refused, Reply, Request
from hermes_daemon.core.records import AddUsage
from hermes_daemon.core.retry import next_attempt
from hermes_daemon.core.settings import AuxiliaryEntry
from hermes_daemon.engine.passage import Corrected, Passage
from hermes_daemon.engine.prompting import narrowed
from hermes_daemon.middleware.payloads import AuxiliaryCall, PointContext
from hermes_daemon.middleware.styles import ExecutionBlocked, MiddlewareError
from hermes_protocol.content import Usage

if TYPE_CHECKING:
    from hermes_daemon.engine.session import Session

log = logging.getLogger(__name__)


class Unanswered(Exception):
    """No model gave an answer; the sentence names each that was asked and what went wrong."""


async def ask(task: str, request: Request, session: Session, *, turn_id: str = "") -> Reply:
    """The reply of the first model that gives one. `request.model` is filled in; its tools stay what they are.

    Each model has `auxiliary.NAME.timeout` seconds, repetitions included. Raises Unanswered. Cancelling closes the
    connection.
    """
    entry = session.parts.settings().auxiliary.get(task, AuxiliaryEntry())
    problems = []
    for wanted in _candidates(entry, session):
        try:
            provider, model = session.parts.models.resolve(wanted)
            async with asyncio.timeout(entry.timeout):
                return await _announced(_call(task, session, turn_id, provider, model), request)
        except Refused as refused:
            problems.append(str(refused))
        except TimeoutError:
            problems.append(f"{wanted} did not answer within {entry.timeout:g} s (auxiliary.{task}.timeout)")
        except ProviderFailure as failure:
            problems.append(failure.message)
        except (ExecutionBlocked, MiddlewareError) as stopped:
            problems.append(f"a middleware stopped the call: {stopped}")
            break  # a veto is meant for every model
    raise Unanswered(session.parts.redact(f"{task}: {'; '.join(problems)}"))


def _candidates(entry: AuxiliaryEntry, session: Session) -> tuple[str, ...]:
    own = session.model
    if not entry.model or entry.model == own:
        return (own,)
    return (entry.model, own) if entry.fallback else (entry.model,)


class _Call(msgspec.Struct, frozen=True):
    task: str
    session: Session
    turn_id: str
    provider: Provider
    model: ModelInfo

    points: Passage

    async def tell(self, point: str, **known: Any) -> None:
        await self.points.observe(point, lambda: AuxiliaryCall(self.task, self.model.id, **known))


def _call(task: str, session: Session, turn_id: str, provider: Provider, model: ModelInfo) -> _Call:
    place = PointContext(
        session_id=session.session_id,
        turn_id=turn_id,
        task_id=session.session_id,
        model=model.name,
        provider=model.provider,
        aux_task=task,
    )
    return _Call(task, session, turn_id, provider, model, Passage(session, lambda: place))


async def _announced(call: _Call, request: Request) -> Reply:
    clock = call.session.parts.clock
    await call.tell("pre_auxiliary_call")
    began, reply, problem = clock.monotonic(), None, "cancelled"
    try:
        reply = await _asked(call, request)
        problem = ""
        return reply
    except (ProviderFailure, ExecutionBlocked, MiddlewareError) as failure:
        problem = str(failure)
        raise
    finally:
        took = clock.monotonic() - began
        usage = reply.usage if reply is not None else None
        told = call.session.parts.redact(problem)
        await call.tell("post_auxiliary_call", api_duration=took, error_message=told, usage=usage)


async def _asked(call: _Call, request: Request) -> Reply:
    """llm_request, then llm_execution around each attempt, as with the calls of a turn."""
    made = msgspec.structs.replace(request, model=call.model.name, session_id=call.session.session_id)
    final = await call.points.fold("llm_request", made, lambda before, after: narrowed(made, after))
    attempt = 1
    while True:
        try:
            reply = await call.points.around("llm_execution", final, lambda asked: _streamed(call, final, asked))
            if not isinstance(reply, Reply):
                raise MiddlewareError(f"llm_execution: expected a Reply, got {type(reply).__name__}")
        except ProviderFailure as failure:
            limits = call.session.parts.settings().agent
            plan = next_attempt(failure, attempt, limits, visible=False, rand=random.random())  # noqa: S311
            if plan is None:
                raise
            attempt = plan.attempt
            await call.session.parts.clock.sleep(plan.delay)
            continue
        await _account(call, reply.usage)
        return reply


async def _streamed(call: _Call, final: Request, asked: Request) -> Reply:
    """The reply of one stream; its deltas are for nobody. A link around it may narrow the tools of `final`."""
    kept = narrowed(final, asked)
    request = kept.value if isinstance(kept, Corrected) else kept
    begun = False
    stream = call.provider.stream(request)
    try:
        async for chunk in stream:
            if isinstance(chunk, Reply):
                begun = False
                return chunk
            begun = True
    finally:
        if begun:  # it broke off in the middle of an answer, which is billed all the same
            await _account(call, None)
        await stream.aclose()  # type: ignore[attr-defined]
    name = call.provider.name
    raise ProviderFailure("incomplete", f"{name}: the stream ended without a reply", provider=name, retryable=True)


async def _account(call: _Call, usage: Usage | None) -> None:
    session = call.session
    row = AddUsage(
        session_id=session.session_id,
        model=call.model.id,
        at=session.parts.clock.now(),
        usage=usage,
        task=call.task,
        turn_id=call.turn_id or None,
    )
    owed = () if usage is None else session.owe(usage)
    await session.parts.store.write(row, *owed, durable=False)
