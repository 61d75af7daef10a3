"""Hermes' contract: payloads as keywords, and what its callables give back as payloads again.

`hermes.middleware.v1` for the four middleware kinds, `hermes.observer.v1` for hooks (seeds 000 and 001).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final

import msgspec

from hermes_daemon.core.ports import Reply, Request, ToolOutcome
from hermes_daemon.middleware import request_shape
from hermes_daemon.middleware.directives import Directive
from hermes_daemon.middleware.payloads import Operation, PointContext, Question, ToolDone, TurnContext
from hermes_daemon.middleware.sanitising import sanitised
from hermes_protocol.content import Message, TextPart

KINDS: Final = frozenset({"llm_request", "llm_execution", "tool_request", "tool_execution"})
OBSERVER: Final = "hermes.observer.v1"
MIDDLEWARE: Final = "hermes.middleware.v1"
_WHOLE: Final = ("result", "output")
_OF_TOOLS = ("task_id", "session_id", "tool_call_id", "turn_id", "api_request_id", "provider", "model", "platform")
_OF_MODELS = ("task_id", "turn_id", "api_request_id", "session_id", "platform", "model", "provider", "base_url",
              "api_mode")  # fmt: skip


class ResultText(str):
    """A tool's result as its text, with the whole outcome behind it."""

    outcome: ToolOutcome


def accepted(call: Callable[..., Any]) -> tuple[tuple[str, ...], bool]:
    """(the keywords a callable declares, whether it takes any)."""
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):
        return (), True
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    names = tuple(parameter.name for parameter in parameters if parameter.kind in named)
    return names, any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters)


def of(kind: str, payload: Any, original: Any, context: Any) -> dict[str, Any]:
    """The keywords of a middleware callable; fresh copies."""
    if kind.startswith("llm"):
        given: dict[str, Any] = {
            "request": request_shape.as_dict(payload),
            "original_request": request_shape.as_dict(original if isinstance(original, Request) else payload),
        }
        given |= _identity(context, _OF_MODELS)
        given["api_call_count"] = context.round if isinstance(context, PointContext) else 0
    else:
        given = {
            "tool_name": payload.name,
            "args": msgspec.to_builtins(payload.args),
            "original_args": msgspec.to_builtins(getattr(original, "args", payload.args)),
            **_identity(context, _OF_TOOLS),
        }
        given["tool_call_id"] = given["tool_call_id"] or payload.call_id
    if kind == "llm_execution" and isinstance(context, PointContext):
        given["middleware_trace"] = [dict(entry) for entry in context.middleware_trace]
    return {**given, "telemetry_schema_version": OBSERVER, "middleware_schema_version": MIDDLEWARE}


def given_names(point: str, shape: str, payload: Any, context: Any) -> tuple[str, ...]:
    """The names a callable of that shape was called with at `point`: what to say when it wanted others."""
    if shape == "hook":
        return tuple(of_hook(payload, context))
    if shape == "hermes":
        following = ("next_call",) if point.endswith("execution") else ()
        return (*of(point, payload, None, context), *following)
    return ("value", "next") if shape == "prism" else ("value", "context")


def _identity(context: Any, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(context, name, "") for name in names}


def replaced(kind: str, payload: Any, returned: dict[str, Any]) -> Any:
    """The payload that a request callable's answer stands for; None when it holds none."""
    changed = returned.get("request" if kind == "llm_request" else "args")
    return payload_from(kind, payload, changed) if isinstance(changed, dict) else None


def payload_from(kind: str, payload: Any, changed: Any) -> Any:
    """The payload that `next_call(changed)` passes down."""
    if isinstance(changed, msgspec.Struct):
        return changed
    if not isinstance(changed, dict):
        raise TypeError(f"expected a dict, got {type(changed).__name__}")
    if kind.startswith("llm"):
        return request_shape.from_dict(changed, payload)
    return msgspec.structs.replace(payload, args=changed)


def result_of(kind: str, result: Any) -> Any:
    """What `next_call` gives back: a tool's text, a model's reply as it is."""
    if kind == "tool_execution" and isinstance(result, ToolOutcome):
        text = ResultText(result.text)
        text.outcome = result
        return text
    return result


