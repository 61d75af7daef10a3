"""The metrics that are counted, in one table. Labels are names and words of facts, never ids: their number is bounded.

Prometheus: base units, `_total` for counters (https://prometheus.io/docs/practices/naming/). The `gen_ai.client.*`
metrics and their bounds are those of OpenTelemetry's semantic conventions for generative AI.
"""

from __future__ import annotations

from typing import Final

from hermes_daemon.core.telemetry import Family

LONG: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0)
SHORT: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
MODEL: Final = ("provider", "model")

TURNS = Family("hermes_turns_total", "counter", "Turns that are over.", ("status",), otel="hermes.turns", unit="{turn}")
TURN_SECONDS = Family(
    "hermes_turn_seconds", "histogram", "From the start of a turn until its end was on the disk.", ("status",), LONG,
    "hermes.turn.duration", "s",
)  # fmt: skip
TURN_PART_SECONDS = Family(
    "hermes_turn_part_seconds_total", "counter", "Where the time of turns went; what overlaps is counted twice.",
    ("part",), otel="hermes.turn.part.duration", unit="s",
)  # fmt: skip
TTFT_SECONDS = Family(
    "hermes_time_to_first_token_seconds", "histogram", "From a model call's last attempt to its first text.", MODEL,
    LONG, "hermes.model.time_to_first_token", "s",
)  # fmt: skip
MODEL_CALLS = Family(
    "hermes_model_calls_total", "counter", "Model calls, all attempts of one together.", (*MODEL, "outcome"),
    otel="hermes.model.calls", unit="{call}",
)  # fmt: skip
MODEL_SECONDS = Family(
    "hermes_model_call_seconds", "histogram", "Duration of model calls, attempts and waits together.", MODEL, LONG,
    "hermes.model.duration", "s",
)  # fmt: skip
MODEL_RETRIES = Family(
    "hermes_model_retries_total", "counter", "Attempts of model calls after the first.", MODEL,
    otel="hermes.model.retries", unit="{attempt}",
)  # fmt: skip
TOKENS = Family(
    "hermes_tokens_total", "counter", "Tokens by kind: input (not cached), output, cached, cache_write, reasoning.",
    (*MODEL, "kind"), otel="hermes.tokens", unit="{token}",
)  # fmt: skip
COST = Family(
    "hermes_cost_dollars_total", "counter", "Cost of model calls whose price is known, in US dollars.", MODEL,
    otel="hermes.cost", unit="{USD}",
)  # fmt: skip
TOOL_CALLS = Family(
    "hermes_tool_calls_total", "counter", "Tool calls that were answered.", ("tool", "outcome"),
    otel="hermes.tool.calls", unit="{call}",
)  # fmt: skip
TOOL_SECONDS = Family(
    "hermes_tool_seconds", "histogram", "Duration inside a tool.", ("tool",), LONG, "hermes.tool.duration", "s"
)
TOOL_BYTES = Family(
    "hermes_tool_output_bytes_total", "counter", "Bytes of answers as the model reads them.", ("tool",),
    otel="hermes.tool.output", unit="By",
)  # fmt: skip
QUESTIONS = Family(
    "hermes_questions_total", "counter", "Questions to people that are closed.", ("kind", "outcome"),
    otel="hermes.questions", unit="{question}",
)  # fmt: skip
QUESTION_SECONDS = Family(
    "hermes_question_seconds", "histogram", "From the opening of a question to its end.", ("kind",), LONG,
    "hermes.question.duration", "s",
)  # fmt: skip
STALLS = Family(
    "hermes_connection_stalls_total", "counter", "Connections that fell behind, by what was done about it.",
    ("stage",), otel="hermes.connection.stalls", unit="{stall}",
)  # fmt: skip
CONNECTIONS_CLOSED = Family(
    "hermes_connections_closed_total", "counter", "Connections that are gone; slow: cut off, they read nothing.",
    ("slow",), otel="hermes.connections.closed", unit="{connection}",
)  # fmt: skip
CONNECTION_DROPPED = Family(
    "hermes_telemetry_unsent_total", "counter", "Telemetry messages that were not sent to slow connections.", (),
    otel="hermes.telemetry.unsent", unit="{message}",
)  # fmt: skip
COMMITS = Family(
    "hermes_journal_commit_seconds", "histogram", "Applying and committing a transaction.", ("durable",), SHORT,
    "hermes.journal.commit.duration", "s",
)  # fmt: skip
WRITES = Family(
    "hermes_journal_writes_total", "counter", "Writes that were committed.", (), otel="hermes.journal.writes",
    unit="{write}",
)  # fmt: skip
EXPORT_DROPPED = Family(
    "hermes_telemetry_export_dropped_total", "counter", "Spans that no collector took.", (),
    otel="hermes.telemetry.export.dropped", unit="{span}",
)  # fmt: skip

COUNTED: Final = (
    TURNS, TURN_SECONDS, TURN_PART_SECONDS, TTFT_SECONDS, MODEL_CALLS, MODEL_SECONDS, MODEL_RETRIES, TOKENS, COST,
    TOOL_CALLS, TOOL_SECONDS, TOOL_BYTES, QUESTIONS, QUESTION_SECONDS, STALLS, CONNECTIONS_CLOSED, CONNECTION_DROPPED,
    COMMITS, WRITES, EXPORT_DROPPED,
)  # fmt: skip
"""What a daemon counts, in the order it is shown in."""

GENAI: Final = ("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model")
TOKEN_USAGE = Family(
    "gen_ai_client_token_usage", "histogram", "Tokens used by a model call.", (*GENAI, "gen_ai.token.type"),
    (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864),
    "gen_ai.client.token.usage", "{token}",
)  # fmt: skip
OPERATION_DURATION = Family(
    "gen_ai_client_operation_duration", "histogram", "Duration of a model call.", (*GENAI, "error.type"),
    (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92),
    "gen_ai.client.operation.duration", "s",
)  # fmt: skip
EXPORTED: Final = (TOKEN_USAGE, OPERATION_DURATION)
"""Exported by OTLP beside COUNTED."""
