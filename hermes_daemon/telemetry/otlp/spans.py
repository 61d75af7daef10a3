"""Facts to spans: invoke_agent (a turn) over chat (a model call) and execute_tool (a tool call).

Names and attributes are OpenTelemetry's semantic conventions for generative AI; what they have no word for stands
below `hermes.`. All spans of a turn are found from its id, so that a call is exported before the turn it belongs to.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

from hermes_daemon.core.telemetry import ModelCalled, Told, ToolCalled, TurnMeasured

Value = str | bool | int | float | tuple[str, ...]
AGENT = "hermes-daemon"
_TURN_DETAILS = (
    "rounds", "deterministic_rounds", "tool_calls", "queue_ms", "prompt_ms", "first_token_ms", "model_ms", "tools_ms",
    "approval_ms", "middleware_ms", "journal_ms",
)  # fmt: skip


def request(told: Sequence[Told], resource: Mapping[str, str], version: str) -> bytes:
    """The body of a POST to /v1/traces; facts that are no work of a turn are left out."""
    spans = [made for one in told if (made := span(one)) is not None]
    scope = ScopeSpans(scope=InstrumentationScope(name=AGENT, version=version), spans=spans)
    grouped = ResourceSpans(resource=Resource(attributes=key_values(resource)), scope_spans=[scope])
    body: bytes = ExportTraceServiceRequest(resource_spans=[grouped]).SerializeToString()
    return body


def span(told: Told) -> Span | None:
    """The span of a fact; None when it has none."""
    fact = told.fact
    if told.turn_id is None:
        return None
    ids = hashlib.sha256(told.turn_id.encode()).digest()
    trace, root = ids[:16], ids[16:24]
    match fact:
        case TurnMeasured():
            name, kind, took_ms, attributes = (
                f"invoke_agent {AGENT}",
                Span.SPAN_KIND_INTERNAL,
                fact.total_ms,
                _turn(fact),
            )
            own, parent, error = root, b"", fact.error or (fact.status if fact.failed else "")
        case ModelCalled():
            name, kind, took_ms = f"chat {fact.model}", Span.SPAN_KIND_CLIENT, fact.duration_ms
            attributes = _model(fact)
            own, parent, error = os.urandom(8), root, fact.outcome if fact.failed else ""
        case ToolCalled():
            name, kind, took_ms = f"execute_tool {fact.tool}", Span.SPAN_KIND_INTERNAL, fact.total_ms
            attributes = _tool(fact)
            own, parent, error = os.urandom(8), root, fact.outcome if fact.failed else ""
        case _:
            return None
    attributes["gen_ai.conversation.id"] = told.session_id or ""
    if error:
        attributes["error.type"] = error
    end = int(told.at * 1e9)
    return Span(
        trace_id=trace,
        span_id=own,
        parent_span_id=parent,
        name=name,
        kind=kind,
        start_time_unix_nano=end - int(took_ms * 1e6),
        end_time_unix_nano=end,
        attributes=key_values(attributes),
        status=Status(code=Status.STATUS_CODE_ERROR) if error else None,
    )


def key_values(attributes: Mapping[str, Value]) -> list[KeyValue]:
    """Attributes as OTLP has them; an empty text says nothing and is left out."""
    return [KeyValue(key=key, value=_any(value)) for key, value in attributes.items() if value not in ("", ())]


def _any(value: Value) -> AnyValue:
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    if isinstance(value, float):
        return AnyValue(double_value=value)
    if isinstance(value, tuple):
        return AnyValue(array_value=ArrayValue(values=[_any(one) for one in value]))
    return AnyValue(string_value=value)


def _turn(fact: TurnMeasured) -> dict[str, Value]:
    provider, _, model = fact.model.partition("/")
    attributes: dict[str, Value] = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": AGENT,
        "gen_ai.provider.name": provider,
        "gen_ai.request.model": model,
        "hermes.turn.status": fact.status,
    }
    for field in _TURN_DETAILS:
        value = getattr(fact, field)
        if value is not None:
            attributes[f"hermes.turn.{field}"] = value
    return attributes | _usage(fact)


def _model(fact: ModelCalled) -> dict[str, Value]:
    attributes: dict[str, Value] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": fact.provider,
        "gen_ai.request.model": fact.model,
        "gen_ai.request.stream": True,
        "gen_ai.response.finish_reasons": () if fact.failed else (fact.outcome,),
        "hermes.model.round": fact.round,
        "hermes.model.retries": fact.retries,
    }
    if fact.first_token_ms is not None:
        attributes["gen_ai.response.time_to_first_chunk"] = fact.first_token_ms / 1000
    return attributes | _usage(fact)


def _tool(fact: ToolCalled) -> dict[str, Value]:
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": fact.tool,
        "gen_ai.tool.call.id": fact.call_id,
        "gen_ai.tool.type": "function",
        "hermes.tool.run_ms": fact.duration_ms,
        "hermes.tool.approval_ms": fact.approval_ms,
        "hermes.tool.output_bytes": fact.output_bytes,
    }


def _usage(fact: TurnMeasured | ModelCalled) -> dict[str, Value]:
    """Tokens. By the conventions input counts what was cached too."""
    found: dict[str, Value] = {
        "gen_ai.usage.input_tokens": fact.input_tokens,
        "gen_ai.usage.output_tokens": fact.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": fact.cached_tokens,
        "gen_ai.usage.cache_creation.input_tokens": fact.cache_write_tokens,
        "gen_ai.usage.reasoning.output_tokens": fact.reasoning_tokens,
    }
    if fact.cost is not None:
        found["hermes.cost_usd"] = fact.cost
    return found
