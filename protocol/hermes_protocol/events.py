"""Everything a session can announce: one Struct for each kind of event, and the items that events speak of.

`KINDS` is the table kind -> Struct. The list is closed and additive: a client looks a kind up and treats an unknown
one as news it cannot show.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeAlias

import msgspec

from hermes_protocol.content import By, Deterministic, InputBlock, Usage, Wire
from hermes_protocol.reading import read

# "other" is never sent: it is what a client takes a word of a later version for.
ItemStatus: TypeAlias = Literal["inProgress", "completed", "failed", "partial", "cancelled", "other"]
TurnStatus: TypeAlias = Literal["completed", "interrupted", "failed", "refused", "limit", "lost", "other"]
SessionState: TypeAlias = Literal["idle", "running", "waiting", "compacting", "other"]
RequestKind: TypeAlias = Literal["permission", "clarify", "secret", "form", "clientTool", "clientMiddleware"]
Outcome: TypeAlias = Literal[
    "allow_once",
    "allow_session",
    "allow_always",
    "deny",
    "deny_always",
    "answered",
    "declined",
    "timeout",
    "interrupted",
    "lost",
    "policy",
    "other",
]


# --- items --------------------------------------------------------------------------------------------------------


class BlobRef(Wire, frozen=True):
    """Handle of a big output kept by the daemon; read it with hermes/blob/read."""

    id: str
    bytes: int
    lines: int = 0
    sha256: str = ""
    mime: str = "text/plain; charset=utf-8"


class Output(Wire, frozen=True):
    """A tool's output: `text` whole, or `head` and `tail` around what was left out, with a blob for all of it."""

    text: str | None = None
    head: str | None = None
    tail: str | None = None
    blob: BlobRef | None = None


class Failure(Wire, frozen=True):
    """What went wrong: `kind` is a word from the error table, `message` a sentence, `data` details."""

    kind: str
    message: str
    retryable: bool = False
    data: dict[str, Any] = {}


class Item(Wire, tag_field="type", kw_only=True, frozen=True):
    """What clients show. Fields common to all item types."""

    item_id: str
    status: ItemStatus
    created_at: str
    turn_id: str | None = None
    completed_at: str | None = None


class UserMessage(Item, tag="userMessage", kw_only=True, frozen=True):
    """`blob` is set where `text` was cut to fit the reader's frame: the whole text is read there. So for all three."""

    input: tuple[InputBlock, ...]
    text: str
    by: By | None = None
    blob: BlobRef | None = None


class AgentMessage(Item, tag="agentMessage", kw_only=True, frozen=True):
    """`deterministic` is set where a middleware answered in place of the model."""

    text: str
    model: str
    blob: BlobRef | None = None
    deterministic: Deterministic | None = None


class Reasoning(Item, tag="reasoning", kw_only=True, frozen=True):
    text: str
    model: str
    blob: BlobRef | None = None


class ToolCallItem(Item, tag="toolCall", kw_only=True, frozen=True):
    """`args` is the JSON text of the arguments (redacted); `error` is set for failed, refused or unknown calls."""

    call_id: str
    name: str
    title: str
    args: str
    output: Output | None = None
    exit_code: int | None = None
    error: str | None = None
    duration_ms: int | None = None


class FileChange(Item, tag="fileChange", kw_only=True, frozen=True):
    path: str
    kind: Literal["created", "modified", "deleted"]
    diff: str = ""
    added: int = 0
    removed: int = 0


class PlanEntry(Wire, frozen=True):
    content: str
    status: Literal["pending", "in_progress", "completed", "cancelled"] = "pending"


class Plan(Item, tag="plan", kw_only=True, frozen=True):
    entries: tuple[PlanEntry, ...] = ()


class Subagent(Item, tag="subagent", kw_only=True, frozen=True):
    child_session_id: str
    goal: str
    summary: str | None = None


class Compaction(Item, tag="compaction", kw_only=True, frozen=True):
    trigger: str
    before: int
    after: int
    summary: str | None = None


class NoticeItem(Item, tag="notice", kw_only=True, frozen=True):
    level: Literal["info", "warning", "error"]
    code: str
    text: str


AnyItem: TypeAlias = (
    UserMessage | AgentMessage | Reasoning | ToolCallItem | FileChange | Plan | Subagent | Compaction | NoticeItem
)


# --- rows that appear in snapshots and answers ----------------------------------------------------------------------


class SessionSummary(Wire, frozen=True):
    """One row of a session list. `rev` grows with every option, rename and rewind."""

    session_id: str
    title: str
    cwd: str
    model: str
    state: SessionState
    created_at: str
    updated_at: str
    rev: int
    usage: Usage
    occupancy_pct: float | None = None
    open_requests: int = 0
    clients: int = 0
    archived: bool = False
    parent: str | None = None
    snippet: str | None = None


