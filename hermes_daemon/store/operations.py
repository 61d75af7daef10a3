"""Which function performs which operation."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from typing import Any

from hermes_daemon.core import records
from hermes_daemon.core.records import Op
from hermes_daemon.store import blobs, branches, journal, ledger, messages, sessions, spending
from hermes_daemon.store.search import SearchIndex

_PLAIN: dict[type, Callable[[sqlite3.Connection, Any], None]] = {
    records.AddEvents: journal.add_events,
    records.AddMessage: messages.add_message,
    records.RaiseCeiling: sessions.raise_ceiling,
    records.PutTurn: ledger.put_turn,
    records.PutQueue: ledger.put_queue,
    records.PutReceipt: ledger.put_receipt,
    records.PutRequest: ledger.put_request,
    records.CloseRequest: ledger.close_request,
    records.PutProcess: ledger.put_process,
    records.DropProcess: ledger.drop_process,
    records.PutGrant: ledger.put_grant,
    records.PutBlob: blobs.put_blob,
    records.AddUsage: spending.add_usage,
}
_SEARCHABLE: dict[type, Callable[[sqlite3.Connection, Any, SearchIndex], None]] = {
    records.PutSession: sessions.put_session,
    records.DeleteSession: sessions.delete_session,
    records.CopySession: branches.copy_session,
    records.TruncateSession: branches.truncate_session,
    records.PutItem: messages.put_item,
    records.DropItem: messages.drop_item,
}


def apply(connection: sqlite3.Connection, ops: Iterable[Op], index: SearchIndex) -> None:
    """Perform the operations in order, inside the transaction that is open."""
    for op in ops:
        plain = _PLAIN.get(type(op))
        if plain is not None:
            plain(connection, op)
        else:
            _SEARCHABLE[type(op)](connection, op, index)
