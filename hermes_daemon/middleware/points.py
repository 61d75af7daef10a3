"""Every place where middleware may act: one table. The engine has exactly one call site for each row."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Style: TypeAlias = Literal["transform", "around", "decide", "observe"]
OnError: TypeAlias = Literal["event", "throw", "closed"]


class Point(msgspec.Struct, frozen=True):
    """`on_error`: report and go on, fail the run, or treat as a refusal. `scope` says how often it is reached."""

    name: str
    style: Style
    scope: Literal["session", "turn", "round", "call"]
    aliases: tuple[str, ...] = ()
    on_error: OnError = "event"
    timeout_s: float | None = None


_TABLE = (
    Point("messages", "transform", "round", ("input_assembly",)),
    Point("context_blocks", "transform", "round", ("context",)),
    Point("prompt", "transform", "round", ("prompt_build",)),
    Point("turn.answer", "transform", "round", ("beforeProviderTurn",)),
    Point("llm_request", "transform", "round", ("provider_request",)),
    Point("llm_execution", "around", "round"),
    Point("tool_request", "transform", "call", ("tool_call",)),
    Point("tool_execution", "around", "call"),
    Point("tool_result", "transform", "call", ("transform_tool_result",)),
    Point("output", "transform", "turn", ("transform_llm_output",)),
    Point("retry", "transform", "round"),
    Point("compaction_request", "transform", "session"),
    Point("compaction", "transform", "session"),
    Point("session_start", "transform", "session"),
    Point("session_shutdown", "transform", "session"),
    Point("pre_tool_call", "decide", "call", (), "closed", 30.0),
    Point("pre_verify", "decide", "turn", (), "event", 30.0),
    Point("pre_command", "decide", "session", (), "closed", 30.0),
    Point("pre_api_request", "observe", "round", (), "event", 30.0),
    Point("post_api_request", "observe", "round", (), "event", 30.0),
    Point("api_request_error", "observe", "round", (), "event", 30.0),
    Point("post_tool_call", "observe", "call", (), "event", 30.0),
    Point("post_tool_call_settled", "observe", "call", (), "event", 30.0),
    Point("post_compaction", "observe", "session", (), "event", 30.0),
    Point("pre_approval_request", "observe", "call", (), "event", 30.0),
    Point("post_approval_response", "observe", "call", (), "event", 30.0),
    Point("on_turn_start", "observe", "turn", (), "event", 30.0),
    Point("on_session_end", "observe", "turn", (), "event", 30.0),
)

POINTS: dict[str, Point] = {point.name: point for point in _TABLE}
ALIASES: dict[str, str] = {alias: point.name for point in _TABLE for alias in point.aliases}


def find(name: str) -> Point:
    """The point of that name or alias. KeyError lists nothing: the registry names the nearest."""
    return POINTS[ALIASES.get(name, name)]