def result_from(kind: str, returned: Any) -> Any:
    """The result an execution callable stands for. TypeError for what is none."""
    if returned is None or isinstance(returned, (ToolOutcome, Reply)):
        return returned
    if isinstance(returned, ResultText):
        return returned.outcome
    if kind == "tool_execution":
        text = returned if isinstance(returned, str) else msgspec.json.encode(returned).decode()
        return ToolOutcome(text)
    if isinstance(returned, dict) and isinstance(returned.get("content"), str):
        return Reply(Message("assistant", (TextPart(returned["content"]),)), "stop")
    if isinstance(returned, str):
        return Reply(Message("assistant", (TextPart(returned),)), "stop")
    raise TypeError(f"expected a provider reply, got {type(returned).__name__}")


# --- hooks ------------------------------------------------------------------------------------------------------------


def of_hook(payload: Any, context: Any) -> dict[str, Any]:
    """The keywords of a hook: where the work is, and the payload's fields, sanitised."""
    given: dict[str, Any] = {}
    if isinstance(context, PointContext):
        for name in ("session_id", "turn_id", "task_id", "model", "platform", "provider", "api_request_id",
                     "tool_call_id", "base_url", "api_mode"):  # fmt: skip
            given[name] = getattr(context, name)
        given["api_call_count"] = context.round
        given["middleware_trace"] = [dict(entry) for entry in context.middleware_trace]
    if isinstance(payload, Operation):
        given |= {"tool_name": payload.name, "args": sanitised(payload.args), "tool_call_id": payload.call_id}
    elif isinstance(payload, msgspec.Struct):
        hidden: frozenset[str] = getattr(payload, "HIDDEN", frozenset())
        for name in payload.__struct_fields__:
            if name not in hidden:
                value = getattr(payload, name)
                # A text that a hook may give back changed is given to it whole.
                given[name] = value if name in _WHOLE and isinstance(value, str) else sanitised(value)
        if "payload" in hidden:
            sent = payload.payload  # type: ignore[attr-defined]
            if sent is not None:
                given["request"] = sanitised({"method": "POST", "body": request_shape.as_dict(sent)})
    else:
        given["value"] = sanitised(payload)
        if isinstance(payload, str):
            given["response_text"] = payload
    return {**given, "telemetry_schema_version": OBSERVER}


def hook_result(point: str, value: Any, returned: Any) -> Any:
    """What a hook's answer makes of a transform's payload; None for no change."""
    if isinstance(value, ToolDone):
        return msgspec.structs.replace(value, result=returned) if isinstance(returned, str) else None
    if isinstance(value, TurnContext):
        text = returned.get("context") if isinstance(returned, dict) else returned
        added = isinstance(text, str) and text.strip()
        return msgspec.structs.replace(value, contexts=(*value.contexts, text)) if added else None
    if isinstance(value, Question) and isinstance(returned, dict):
        answer = returned.get("answer")
        return msgspec.structs.replace(value, answer=answer) if answer is not None else None
    if isinstance(returned, str):
        if point == "transform_terminal_output":
            return msgspec.structs.replace(value, output=returned)
        return returned if returned and isinstance(value, str) else None  # an empty answer is no answer
    return returned if isinstance(returned, type(value)) else None


def directive(returned: Any, point: str = "pre_tool_call") -> Directive | None:
    """The directive a hook's answer stands for. ValueError for one that says block without saying why."""
    if not isinstance(returned, dict):
        return None
    action = returned.get("action") or returned.get("decision")
    message = returned.get("message") or returned.get("reason") or ""
    if point == "pre_verify":
        return Directive("continue", str(message)) if action in ("continue", "block") and message else None
    if action == "block":
        if not message:
            raise ValueError("a block needs a message")
        return Directive("block", str(message))
    if action == "approve":
        check = returned.get("revalidate")
        return Directive("approve", str(message), rule_key=str(returned.get("rule_key") or ""),
                         revalidate=check if callable(check) else None)  # fmt: skip
    if action == "modify":
        args = returned.get("args")
        if not isinstance(args, dict):
            raise ValueError(f"modify needs args, an object; got {type(args).__name__}")
        return Directive("modify", str(message), args)
    return None
