"""What changes a session comes in one after the other, and each thing once (decisions 9).

A receipt stands in the transaction of its effect: a request that is repeated finds its first answer, or nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

import msgspec

from hermes_daemon.core.ports import Clock, Store
from hermes_daemon.core.records import Op, PutReceipt, ReceiptRow
from hermes_protocol.errors import ProtocolError

R = TypeVar("R", bound=msgspec.Struct)
V = TypeVar("V")
MAILBOX: Final = 1024
PATIENCE: Final = 2.0
"""Seconds a request waits for a disk that cannot be written; a lock of another process is waited for longer."""


class Mailbox:
    """The lock of one session, and the receipts of what was done under it. `scope` is the session's id."""

    def __init__(self, scope: str, store: Store, clock: Clock) -> None:
        self.lock = asyncio.Lock()
        self.deleted = False
        self._scope = scope
        self._store = store
        self._clock = clock
        self._waiting = 0

    async def once(self, method: str, params: msgspec.Struct, key: str | None, result: type[R],
                   work: Callable[[Callable[[R], tuple[Op, ...]]], Coroutine[Any, Any, R]],
                   scope: str | None = None) -> R:  # fmt: skip
        """Do `work` once for this key. A repeat gets the first result with `duplicate` set where the result has it.

        `work` gets a function that turns its result into the receipt op, to be written with the effect.
        `scope` is whose keys they are, when not the session's.
        """
        owner = self._scope if scope is None else scope

        async def admitted() -> R:
            if key is None:
                return await work(lambda _: ())
            body = digest(params)
            known = self._store.receipt(owner, method, key)
            if known is not None:
                return repeat(known, body, result)
            at = self._clock.now()
            return await work(lambda value: (receipt_op(owner, method, key, body, value, at),))

        return await self.exclusively(admitted)

    async def exclusively(self, work: Callable[[], Coroutine[Any, Any, V]]) -> V:
        """Do `work` alone on this session. Cancelling the caller stops the waiting, never the work once begun."""
        if self._waiting >= MAILBOX:
            text = f"{MAILBOX} requests wait for session {self._scope}"
            raise ProtocolError("overloaded", text, scope="session", retryAfterMs=200)
        self._waiting += 1
        try:
            await self.lock.acquire()
        finally:
            self._waiting -= 1
        if self.deleted:
            self.lock.release()
            raise ProtocolError("session_deleted", f"session {self._scope} was deleted")
        task = asyncio.create_task(work())
        task.add_done_callback(self._released)
        return await asyncio.shield(task)

    def _released(self, task: asyncio.Task[Any]) -> None:
        self.lock.release()
        if not task.cancelled():
            task.exception()  # the caller may be gone; it is not an unhandled one


def digest(params: msgspec.Struct) -> str:
    """Hash of the canonical params without the key: two requests with one key must ask for the same."""
    fields = msgspec.to_builtins(params)
    fields.pop("key", None)
    return hashlib.sha256(msgspec.json.encode(fields, order="sorted")).hexdigest()


def receipt_op(scope: str, method: str, key: str, body: str, value: msgspec.Struct, at: str) -> PutReceipt:
    """The op that remembers what was answered."""
    row = ReceiptRow(scope=scope, method=method, key=key, body=body, receipt=msgspec.json.encode(value), at=at)
    return PutReceipt(row=row)


def repeat(known: ReceiptRow, body: str, result: type[R]) -> R:
    """The first answer again; idempotency_conflict when the request is not the same."""
    if known.body != body:
        raise ProtocolError(
            "idempotency_conflict",
            f"the key {known.key!r} was used for another request",
            receipt=msgspec.json.decode(known.receipt),
        )
    value = msgspec.json.decode(known.receipt, type=result)
    return msgspec.structs.replace(value, duplicate=True) if "duplicate" in result.__struct_fields__ else value
