"""hermes/turn/*, hermes/queue/* and hermes/request/*."""

from __future__ import annotations

from collections.abc import Callable

from hermes_daemon.core.records import Op
from hermes_daemon.server.connection import Connection
from hermes_daemon.server.native.sessions import writable
from hermes_protocol.errors import ProtocolError
from hermes_protocol.methods import (
    AnswerParams,
    AnswerResult,
    InterruptParams,
    InterruptResult,
    QueueParams,
    QueueRemoveParams,
    QueueResult,
    RequestListParams,
    RequestListResult,
    SubmitParams,
    SubmitResult,
)


async def submit(connection: Connection, params: SubmitParams) -> SubmitResult:
    """Admission only: the turn runs on its own."""
    writable(connection)
    connection.daemon.engine.freshen()
    session = connection.daemon.engine.sessions.get(params.session_id)
    return await session.admission.submit(params, connection.by())


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
    session = connection.daemon.engine.sessions.get(params.session_id)
    return await session.admission.remove(params)


async def resume_queue(connection: Connection, params: QueueParams) -> QueueResult:
    """Let a paused queue go on."""
    writable(connection)
    connection.daemon.engine.freshen()
    return await connection.daemon.engine.sessions.get(params.session_id).admission.resume()


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
    session = engine.session_of_request(params.request_id)
    if session.session_id not in connection.subscriptions:
        raise ProtocolError("not_subscribed", f"subscribe to {session.session_id} before you answer for it")

    async def work(receipt: Callable[[AnswerResult], tuple[Op, ...]]) -> AnswerResult:
        seq, outcome = await session.questions.answer(
            params.request_id,
            params.answer,
            connection.id,
            connection.by(),
            lambda seq, outcome: receipt(AnswerResult("accepted", seq, outcome)),
        )
        return AnswerResult("accepted", seq, outcome)

    return await session.mailbox.once("hermes/request/answer", params, params.key, AnswerResult, work)