class TurnOptions(Wire, frozen=True):
    """For one turn only; session options stand where a field is absent."""

    model: str | None = None
    max_rounds: int | None = None
    tools: tuple[str, ...] | None = None


class QueueEntry(Wire, frozen=True):
    queue_id: str
    turn_id: str
    input: tuple[InputBlock, ...]
    by: By
    kind: Literal["turn", "steer"] = "turn"
    created_at: str = ""
    options: TurnOptions = TurnOptions()


class PermissionOption(Wire, frozen=True):
    id: str
    kind: Literal["allow_once", "allow_session", "allow_always", "deny", "deny_always"]
    label: str


class ToolCallAsk(Wire, frozen=True):
    """The call a permission is asked for, with its final arguments (redacted)."""

    id: str
    name: str
    title: str
    args: str
    redacted: bool = False
    risk: str = ""


class Question(Wire, frozen=True):
    id: str
    text: str
    choices: tuple[str, ...] = ()
    multi: bool = False
    free_text: bool = True


class ClarifyAnswer(Wire, frozen=True):
    """The answer to one question: one of its choices, several where it is `multi`, free text, or none of it."""

    choice: str | None = None
    choices: tuple[str, ...] | None = None
    text: str | None = None
    skip: bool = False


class QuestionStatus(Wire, frozen=True):
    """How far one question of a clarify request is; in snapshots for those that come later."""

    id: str
    status: Literal["open", "answered", "skipped", "timed_out"] = "open"
    answer: ClarifyAnswer | None = None
    by: By | None = None


# --- event payloads -------------------------------------------------------------------------------------------------


class EventData(Wire, frozen=True):
    """Base of the `data` of hermes/event. `KIND` is the literal name on the wire. `FEATURE` is set for an experimental
    kind: only clients get it that name the feature in capabilities.experimental."""

    KIND: ClassVar[str] = ""
    FEATURE: ClassVar[str] = ""


class SessionCreated(EventData, frozen=True):
    KIND: ClassVar[str] = "session.created"
    session: SessionSummary


class SessionUpdated(EventData, frozen=True):
    KIND: ClassVar[str] = "session.updated"
    session: SessionSummary


class SessionOption(EventData, frozen=True):
    KIND: ClassVar[str] = "session.option"
    id: str
    value: Any
    by: By | None = None


class SessionError(EventData, frozen=True):
    KIND: ClassVar[str] = "session.error"
    error: Failure


class CompactionStarted(EventData, frozen=True):
    KIND: ClassVar[str] = "session.compaction.started"
    compaction_id: str
    trigger: str


class CompactionDelta(EventData, frozen=True):
    KIND: ClassVar[str] = "session.compaction.delta"
    compaction_id: str
    text: str


class CompactionEnded(EventData, frozen=True):
    KIND: ClassVar[str] = "session.compaction.ended"
    compaction_id: str
    before: int
    after: int
    error: Failure | None = None


class SessionRewound(EventData, frozen=True):
    """What stood behind `lastItemId` is gone, `removed` items; without it everything. `toItemId` is what was asked
    for: the same item, or the user message behind it."""

    KIND: ClassVar[str] = "session.rewound"
    to_item_id: str
    removed: int
    rev: int
    last_item_id: str | None = None


class SessionDeleted(EventData, frozen=True):
    """The last event of a session. It is in no journal: that went with the session."""

    KIND: ClassVar[str] = "session.deleted"
    by: By | None = None


class TurnQueued(EventData, frozen=True):
    KIND: ClassVar[str] = "turn.queued"
    turn_id: str
    queue_id: str
    position: int


class TurnStarted(EventData, frozen=True):
    KIND: ClassVar[str] = "turn.started"
    turn_id: str
    input: tuple[InputBlock, ...]
    by: By
    model: str = ""


class TurnSteered(EventData, frozen=True):
    KIND: ClassVar[str] = "turn.steered"
    turn_id: str
    queue_id: str
    item_id: str


class TurnSteerRequeued(EventData, frozen=True):
    KIND: ClassVar[str] = "turn.steerRequeued"
    turn_id: str
    queue_id: str
    new_turn_id: str


class TurnRetrying(EventData, frozen=True):
    """A model call failed and is made again. `model` is set when another model is asked, for the rest of the turn."""

    KIND: ClassVar[str] = "turn.retrying"
    attempt: int
    delay_ms: int
    error: Failure
    model: str = ""


class TurnCount(Wire, frozen=True):
    """Rounds answered by a model and by middleware without one."""

    model: int = 0
    deterministic: int = 0


