"""Every place where middleware may act: one table. The engine has exactly one call site for each row."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from hermes_daemon.core.ports import Request
from hermes_daemon.core.prompt import Block, Prompt
from hermes_daemon.middleware import payloads
from hermes_protocol.content import Message

Style: TypeAlias = Literal["transform", "around", "decide", "observe"]
OnError: TypeAlias = Literal["event", "throw", "closed"]
HOOK_SECONDS = 30.0


class Point(msgspec.Struct, frozen=True):
    """`on_error`: report and go on, fail the run, or treat as a refusal. `scope` says how often it is reached.

    `payload` is what links are given. `summary` says when; for what a link may do there see the style.
    """

    name: str
    style: Style
    scope: Literal["session", "turn", "round", "call", "delta"]
    payload: Any
    summary: str
    aliases: tuple[str, ...] = ()
    on_error: OnError = "event"
    timeout_s: float | None = None


def _hook(name: str, scope: Any, payload: Any, summary: str, style: Style = "observe", on_error: OnError = "event",
          aliases: tuple[str, ...] = ()) -> Point:  # fmt: skip
    return Point(name, style, scope, payload, summary, aliases, on_error, HOOK_SECONDS)


_TABLE = (
    Point("messages", "transform", "round", tuple[Message, ...], "The history a round begins with.",
          ("input_assembly",)),
    Point("context_blocks", "transform", "round", tuple[Block, ...], "The blocks of the system prompt.", ("context",)),
    Point("prompt", "transform", "round", Prompt, "The composed prompt; its tools stay the session's.",
          ("prompt_build",)),
    Point("turn.answer", "transform", "round", payloads.Question, "A round may be answered without a model.",
          ("beforeProviderTurn",)),
    Point("llm_request", "transform", "round", Request, "The request of a model call; tools may be narrowed.",
          ("provider_request",)),
    Point("llm_execution", "around", "round", Request, "The model call itself, once for every attempt."),
    Point("tool_request", "transform", "call", payloads.Operation, "A call before policy and approval.",
          ("tool_call",)),
    Point("tool_execution", "around", "call", payloads.Operation, "The run of an approved call."),
    Point("tool_result", "transform", "call", payloads.ToolDone, "What the model will read of a call.",
          ("transform_tool_result",)),
    Point("output", "transform", "turn", str, "The text of the answer, before it is stored.",
          ("transform_llm_output",)),
    Point("retry", "transform", "round", payloads.Retry, "A failed model call is about to be made again."),
    Point("compaction_request", "transform", "session", Any, "The input of a compaction; it cannot be skipped."),
    Point("compaction", "transform", "session", Any, "The result of a compaction, before it is committed."),
    Point("session_start", "transform", "session", payloads.SessionPhase,
          "Before the first model call of a session in memory."),
    Point("session_shutdown", "transform", "session", payloads.SessionPhase, "A session leaves memory."),
    _hook("pre_llm_call", "turn", payloads.TurnContext, "Once for a turn, before its first model call.", "transform"),
    _hook("post_llm_call", "turn", payloads.TurnSaid, "Once for a turn, after its last model call."),
    _hook("pre_tool_call", "call", payloads.Operation, "Whether a call may run, with its final arguments.", "decide",
          "closed"),
    _hook("pre_verify", "turn", payloads.Draft, "Files were changed and the agent wants to finish.", "decide"),
    _hook("pre_command", "session", payloads.Command, "Whether a slash command may run.", "decide", "closed"),
    _hook("pre_api_request", "round", payloads.ApiCall, "A model call begins."),
    _hook("post_api_request", "round", payloads.ApiDone, "A model call succeeded."),
    _hook("api_request_error", "round", payloads.ApiFailed, "A model call failed."),
    _hook("pre_auxiliary_call", "round", payloads.AuxiliaryCall, "A model call beside the conversation begins."),
    _hook("post_auxiliary_call", "round", payloads.AuxiliaryCall, "A model call beside the conversation is over."),
    _hook("post_tool_call", "call", payloads.ToolDone, "A call is over, its result not yet transformed."),
    _hook("post_tool_call_settled", "call", payloads.ToolSettled, "All observers of a call were told."),
    _hook("transform_terminal_output", "call", payloads.TerminalOutput, "A command's output, before it is capped.",
          "transform"),
    _hook("on_stream_start", "round", payloads.StreamPart, "The first text of a model call."),
    _hook("on_stream_delta", "delta", payloads.StreamPart, "Text of a model call, as it comes."),
    _hook("on_stream_end", "round", payloads.StreamPart, "The text of a model call is complete."),
    _hook("on_interim_message", "round", payloads.StreamPart, "Text that came before tool calls."),
    _hook("post_compaction", "session", payloads.Compacted, "A compaction was committed."),
    _hook("pre_approval_request", "call", payloads.Approval, "A permission is asked for."),
    _hook("post_approval_response", "call", payloads.Approval, "A permission was answered."),
    _hook("on_human_input_request", "call", payloads.HumanInput, "A person is asked something."),
    _hook("on_human_input_resolved", "call", payloads.HumanInput, "A question to a person has ended."),
    _hook("on_session_start", "session", payloads.SessionPhase, "The first turn of a new session begins."),
    _hook("on_session_end", "turn", payloads.TurnOver, "A turn has ended."),
    _hook("on_session_finalize", "session", payloads.SessionPhase, "A session is deleted."),
    _hook("on_session_reset", "session", payloads.SessionReset, "A client goes on in a new session."),
    _hook("subagent_start", "session", payloads.SubagentPhase, "A child session begins."),
    _hook("subagent_stop", "session", payloads.SubagentPhase, "A child session has ended."),
)  # fmt: skip

POINTS: dict[str, Point] = {point.name: point for point in _TABLE}
ALIASES: dict[str, str] = {alias: point.name for point in _TABLE for alias in point.aliases}


def find(name: str) -> Point:
    """The point of that name or alias. KeyError lists nothing: the registry names the nearest."""
    return POINTS[ALIASES.get(name, name)]
