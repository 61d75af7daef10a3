"""The only door for plugins: everything a plugin may import stands here, and stays.

A plugin has `register(ctx: PluginContext)` and does the rest through `ctx`. The names below are the values it is handed
and the values it gives back; `replace(value, field=…)` makes a changed copy of any of them. `hermes_daemon.api.testing`
runs a plugin without a daemon, for its tests.
"""

from __future__ import annotations

from msgspec.structs import replace

from hermes_daemon.core.cards import card_of
from hermes_daemon.core.ports import (
    Answered,
    Ask,
    Host,
    ModelInfo,
    Refused,
    Rejected,
    Reply,
    Request,
    ToolCard,
    ToolContext,
    ToolOutcome,
    ToolSpec,
    Unavailable,
)
from hermes_daemon.core.prompt import Prompt
from hermes_daemon.middleware.directives import Directive
from hermes_daemon.middleware.payloads import (
    Answer,
    ApiCall,
    ApiDone,
    ApiFailed,
    Approval,
    AuxiliaryCall,
    Command,
    Compacted,
    Draft,
    HumanInput,
    Operation,
    PointContext,
    Question,
    Retry,
    SessionPhase,
    SessionReset,
    StreamPart,
    SubagentPhase,
    TerminalOutput,
    ToolDone,
    ToolSettled,
    TurnContext,
    TurnOver,
    TurnSaid,
)
from hermes_daemon.middleware.points import POINTS, Point
from hermes_daemon.middleware.registry import Handle
from hermes_daemon.middleware.styles import ExecutionBlocked
from hermes_daemon.plugins.context import PluginContext
from hermes_daemon.plugins.manifest import Manifest
from hermes_daemon.plugins.state import PluginState
from hermes_protocol.content import Message, ReasoningPart, TextPart, ToolCall, ToolResult, Usage

API_VERSION = 1
"""What `api_version` of a manifest names. It changes only with something that old plugins would break on."""

__all__ = [
    "API_VERSION",
    "POINTS",
    "Answer",
    "Answered",
    "ApiCall",
    "ApiDone",
    "ApiFailed",
    "Approval",
    "Ask",
    "AuxiliaryCall",
    "Command",
    "Compacted",
    "Directive",
    "Draft",
    "ExecutionBlocked",
    "Handle",
    "Host",
    "HumanInput",
    "Manifest",
    "Message",
    "ModelInfo",
    "Operation",
    "PluginContext",
    "PluginState",
    "Point",
    "PointContext",
    "Prompt",
    "Question",
    "ReasoningPart",
    "Refused",
    "Rejected",
    "Reply",
    "Request",
    "Retry",
    "SessionPhase",
    "SessionReset",
    "StreamPart",
    "SubagentPhase",
    "TerminalOutput",
    "TextPart",
    "ToolCall",
    "ToolCard",
    "ToolContext",
    "ToolDone",
    "ToolOutcome",
    "ToolResult",
    "ToolSettled",
    "ToolSpec",
    "TurnContext",
    "TurnOver",
    "TurnSaid",
    "Unavailable",
    "Usage",
    "card_of",
    "replace",
]
