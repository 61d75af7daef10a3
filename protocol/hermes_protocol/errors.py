"""Error codes and kinds: one table (protocol section 10). The kind is normative, the number is for JSON-RPC."""

from __future__ import annotations

from typing import Any

from hermes_protocol.content import Wire

CODES: dict[str, int] = {
    "parse": -32700,
    "invalid_request": -32600,
    "method_not_found": -32601,
    "invalid_params": -32602,
    "internal": -32603,
    "not_initialized": -32002,
    "cancelled": -32800,
    "stale_revision": -32801,
    "server_cancelled": -32802,
    "failed": -32803,
    "session_not_found": -32040,
    "session_deleted": -32041,
    "item_not_found": -32042,
    "blob_not_found": -32042,
    "queue_not_found": -32042,
    "request_not_found": -32042,
    "not_subscribed": -32043,
    "turn_in_progress": -32044,
    "turn_mismatch": -32045,
    "already_resolved": -32046,
    "idempotency_conflict": -32047,
    "permission_denied": -32048,
    "experimental_required": -32049,
    "overloaded": -32050,
    "draining": -32051,
    "auth_required": -32052,
    "auth_failed": -32052,
    "provider_error": -32053,
    "replay_truncated": -32054,
    "too_large": -32055,
    "version_unsupported": -32056,
    "storage_error": -32057,
}

RETRYABLE = frozenset({"overloaded", "draining", "storage_error", "server_cancelled", "internal"})


class ErrorObject(Wire, frozen=True):
    """The `error` of a JSON-RPC answer. `data.kind` and `data.retryable` are always there."""

    code: int
    message: str
    data: dict[str, Any] = {}


class ProtocolError(Exception):
    """An answer that is an error: `kind` from CODES, a sentence, and details for `data`."""

    def __init__(self, kind: str, message: str, **data: Any) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.data = data

    def as_object(self) -> ErrorObject:
        """The wire form."""
        data = {"kind": self.kind, "retryable": self.kind in RETRYABLE, **self.data}
        return ErrorObject(CODES[self.kind], self.message, data)
