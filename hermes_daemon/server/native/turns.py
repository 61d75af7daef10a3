"""hermes/turn/*, hermes/queue/* and hermes/request/*."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from hermes_daemon.core.records import Op
from hermes_daemon.engine.mailbox import digest, repeat
from hermes_daemon.server.connection import Connection
from hermes_daemon.server.native.sessions import writable
from hermes_protocol.content import By
from hermes_protocol.errors import ProtocolError
from hermes_protocol.methods import (
    AnswerParams,
    AnswerResult,
    InterruptParams,
    InterruptResult,
    QueueParams,
    QueueRemoveParams,
    QueueReorderParams,
    QueueResult,
    QueueUpdateParams,
    RegisterParams,
    RegisterResult,
    RequestListParams,
    RequestListResult,
    SteerParams,
    SteerResult,
    SubmitParams,
    SubmitResult,
)

METHOD: Final = "hermes/request/answer"


async def submit(connection: Connection, params: SubmitParams) -> SubmitResult:
    """Admission only: the turn runs on its own."""
    writable(connection)
    connection.daemon.engine.freshen()
    session = connection.daemon.engine.sessions.get(params.session_id)
    return await session.admission.submit(params, author(connection, params.depth))


async def steer(connection: Connection, params: SteerParams) -> SteerResult:
    """Input for the turn that runs, if it is the one that is named."""
    writable(connection)
    session = connection.daemon.engine.sessions.get(params.session_id)
    return await session.admission.steer(params, author(connection, params.depth))


def author(connection: Connection, depth: int) -> By:
    """Who says something, and how many agents stand behind it."""
    return msgspec.structs.replace(connection.by(), depth=depth)


async def interrupt(connection: Connection, params: InterruptParams) -> InterruptResult:
    """Stop the turn that is meant; a stale id stops nothing."""
    if not connection.controller:
        raise ProtocolError("permission_denied", "this client is an observer: it may look, not change")
    session = connection.daemon.engine.sessions.get(params.session_id)
    return await session.admission.interrupt(params)


async def queue(connection: Connection, params: QueueParams) -> QueueResult:
    """The queued turns."""
    return connection.daemon.engine.sessions.get(params.session_id).admission.queue.result()


async def remove_queued(connection: Connection, params: QueueRemoveParams) -> QueueResult:
    """Take one out."""
    writable(connection)
    admission = connection.daemon.engine.sessions.get(params.session_id).admission
    return await admission.edit("hermes/queue/remove", params, lambda: admission.queue.without(params))


async def update_queued(connection: Connection, params: QueueUpdateParams) -> QueueResult:
    """Another input for one."""
    writable(connection)
    admission = connection.daemon.engine.sessions.get(params.session_id).admission
    return await admission.edit("hermes/queue/update", params, lambda: admission.queue.updated(params))


async def reorder_queue(connection: Connection, params: QueueReorderParams) -> QueueResult:
    """Another order."""
    writable(connection)
    admission = connection.daemon.engine.sessions.get(params.session_id).admission
    return await admission.edit("hermes/queue/reorder", params, lambda: admission.queue.reordered(params))


async def resume_queue(connection: Connection, params: QueueParams) -> QueueResult:
    """Let a paused queue go on."""
    writable(connection)
    connection.daemon.engine.freshen()
    return await connection.daemon.engine.sessions.get(params.session_id).admission.resume(params)


async def requests(connection: Connection, params: RequestListParams) -> RequestListResult:
    """Open questions, of one session or of all."""
    engine = connection.daemon.engine
    if params.session_id is not None:
        return RequestListResult(engine.sessions.get(params.session_id).questions.rows)
    return RequestListResult(tuple(row for session in engine.sessions.live for row in session.questions.rows))


async def answer(connection: Connection, params: AnswerParams) -> AnswerResult:
    """First valid answer wins. The connection must be a controller and subscribed to the session."""
    engine = connection.daemon.engine
    if not connection.controller:
        raise ProtocolError("permission_denied", "this client is an observer: it may not answer")
    scope, request_id = f"request:{params.request_id}", params.request_id
    body = _without_secret(params)
    session = engine.session_of_request(request_id)
    if session is None:
        known = engine.parts.store.receipt(scope, METHOD, params.key) if params.key is not None else None
        if known is not None:
            return repeat(known, digest(body), AnswerResult)
        raise engine.parts.resolved.gone(request_id)
    if session.session_id not in connection.subscriptions:
        raise ProtocolError("not_subscribed", f"subscribe to {session.session_id} before you answer for it")
    questions = session.questions

    async def work(receipt: Callable[[AnswerResult], tuple[Op, ...]]) -> AnswerResult:
        return await questions.answer(request_id, params.answer, connection.id, connection.by(), receipt)

    return await session.mailbox.once(METHOD, body, params.key, AnswerResult, work, scope=scope)


def _without_secret(params: AnswerParams) -> AnswerParams:
    """What the receipt's hash is made of: that a secret was provided, never what it is."""
    if params.answer.value is None:
        return params
    return msgspec.structs.replace(params, answer=msgspec.structs.replace(params.answer, value="provided"))


async def register(connection: Connection, params: RegisterParams) -> RegisterResult:
    """Tools and middleware of this connection for the session, in place of those it offered before."""
    writable(connection)
    session = connection.daemon.engine.sessions.get(params.session_id)
    if session.session_id not in connection.subscriptions:
        raise ProtocolError("not_subscribed", f"subscribe to {session.session_id} before you offer it tools")
    by = connection.by()
    client = by.name or by.client_id
    session.client_middleware.check(params.middleware)
    tools = session.client_tools.register(connection.id, client, params.tools)
    return RegisterResult(tools, session.client_middleware.register(connection.id, client, params.middleware))