class TurnEnded(EventData, frozen=True):
    """Exactly one per turn.started. `stop` says why a completed or limited turn stopped. `usage` is not there where no
    model was asked: middleware answered every round."""

    KIND: ClassVar[str] = "turn.ended"
    status: TurnStatus
    stop: str = ""
    usage: Usage | msgspec.UnsetType = Usage()
    error: Failure | None = None
    forced: bool = False
    dropped: tuple[str, ...] = ()
    turns: TurnCount = TurnCount()


class QueueChanged(EventData, frozen=True):
    KIND: ClassVar[str] = "queue.changed"
    queue: tuple[QueueEntry, ...]
    queue_rev: int
    paused: bool = False


class ItemStarted(EventData, frozen=True):
    KIND: ClassVar[str] = "item.started"
    item: AnyItem


class ItemDelta(EventData, frozen=True):
    """`offset` counts code points already sent for `field`; provisional until item.completed."""

    KIND: ClassVar[str] = "item.delta"
    field: str
    text: str
    offset: int


class ItemProgress(EventData, frozen=True):
    KIND: ClassVar[str] = "item.progress"
    text: str = ""
    bytes: int | None = None


class ItemCompleted(EventData, frozen=True):
    KIND: ClassVar[str] = "item.completed"
    item: AnyItem


class ItemDiscarded(EventData, frozen=True):
    KIND: ClassVar[str] = "item.discarded"
    reason: str = ""


class RequestOpened(EventData, frozen=True):
    """A question; the same row stands in snapshots and hermes/request/list. By kind: permission {toolCall, options,
    reason}; clarify {questions, answered}; secret {prompt, name}; form {prompt, schema}; clientTool {callId, name,
    args, connectionId}; clientMiddleware {point, payload, connectionId}."""

    KIND: ClassVar[str] = "request.opened"
    request_id: str
    session_id: str
    kind: RequestKind
    turn_id: str | None = None
    item_id: str | None = None
    tool_call: ToolCallAsk | None = None
    options: tuple[PermissionOption, ...] = ()
    reason: str = ""
    questions: tuple[Question, ...] = ()
    prompt: str | None = None
    name: str | None = None
    form_schema: dict[str, Any] | None = msgspec.field(default=None, name="schema")
    answered: tuple[QuestionStatus, ...] = ()
    call_id: str | None = None
    args: str | None = None
    connection_id: str | None = None
    point: str | None = None
    payload: Any = None
    timeout_ms: int | None = None
    remaining_ms: int | None = None
    running: bool = False
    opened_at: str = ""


class RequestSeen(EventData, frozen=True):
    KIND: ClassVar[str] = "request.seen"
    request_id: str
    by: By | None = None


class RequestClock(EventData, frozen=True):
    KIND: ClassVar[str] = "request.clock"
    request_id: str
    running: bool
    remaining_ms: int


class RequestAnswered(EventData, frozen=True):
    KIND: ClassVar[str] = "request.answered"
    request_id: str
    question_id: str
    status: Literal["answered", "skipped", "timed_out"]
    by: By | None = None
    answer: ClarifyAnswer | None = None


class RequestResolved(EventData, frozen=True):
    """The end of a question. `value` is "provided" for a secret that was given; the value itself is in no event."""

    KIND: ClassVar[str] = "request.resolved"
    request_id: str
    outcome: Outcome
    by: By | None = None
    at: str = ""
    feedback: str | None = None
    value: str | None = None


class Notice(EventData, frozen=True):
    KIND: ClassVar[str] = "notice"
    level: Literal["info", "warning", "error"]
    text: str
    code: str


KINDS: dict[str, type[EventData]] = {
    struct.KIND: struct
    for struct in (
        SessionCreated,
        SessionUpdated,
        SessionOption,
        CompactionStarted,
        CompactionDelta,
        CompactionEnded,
        SessionRewound,
        SessionDeleted,
        SessionError,
        TurnQueued,
        TurnStarted,
        TurnSteered,
        TurnSteerRequeued,
        TurnRetrying,
        TurnEnded,
        QueueChanged,
        ItemStarted,
        ItemDelta,
        ItemProgress,
        ItemCompleted,
        ItemDiscarded,
        RequestOpened,
        RequestSeen,
        RequestClock,
        RequestAnswered,
        RequestResolved,
        Notice,
    )
}

_DECODERS = {kind: msgspec.json.Decoder(struct) for kind, struct in KINDS.items()}


class Event(Wire, frozen=True):
    """Params of hermes/event as a client receives them. `data` stays undecoded until its kind is looked up."""

    session_id: str
    epoch: str
    seq: int
    prev: int
    ts: str
    kind: str
    data: msgspec.Raw
    turn_id: str | None = None
    item_id: str | None = None

    def payload(self) -> EventData | None:
        """The typed data, or None for a kind this version does not know."""
        decoder = _DECODERS.get(self.kind)
        return None if decoder is None else read(self.data, decoder)
