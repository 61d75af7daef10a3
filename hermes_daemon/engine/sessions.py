"""All sessions: made, found, listed, deleted, and repaired after a crash."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from typing import Any, Final

import msgspec

from hermes_daemon.core.ports import StorageError
from hermes_daemon.core.records import DeleteSession, Op, PutSession, RaiseCeiling, SessionRow, TurnRow
from hermes_daemon.engine import branch, recovery
from hermes_daemon.engine.emitted import Draft
from hermes_daemon.engine.feed import LEASE
from hermes_daemon.engine.identity import new_id
from hermes_daemon.engine.mailbox import PATIENCE, digest, receipt_op, repeat
from hermes_daemon.engine.parts import Parts
from hermes_daemon.engine.resolved import Ending
from hermes_daemon.engine.session import Session
from hermes_daemon.engine.session_row import expect_effort, expect_policy, forked, summary_of
from hermes_daemon.middleware.payloads import SessionPhase
from hermes_daemon.middleware.styles import MiddlewareError
from hermes_protocol.content import By
from hermes_protocol.errors import ProtocolError
from hermes_protocol.events import RequestOpened, SessionCreated, SessionDeleted, SessionSummary
from hermes_protocol.methods import (
    CreateParams,
    CreateResult,
    DeleteParams,
    Empty,
    ForkParams,
    GetResult,
    InterruptParams,
    ListParams,
    ListResult,
    RenameParams,
)

FORKED_AT: Final = 2
log = logging.getLogger(__name__)
DELETE = "hermes/session/delete"


class Sessions:
    """The sessions of a daemon. `changed` is told of each whose summary changed, and whether it was deleted."""

    def __init__(self, parts: Parts, changed: Callable[[SessionSummary, bool], None]) -> None:
        self.parts = parts
        self._live: dict[str, Session] = {}
        self._creating: dict[tuple[str, str], asyncio.Future[CreateResult]] = {}
        self._changed = changed

    @property
    def live(self) -> list[Session]:
        """Sessions in memory."""
        return list(self._live.values())

    # --- start ---

    async def recover(self) -> None:
        """Close what a killed daemon left open. Call once, before anything is served. StorageError when that cannot
        be written: then nothing may be served, and a later start does it."""
        store = self.parts.store
        turns: dict[str, list[TurnRow]] = {}
        for turn in store.open_turns():
            turns.setdefault(turn.session_id, []).append(turn)
        requests: dict[str, list[RequestOpened]] = {}
        for row in store.open_requests():
            requests.setdefault(row.request.session_id, []).append(row.request)
        pause = self.parts.settings().daemon.queue_after_restart == "pause"
        queued = store.queued_sessions()
        for session_id in dict.fromkeys((*turns, *requests, *queued)):
            open_turns = turns.get(session_id, [])
            plan = recovery.plan(
                store, self.parts.clock, session_id, open_turns, requests.get(session_id, []), pause_queue=pause
            )
            if plan is not None:
                session = self.get(session_id)
                await session.feed.commit(plan.drafts, plan.ops, patience=PATIENCE)
                self._live.pop(session_id)
                for request in requests.get(session_id, []):
                    self.parts.resolved.add(request.request_id, Ending(session_id, "lost"))
        for session_id in queued:
            queue = store.queue(session_id)
            if queue is not None and not queue.paused:
                self.get(session_id).admission.start_soon()

    # --- finding ---

    def get(self, session_id: str) -> Session:
        """The live session, loaded when it is not in memory. Raises session_not_found, session_deleted."""
        session = self._live.get(session_id)
        if session is not None:
            return session
        row = self.parts.store.session(session_id)
        if row is None:
            raise ProtocolError("session_not_found", f"no session {session_id}")
        if row.deleted_at is not None:
            raise ProtocolError("session_deleted", f"session {session_id} was deleted at {row.deleted_at}")
        _, newest = self.parts.store.event_range(session_id)
        session = Session(
            row, self.parts, head=newest, queue=self.parts.store.queue(session_id), changed=self._session_changed
        )
        self._live[session_id] = session
        return session

    def describe(self, session: Session) -> GetResult:
        """What hermes/session/get answers."""
        return session.describe()

    def list(self, params: ListParams) -> ListResult:
        """A page of summaries, newest first: of archived sessions when asked for, else of the others.

        Live state stands in for what is stored.
        """
        try:
            page = self.parts.store.sessions(
                limit=max(1, min(params.limit, 1000)),
                cursor=params.cursor,
                cwd=params.cwd,
                query=params.query,
                archived=bool(params.archived),
            )
        except ValueError as error:
            raise ProtocolError("invalid_params", f"$.cursor: {error}", path="$.cursor") from error
        default = self.parts.models.default()
        rows = []
        for row in page.rows:
            live = self._live.get(row.session_id)
            rows.append(live.summary() if live is not None else summary_of(row, default))
        return ListResult(tuple(rows), page.next_cursor)

    # --- making and ending ---

    async def create(self, params: CreateParams, by: By) -> CreateResult:
        """Make a session. It is durable before this returns; the key (with the client's id) makes it once."""
        scope = f"client:{by.client_id}"
        body = digest(params)
        if params.key is not None:
            while (first := self._creating.get((scope, params.key))) is not None:
                await asyncio.wait([first])  # when it fails, one of those who wait tries, and the others wait for that
            known = self.parts.store.receipt(scope, "hermes/session/create", params.key)
            if known is not None:
                return repeat(known, body, CreateResult)
        self._check(params)
        making = asyncio.ensure_future(self._make(params, scope, body))
        making.add_done_callback(_seen)
        if params.key is not None:
            self._creating[scope, params.key] = making
            making.add_done_callback(lambda _: self._creating.pop((scope, params.key or ""), None))
        return await asyncio.shield(making)

    async def _make(self, params: CreateParams, scope: str, body: str) -> CreateResult:
        row = self._new_row(params)
        session = self._unborn(row)
        result = CreateResult(session.summary(), 1, row.epoch)
        ops: list[Op] = [PutSession(row=row), RaiseCeiling(session_id=row.session_id, ceiling=LEASE)]
        if params.key is not None:
            ops.append(receipt_op(scope, "hermes/session/create", params.key, body, result, row.created_at))
        created = [Draft(SessionCreated(session.summary()))]
        await session.feed.commit(created, ops, patience=PATIENCE)
        self._live[row.session_id] = session
        self._session_changed(session)
        return result

    def _new_row(self, params: CreateParams) -> SessionRow:
        now = self.parts.clock.now()
        options = params.options
        if params.model is not None:
            options = msgspec.structs.replace(options, model=params.model)
        return SessionRow(
            session_id=new_id("s"),
            epoch=new_id("e"),
            cwd=os.path.normpath(params.cwd),
            created_at=now,
            updated_at=now,
            title=params.title,
            model=options.model or "",
            options=options,
            env=params.env,
            parent=params.parent,
            ceiling=LEASE,
        )

    def _check(self, params: CreateParams) -> None:
        if not os.path.isabs(params.cwd):
            raise ProtocolError("invalid_params", f"$.cwd: expected an absolute path, got {params.cwd!r}", path="$.cwd")
        if not os.path.isdir(params.cwd):
            raise ProtocolError("invalid_params", f"$.cwd: {params.cwd} is not a directory", path="$.cwd")
        expect_policy(params.options.unattended, self.parts.settings(), "$.options.unattended")
        model = params.model or params.options.model
        if model is not None:
            self.parts.models.resolve(model)
        expect_effort(self.parts.models, msgspec.structs.replace(params.options, model=model), "$.options.thinking")

    async def fork(self, params: ForkParams) -> CreateResult:
        """A new session with what this one has up to an item. It is durable before this returns.

        It begins with usage 0 (what was spent was spent by its parent), without a queue and without the permissions
        that were given for the parent's life. Its journal begins at number 2: what came before is in no event, so
        that a cursor 0 is answered by a snapshot.
        """
        parent = self.get(params.session_id)

        async def work(receipt: Callable[[CreateResult], tuple[Op, ...]]) -> CreateResult:
            row = forked(parent.row, params.title, self.parts.clock.now())
            copy = branch.copy_of(parent, params.at_item_id, row)
            session = self._unborn(row, begun_at=FORKED_AT - 1)
            result = CreateResult(session.summary(), FORKED_AT, row.epoch)
            await session.feed.commit(
                [Draft(SessionCreated(session.summary()))], [copy, *receipt(result)], patience=PATIENCE
            )
            self._live[row.session_id] = session
            self._session_changed(session)
            return result

        return await parent.mailbox.once("hermes/session/fork", params, params.key, CreateResult, work)

    def _unborn(self, row: SessionRow, begun_at: int = 0) -> Session:
        """A session whose row and first lease are written with its first event, number `begun_at` + 1."""
        fresh = msgspec.structs.replace(row, ceiling=begun_at)
        session = Session(fresh, self.parts, head=begun_at, queue=None, changed=self._session_changed)
        session.row = row
        session.feed.adopt_lease(LEASE)
        return session

    async def rename(self, params: RenameParams) -> GetResult:
        """Give a session another title."""
        return await self.get(params.session_id).rename(params)

    async def delete(self, params: DeleteParams, by: By) -> Empty:
        """End the session's turn, leave a tombstone and tell the subscribers; the id is never given out again."""
        if self._was_deleted_by(params):
            return Empty()
        burial = asyncio.ensure_future(self._bury(self.get(params.session_id), params, by))
        burial.add_done_callback(_seen)
        return await asyncio.shield(burial)

    async def _bury(self, session: Session, params: DeleteParams, by: By) -> Empty:
        """Delete it, whether or not somebody still waits for that: half deleted it would take no turn any more."""
        session.admission.closing = True
        runner = session.runner
        if runner is not None:
            await session.admission.interrupt(InterruptParams(params.session_id, runner.turn_id))
            await runner.wait()

        async def buried() -> None:
            at = self.parts.clock.now()
            ops: list[Op] = [DeleteSession(session_id=session.session_id, at=at)]
            if params.key is not None:
                ops.append(receipt_op(session.session_id, DELETE, params.key, digest(params), Empty(), at))
            await self.parts.store.write(*ops, patience=PATIENCE)
            session.mailbox.deleted = True

        try:
            await session.mailbox.exclusively(buried)
        except StorageError:
            session.admission.closing = False
            session.admission.start_soon()
            raise
        except ProtocolError:
            if self._was_deleted_by(params):  # the same request came first
                return Empty()
            raise
        self._live.pop(session.session_id, None)
        session.feed.farewell(SessionDeleted(by))
        failed = await _shut_down(session, "deleted")
        await session.points.observe("on_session_finalize", lambda: SessionPhase(session.session_id, reason="deleted"))
        for connection_id in list(session.subscribers):
            session.detach(connection_id)
        self._changed(session.summary(), True)
        if failed is not None:  # it is gone all the same
            raise ProtocolError("failed", self.parts.redact(str(failed)))
        return Empty()

    def _was_deleted_by(self, params: DeleteParams) -> bool:
        """True when this very request deleted the session before. idempotency_conflict as everywhere."""
        if params.key is None:
            return False
        known = self.parts.store.receipt(params.session_id, DELETE, params.key)
        return known is not None and repeat(known, digest(params), Empty) == Empty()

    # --- stopping ---

    async def interrupt_all(self, reason: str, limit_s: float) -> None:
        """Stop every turn and wait until each has ended, at most so long: on a full disk no end can be written, and
        the next start ends as lost what stays open here."""
        stops = [asyncio.ensure_future(session.admission.close(reason)) for session in self.live]
        if stops:
            ended, late = await asyncio.wait(stops, timeout=limit_s)
            for stop in late:
                log.warning("a turn did not end within %.0f s: %s", limit_s, self.parts.store.health)
                stop.cancel()
            for stop in ended:
                if (error := stop.exception()) is not None:
                    log.error("a session could not be closed: %s", error, exc_info=error)
        for session in self.live:
            await _shut_down(session, "stopped")

    async def evict(self) -> None:
        """Forget sessions that nobody watches and that do nothing; the store has them."""
        for session_id, session in list(self._live.items()):
            if (
                not session.subscribers
                and not session.busy
                and not session.beside
                and not session.admission.queue
                and not session.mailbox.lock.locked()
            ):
                del self._live[session_id]
                await _shut_down(session, "evicted")

    def _session_changed(self, session: Session) -> None:
        self._changed(session.summary(), False)


async def _shut_down(session: Session, reason: str) -> MiddlewareError | None:
    """The failure of a middleware that may stop it; the session ends all the same."""
    try:
        await session.shut_down(reason)
    except MiddlewareError as error:
        log.warning("session %s: %s", session.session_id, session.parts.redact(str(error)))
        return error
    return None


def _seen(making: asyncio.Future[Any]) -> None:
    if not making.cancelled():
        making.exception()  # whoever asked for it may be gone
