"""What links are given at each point: one Struct a payload, its fields named as hooks know them.

Fields in HIDDEN are for plain links; hooks by keywords get the others.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec

from hermes_daemon.core.ports import Reply, Request, ToolOutcome
from hermes_protocol.content import Message, Usage


class PointContext(msgspec.Struct, frozen=True):
    """Where the work is. `turn_id` is the user's turn, `round` counts model calls in it from 1; `aux_task` names an
    auxiliary call (compression, title, judge). `middleware_trace` says who changed the payload so far, `original` is
    the payload before the first change."""

    session_id: str = ""
    turn_id: str = ""
    round: int = 0
    tool_call_id: str = ""
    api_request_id: str = ""
    model: str = ""
    provider: str = ""
    base_url: str = ""
    api_mode: str = ""
    platform: str = ""
    task_id: str = ""
    aux_task: str = ""
    middleware_trace: tuple[dict[str, str], ...] = ()
    original: Any = None


class Payload(msgspec.Struct, frozen=True):
    """Base of the payloads."""

    HIDDEN: ClassVar[frozenset[str]] = frozenset()


class Operation(Payload, frozen=True):
    """What tool middleware sees and may change: the tool's name and its arguments."""

    HIDDEN: ClassVar[frozenset[str]] = frozenset({"name", "call_id"})
    call_id: str
    name: str
    args: dict[str, Any]

    @property
    def tool_name(self) -> str:
        """The name hooks know it by."""
        return self.name


ToolStatus = Literal["ok", "error", "blocked"]


class ToolDone(Payload, frozen=True):
    """A call that is over, also one that was refused or blocked. `result` is what the tool said, `duration_ms` None
    when it did not run. At `tool_result` a link replaces `result`, or `outcome` for more than its text."""

    HIDDEN: ClassVar[frozenset[str]] = frozenset({"outcome"})
    tool_name: str
    args: dict[str, Any]
    result: str
    status: ToolStatus
    outcome: ToolOutcome
    tool_call_id: str = ""
    error_type: str = ""
    error_message: str = ""
    duration_ms: int | None = None


class ToolSettled(Payload, frozen=True):
    """Told exactly once after every `post_tool_call`, whatever its observers did."""

    tool_name: str
    tool_call_id: str
    status: ToolStatus


class TurnContext(Payload, frozen=True):
    """Before the first model call of a turn. A link adds to `contexts`: they go into the user's message, a blank
    line between them, never into the system prompt."""

    user_message: str
    is_first_turn: bool
    conversation_history: tuple[Message, ...] = ()
    parent_session_id: str = ""
    contexts: tuple[str, ...] = ()


class TurnSaid(Payload, frozen=True):
    """After the last model call of a turn."""

    user_message: str
    assistant_response: str
    conversation_history: tuple[Message, ...] = ()


class Draft(Payload, frozen=True):
    """The agent is about to finish after it changed files; `attempt` counts from 0."""

    final_response: str
    changed_paths: tuple[str, ...]
    attempt: int
    coding: bool = True


class ApiCall(Payload, frozen=True):
    """A model call that is about to be made. Times are RFC 3339."""

    HIDDEN: ClassVar[frozenset[str]] = frozenset({"payload"})
    payload: Request
    retry_count: int
    message_count: int
    tool_count: int
    approx_input_tokens: int
    started_at: str
    max_tokens: int | None = None
    system_prompt: str = ""


class ApiDone(Payload, frozen=True):
    """A model call that succeeded. `api_duration` is seconds."""

    HIDDEN: ClassVar[frozenset[str]] = frozenset({"reply", "payload"})
    reply: Reply
    payload: Request
    finish_reason: str
    api_duration: float
    started_at: str
    ended_at: str
    assistant_message: Message
    assistant_content_chars: int
    assistant_tool_call_count: int
    usage: Usage | None = None
    first_chunk_at: str | None = None
    context_length: int | None = None
    response_model: str = ""


class ApiFailed(Payload, frozen=True):
    """A model call that failed. `reason` is the failure's kind, `blocked` where middleware stopped it."""

    HIDDEN: ClassVar[frozenset[str]] = frozenset({"payload"})
    payload: Request
    reason: str
    error_message: str
    retryable: bool
    retry_count: int
    max_retries: int
    api_duration: float
    started_at: str
    ended_at: str
    status_code: int | None = None


class Retry(Payload, frozen=True):
    """A failed model call that will be made again after `delay` seconds, unless a link says `retry=False`."""

    reason: str
    attempt: int
    delay: float
    retry: bool = True
    status_code: int | None = None


class Answer(Payload, frozen=True):
    """What answers a round without a model: blocks such as {"type": "text", "text": "…"}, and the id of who answered
    (1-64 of letters, digits, `. _ : -`)."""

    content: tuple[dict[str, Any], ...]
    middleware: str


class Question(Payload, frozen=True):
    """What `turn.answer` may answer: give the question back with `answer` set."""

    session_id: str
    turn_id: str
    round: int
    user_text: str
    answer: Answer | None = None


class SessionPhase(Payload, frozen=True):
    """A session begins or leaves memory."""

    session_id: str
    run_id: str = ""
    reason: str = ""


class SessionReset(Payload, frozen=True):
    """A client begins a new conversation in place of another."""

    session_id: str
    old_session_id: str
    new_session_id: str
    reason: str = ""


class TurnOver(Payload, frozen=True):
    """A user's turn has ended (hooks call this the end of a session)."""

    turn_id: str
    completed: bool
    failed: bool
    interrupted: bool
    turn_exit_reason: str


class Approval(Payload, frozen=True):
    """A permission is asked for, or was answered. `choice` is the outcome, `decided_by` who gave it."""

    command: str
    description: str
    pattern_key: str
    tool_call_id: str
    surface: str = ""
    choice: str = ""
    decided_by: str = ""


class HumanInput(Payload, frozen=True):
    """A question to a person, or its end."""

    kind: str
    request_id: str
    prompt: str
    outcome: str = ""


class StreamPart(Payload, frozen=True):
    """Of a stream of text: `text` is a delta, and the whole at its end."""

    text: str
    finished: bool = False
    error: str = ""
    reasoning: bool = False


class Compacted(Payload, frozen=True):
    """A compaction was committed. Counts are rows before and after."""

    trigger: str
    before: int
    after: int
    in_place: bool = True


class TerminalOutput(Payload, frozen=True):
    """A command's output before it is capped; a link replaces `output`."""

    command: str
    output: str
    returncode: int | None
    env_type: str = "local"
    tool_call_id: str = ""


class AuxiliaryCall(Payload, frozen=True):
    """A model call beside the conversation, before and after it."""

    aux_task: str
    model: str
    streaming: bool = True
    api_duration: float | None = None
    error_message: str = ""
    usage: Usage | None = None


class SubagentPhase(Payload, frozen=True):
    """A child session begins or has ended."""

    parent_session_id: str
    parent_turn_id: str
    child_session_id: str
    child_role: str = ""
    child_goal: str = ""
    child_summary: str = ""
    child_status: str = ""
    duration_ms: int | None = None


class Command(Payload, frozen=True):
    """A slash command that a client runs."""

    name: str
    arguments: str = ""
