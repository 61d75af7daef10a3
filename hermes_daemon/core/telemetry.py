"""What the daemon measures of its own work: one Struct a fact, the table of all of them, and what takes them.

A fact holds numbers and names, never contents: no prompt, argument, output or message has a field here. A number is
annotated with its unit, a text says whether it is one of our own words or a name somebody else chose (`Name`): names
pass the redactor before they leave the daemon.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, get_args, get_origin

import msgspec

Level: TypeAlias = Literal["off", "metrics", "all"]


def _number(unit: str, description: str) -> msgspec.Meta:
    return msgspec.Meta(description=description, extra={"unit": unit})


def _word(description: str) -> msgspec.Meta:
    return msgspec.Meta(description=description, extra={"unit": "word"})


def _name(description: str) -> msgspec.Meta:
    return msgspec.Meta(description=description, extra={"unit": "name"})


class Measured(msgspec.Struct, frozen=True, rename="camel"):
    """A fact. `event` names it on the wire; `level` is the least a connection must have asked for to get it at all."""

    event: ClassVar[str] = ""
    level: ClassVar[Level] = "metrics"
    opt_in: ClassVar[str] = ""
    """The capability without which a connection does not get it, whatever its level."""


class TurnMeasured(Measured, frozen=True):
    """A turn is over. The parts do not add up to the total: work that overlaps is counted in each of its parts."""

    event = "turn"

    status: Annotated[str, _word("how it ended: completed, interrupted, failed, refused, limit")] = ""
    error: Annotated[str, _word("the kind of the error, of the error table")] = ""
    model: Annotated[str, _name("the model of its last round, provider/name")] = ""
    failed: Annotated[bool, _number("truth", "it ended as failed")] = False
    rounds: Annotated[int, _number("rounds", "model calls that gave a message")] = 0
    deterministic_rounds: Annotated[int, _number("rounds", "rounds that a middleware answered without a model")] = 0
    tool_calls: Annotated[int, _number("calls", "tool calls answered")] = 0
    queue_ms: Annotated[float, _number("ms", "from admission to the start, while other turns ran")] = 0.0
    prompt_ms: Annotated[float, _number("ms", "building the requests, without the middleware on the way")] = 0.0
    first_token_ms: Annotated[
        float | None, _number("ms", "from the start to the first text or reasoning; absent when there was none")
    ] = None
    model_ms: Annotated[float, _number("ms", "inside the provider, all attempts, without the waits between them")] = 0.0
    tools_ms: Annotated[
        float, _number("ms", "while at least one tool ran, its own questions to people counted, approval not")
    ] = 0.0
    approval_ms: Annotated[float, _number("ms", "waiting for people, summed over the questions")] = 0.0
    middleware_ms: Annotated[float, _number("ms", "inside middleware, without what it was wrapped around")] = 0.0
    journal_ms: Annotated[float, _number("ms", "waiting for the disk")] = 0.0
    total_ms: Annotated[float, _number("ms", "from the start until the end was on the disk")] = 0.0
    input_tokens: Annotated[int, _number("tokens", "read and not cached")] = 0
    output_tokens: Annotated[int, _number("tokens", "written, reasoning among them")] = 0
    cached_tokens: Annotated[int, _number("tokens", "read from the provider's cache")] = 0
    cache_write_tokens: Annotated[int, _number("tokens", "written to the provider's cache")] = 0
    reasoning_tokens: Annotated[int, _number("tokens", "thought and not shown")] = 0
    cost: Annotated[float | None, _number("USD", "absent when no price is known")] = None


class ModelCalled(Measured, frozen=True):
    """A round asked a model: all attempts of one call together."""

    event = "model.call"

    provider: Annotated[str, _name("the provider's name in the configuration")] = ""
    model: Annotated[str, _name("the model as the endpoint calls it")] = ""
    outcome: Annotated[
        str, _word("stop, tool_calls, length, refusal; cancelled, blocked; or the kind of the failure")
    ] = ""
    failed: Annotated[bool, _number("truth", "no message came of it")] = False
    round: Annotated[int, _number("number", "the round of the turn, from 1")] = 0
    retries: Annotated[int, _number("attempts", "attempts after the first")] = 0
    duration_ms: Annotated[float, _number("ms", "from the first attempt to the end, waits between them counted")] = 0.0
    first_token_ms: Annotated[
        float | None, _number("ms", "from the last attempt's start to its first text or reasoning; absent without one")
    ] = None
    input_tokens: Annotated[int, _number("tokens", "read and not cached")] = 0
    output_tokens: Annotated[int, _number("tokens", "written, reasoning among them")] = 0
    cached_tokens: Annotated[int, _number("tokens", "read from the provider's cache")] = 0
    cache_write_tokens: Annotated[int, _number("tokens", "written to the provider's cache")] = 0
    reasoning_tokens: Annotated[int, _number("tokens", "thought and not shown")] = 0
    cost: Annotated[float | None, _number("USD", "absent when no price is known")] = None


class ToolCalled(Measured, frozen=True):
    """A tool call has its answer."""

    event = "tool.call"

    tool: Annotated[str, _name("the tool that ran; `unknown` where the model named none that exists")] = "unknown"
    call_id: Annotated[str, _name("the id the model gave to the call")] = ""
    outcome: Annotated[str, _word("completed, failed or cancelled")] = ""
    failed: Annotated[bool, _number("truth", "the model was told of an error")] = False
    duration_ms: Annotated[
        float, _number("ms", "inside the tool, without waiting for people; 0 when it was not run")
    ] = 0.0
    approval_ms: Annotated[float, _number("ms", "waiting for a person, for approval or what the tool asked")] = 0.0
    total_ms: Annotated[float, _number("ms", "from the model's wish to the answer")] = 0.0
    output_bytes: Annotated[int, _number("bytes", "the answer as the model reads it, UTF-8")] = 0


class QuestionResolved(Measured, frozen=True):
    """A question to people is closed."""

    event = "question"

    kind: Annotated[str, _word("permission, clarify, secret, form, clientTool, clientMiddleware")] = ""
    outcome: Annotated[str, _word("as in request.resolved")] = ""
    wait_ms: Annotated[float, _number("ms", "from its opening to its end")] = 0.0


class ConnectionStalled(Measured, frozen=True):
    """A connection does not read as fast as is written, or has caught up."""

    event = "connection.stalled"

    connection_id: Annotated[str, _name("as in hermes/daemon/status")] = ""
    stage: Annotated[str, _word("lag: only whole items go out; desync: a session's events were dropped; recovered")] = (
        ""
    )
    queue_bytes: Annotated[int, _number("bytes", "what waits for this connection")] = 0
    desync: Annotated[bool, _number("truth", "events were dropped")] = False


class ConnectionClosed(Measured, frozen=True):
    """A connection is gone."""

    event = "connection.closed"

    connection_id: Annotated[str, _name("as in hermes/daemon/status")] = ""
    open_ms: Annotated[float, _number("ms", "how long it was there")] = 0.0
    peak_queue_bytes: Annotated[int, _number("bytes", "the most that ever waited for it")] = 0
    lags: Annotated[int, _number("times", "it was sent only whole items")] = 0
    desyncs: Annotated[int, _number("times", "a session's events were dropped")] = 0
    dropped: Annotated[int, _number("messages", "telemetry that was not sent to it")] = 0
    slow: Annotated[bool, _number("truth", "it was cut off because it read nothing")] = False


class JournalCommitted(Measured, frozen=True):
    """A transaction reached the journal. There are many of them: told at level `all` only."""

    event = "journal.commit"
    level = "all"

    commit_ms: Annotated[float, _number("ms", "applying and committing it")] = 0.0
    writes: Annotated[int, _number("writes", "how many were committed together")] = 0
    durable: Annotated[bool, _number("truth", "it was synced to the disk")] = False


class MiddlewareStep(Measured, frozen=True):
    """A middleware did something to a payload."""

    event = "middleware.step"
    level = "all"

    point: Annotated[str, _word("the point, as in docs/reference/points.md")] = ""
    owner: Annotated[str, _name("the plugin, client or hook")] = ""
    index: Annotated[int, _number("number", "its place among those that were asked, from 0")] = 0
    outcome: Annotated[str, _word("unchanged, committed, short_circuited, failed, skipped, conflicted")] = ""
    duration_ms: Annotated[float, _number("ms", "inside it, for one around a call the call counted")] = 0.0


class MiddlewareTrace(Measured, frozen=True):
    """A step with its reasons, for connections with the capability `middlewareTrace` that follow the session."""

    event = "middleware.trace"
    level = "all"
    opt_in = "middlewareTrace"

    point: Annotated[str, _word("the point, as in docs/reference/points.md")] = ""
    owner: Annotated[str, _name("the plugin, client or hook")] = ""
    index: Annotated[int, _number("number", "its place among those that were asked, from 0")] = 0
    outcome: Annotated[str, _word("unchanged, committed, short_circuited, failed, skipped, conflicted")] = ""
    duration_ms: Annotated[float, _number("ms", "inside it, for one around a call the call counted")] = 0.0
    source: Annotated[str, _name("who changed it, in the middleware's words")] = ""
    reason: Annotated[str, _name("why, in the middleware's words; `tool_added_rejected` in ours")] = ""
    error: Annotated[str, _name("what it failed with")] = ""


class DirectiveSettled(Measured, frozen=True):
    """What became of a wish at a point where policies decide."""

    event = "directive"
    level = "all"

    point: Annotated[str, _word("pre_tool_call, pre_verify")] = ""
    owner: Annotated[str, _name("whose wish it was")] = ""
    directive_id: Annotated[str, _name("its id")] = ""
    action: Annotated[str, _word("block, approve, continue, modify")] = ""
    delivered: Annotated[bool, _number("truth", "it counted; else a stricter one stood before it")] = False


class ExtensionFailed(Measured, frozen=True):
    """A middleware or an observer failed."""

    event = "extension_error"
    level = "all"

    extension: Annotated[str, _word("`middleware:` and the point")] = ""
    owner: Annotated[str, _name("the plugin, client or hook")] = ""
    error: Annotated[str, _name("what it failed with")] = ""


class DaemonCounted(Measured, frozen=True):
    """The daemon holds another number of things than before."""

    event = "daemon.counts"

    live_sessions: Annotated[int, _number("sessions", "in memory")] = 0
    busy_sessions: Annotated[int, _number("sessions", "with a running turn")] = 0
    open_requests: Annotated[int, _number("questions", "that wait for people")] = 0
    connections: Annotated[int, _number("connections", "that are open")] = 0


FACTS: tuple[type[Measured], ...] = (
    TurnMeasured, ModelCalled, ToolCalled, QuestionResolved, ConnectionStalled, ConnectionClosed, JournalCommitted,
    MiddlewareStep, MiddlewareTrace, DirectiveSettled, ExtensionFailed, DaemonCounted,
)  # fmt: skip
"""Every fact there is. One that nothing emits has no row."""


class Attribute(msgspec.Struct, frozen=True):
    """A row of the table: `unit` of a number, or `word` (ours) or `name` (chosen by others) for a text."""

    field: str
    name: str
    unit: str
    meaning: str

    @property
    def is_text(self) -> bool:
        """True for what level `metrics` leaves out."""
        return self.unit in ("word", "name")


def attributes(fact: type[Measured]) -> tuple[Attribute, ...]:
    """What a fact says, in order, with the names of the wire."""
    rows = []
    for field in msgspec.structs.fields(fact):
        meta = _meta(field.type)
        rows.append(Attribute(field.name, field.encode_name, meta.extra["unit"], meta.description or ""))
    return tuple(rows)


def _meta(annotation: Any) -> Any:
    assert get_origin(annotation) is Annotated, f"a field of telemetry without unit: {annotation}"
    return get_args(annotation)[1]


class Told(msgspec.Struct, frozen=True):
    """A fact, where it belongs, and when it was told (seconds since 1970; its work ended then)."""

    fact: Measured
    session_id: str | None
    turn_id: str | None
    at: float


class Family(msgspec.Struct, frozen=True):
    """A metric. `name` follows Prometheus (base units, `_total` for counters), `otel` OpenTelemetry, `unit` is UCUM.

    `buckets` are the upper bounds of a histogram, without infinity.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    otel: str = ""
    unit: str = "1"


class Series(msgspec.Struct, frozen=True):
    """One line of a metric: `value` is the count, the level, or the sum of what a histogram has seen.

    `counts` of a histogram are by bucket, not cumulative, the last one for what is above every bound.
    """

    family: Family
    labels: tuple[str, ...]
    value: float
    counts: tuple[int, ...] = ()


class Silent:
    """ports.Telemetry for a daemon that measures nothing."""

    wanted = False

    def emit(self, fact: Measured, session_id: str | None = None, turn_id: str | None = None) -> None:
        """Nobody listens."""

    def hear(self, level: Level, take: Callable[[Told], None] | None) -> None:
        """There is nothing to hear."""

    def series(self) -> tuple[Series, ...]:
        """Nothing was counted."""
        return ()
