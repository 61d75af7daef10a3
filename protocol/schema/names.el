;;; names.el --- names and codes of the hermes protocol  -*- lexical-binding: t; -*-

;; Generated from hermes_protocol by `make gen`.

;;; Code:

(defconst hermes-names-version "1.0" "The protocol's version.")

(defconst hermes-names-methods
  '("hermes/auth/list"
    "hermes/auth/set"
    "hermes/auth/test"
    "hermes/blob/create"
    "hermes/blob/read"
    "hermes/command/list"
    "hermes/command/run"
    "hermes/config/get"
    "hermes/config/set"
    "hermes/daemon/logs"
    "hermes/daemon/metrics"
    "hermes/daemon/ping"
    "hermes/daemon/reload"
    "hermes/daemon/shutdown"
    "hermes/daemon/status"
    "hermes/hook/allow"
    "hermes/hook/list"
    "hermes/middleware/list"
    "hermes/models/list"
    "hermes/plugin/doctor"
    "hermes/plugin/list"
    "hermes/queue/list"
    "hermes/queue/remove"
    "hermes/queue/reorder"
    "hermes/queue/resume"
    "hermes/queue/update"
    "hermes/request/answer"
    "hermes/request/list"
    "hermes/schema/get"
    "hermes/session/archive"
    "hermes/session/create"
    "hermes/session/delete"
    "hermes/session/events"
    "hermes/session/fork"
    "hermes/session/get"
    "hermes/session/items"
    "hermes/session/list"
    "hermes/session/register"
    "hermes/session/rename"
    "hermes/session/rewind"
    "hermes/session/search"
    "hermes/session/setOption"
    "hermes/session/subscribe"
    "hermes/session/unsubscribe"
    "hermes/session/wait"
    "hermes/tool/list"
    "hermes/turn/interrupt"
    "hermes/turn/steer"
    "hermes/turn/submit"
    "hermes/usage/get"
    "initialize"
    "shutdown")
  "Every request of a client.")

(defconst hermes-names-kinds
  '("item.completed"
    "item.delta"
    "item.discarded"
    "item.progress"
    "item.started"
    "notice"
    "queue.changed"
    "request.answered"
    "request.clock"
    "request.opened"
    "request.resolved"
    "request.seen"
    "session.compaction.delta"
    "session.compaction.ended"
    "session.compaction.started"
    "session.created"
    "session.deleted"
    "session.error"
    "session.option"
    "session.rewound"
    "session.updated"
    "turn.ended"
    "turn.queued"
    "turn.retrying"
    "turn.started"
    "turn.steerRequeued"
    "turn.steered")
  "Every kind of hermes/event.")

(defconst hermes-names-codes
  '((parse . -32700)
    (invalid_request . -32600)
    (method_not_found . -32601)
    (invalid_params . -32602)
    (internal . -32603)
    (not_initialized . -32002)
    (cancelled . -32800)
    (stale_revision . -32801)
    (server_cancelled . -32802)
    (failed . -32803)
    (session_not_found . -32040)
    (session_deleted . -32041)
    (item_not_found . -32042)
    (blob_not_found . -32042)
    (queue_not_found . -32042)
    (request_not_found . -32042)
    (not_subscribed . -32043)
    (turn_in_progress . -32044)
    (turn_mismatch . -32045)
    (already_resolved . -32046)
    (idempotency_conflict . -32047)
    (permission_denied . -32048)
    (experimental_required . -32049)
    (overloaded . -32050)
    (draining . -32051)
    (auth_required . -32052)
    (auth_failed . -32052)
    (provider_error . -32053)
    (replay_truncated . -32054)
    (too_large . -32055)
    (version_unsupported . -32056)
    (storage_error . -32057))
  "The kinds of errors and their codes.")

(provide 'hermes-names)
;;; names.el ends here
