"""Everything a client can ask: METHODS, one row a method, with its params and result (protocol section 3).

`order` says where the request is served: "reader" at once on the connection's reader path, "session" one after the
other for each session, "free" in a task of its own. A method that is not in this table does not exist.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from hermes_protocol.content import InputBlock, Usage, Wire
from hermes_protocol.events import (
    AnyItem,
    ClarifyAnswer,
    Event,
    QueueEntry,
    RequestOpened,
    SessionState,
    SessionSummary,
)
from hermes_protocol.events import TurnOptions as TurnOptions

Order: TypeAlias = Literal["reader", "session", "free"]
Detail: TypeAlias = Literal["full", "final", "status"]
Role: TypeAlias = Literal["controller", "observer"]


class Empty(Wire, frozen=True):
    """No fields."""


# --- initialize -----------------------------------------------------------------------------------------------------


class Client(Wire, frozen=True):
    """Who connects. `id` is a UUID the frontend keeps, so that a reconnect is recognised."""

    id: str = ""
    name: str = ""
    version: str = ""
    role: Role = "controller"


class EventOptions(Wire, frozen=True):
    detail: Detail = "full"
    sessions: bool = False


class Capabilities(Wire, frozen=True):
    """`requests`: the kinds of questions this client shows. `seen`: it says hermes/request/seen when one of them is on
    a screen, and the clock of a question waits for that; of other clients it starts when the question was sent."""

    requests: tuple[str, ...] = ()
    seen: bool = False
    events: EventOptions = EventOptions()
    telemetry: Literal["off", "metrics", "all"] = "off"
    max_latency_ms: int = 33
    max_frame_bytes: int = 1_048_576
    max_inline_bytes: int = 65_536
    middleware_trace: bool = False
    experimental: tuple[str, ...] = ()


class Auth(Wire, frozen=True):
    token: str = ""


class Hello(Wire, frozen=True):
    """The native part of `initialize`: at the top level as `hermes`, or in `initializationOptions.hermes`."""

    protocol_versions: tuple[str, ...] = ("1.0",)
    client: Client = Client()
    capabilities: Capabilities = Capabilities()
    auth: Auth | None = None
    takeover: bool = False


class InitializationOptions(Wire, frozen=True):
    hermes: Hello | None = None


class InitializeParams(Wire, frozen=True):
    hermes: Hello | None = None
    initialization_options: InitializationOptions | None = None
    protocol_version: Any = None


class ServerInfo(Wire, frozen=True):
    name: str
    version: str


class Limits(Wire, frozen=True, omit_defaults=False):
    """What this daemon takes, every number said: a client that was written by hand knows no defaults."""

    max_frame_bytes: int = 8_388_608
    max_inline_bytes: int = 65_536
    max_batch: int = 64
    max_in_flight: int = 64


class Welcome(Wire, frozen=True):
    protocol_version: str
    boot_id: str
    build_id: str
    stale: bool
    schema_hash: str
    connection_id: str
    limits: Limits
    features: tuple[str, ...]
    request_kinds: tuple[str, ...]


class ExperimentalCapabilities(Wire, frozen=True):
    hermes: Welcome


class ServerCapabilities(Wire, frozen=True):
    experimental: ExperimentalCapabilities


class InitializeResult(Wire, frozen=True):
    server_info: ServerInfo
    capabilities: ServerCapabilities


# --- daemon -----------------------------------------------------------------------------------------------------------


class ConnectionRow(Wire, frozen=True):
    id: str
    client: str
    role: Role
    queue_bytes: int
    lagging: bool
    name: str = ""
    dialect: str = "native"
    transport: str = "unix"


class SessionCounts(Wire, frozen=True):
    live: int
    busy: int


class Idle(Wire, frozen=True):
    """`holders` names what keeps the daemon alive; `exits_in_s` counts down only while quiescent."""

    quiescent: bool
    exits_in_s: float | None
    holders: tuple[str, ...]


class Handover(Wire, frozen=True):
    """How a daemon gives way. `state` stale: another build is installed, it leaves as soon as it is quiescent.
    draining, stopping: `deadline_s` is what is left of the time for turns, `restart` whether another is to follow."""

    state: Literal["stale", "draining", "stopping"]
    restart: bool
    reason: str = ""
    deadline_s: float | None = None
    waiting_for: tuple[str, ...] = ()


class StatusResult(Wire, frozen=True):
    pid: int
    boot_id: str
    build_id: str
    version: str
    stale: bool
    uptime_s: float
    endpoints: tuple[str, ...]
    connections: tuple[ConnectionRow, ...]
    sessions: SessionCounts
    turns: int
    open_requests: int
    children: int
    rss_bytes: int
    idle: Idle
    state: Literal["ready", "draining", "stopping"] = "ready"
    home: str = ""
    storage: str = "ok"
    warnings: tuple[str, ...] = ()
    handover: Handover | None = None


class PingParams(Wire, frozen=True):
    echo: Any = None


class PingResult(Wire, frozen=True):
    monotonic_ms: float
    echo: Any = None


class ShutdownParams(Wire, frozen=True):
    mode: Literal["drain", "now"]
    deadline_s: float | None = None
    reason: str = ""
    restart: bool = False


class ShutdownResult(Wire, frozen=True):
    accepted: bool
    waiting_for: tuple[str, ...] = ()


class LogsParams(Wire, frozen=True):
    lines: int = 200
    level: Literal["debug", "info", "warning", "error"] | None = None


class LogsResult(Wire, frozen=True):
    lines: tuple[str, ...]


class MetricsResult(Wire, frozen=True):
    """Prometheus text, as GET /metrics answers it."""

    text: str
    content_type: str


class ReloadParams(Wire, frozen=True):
    """`plugins` names those to load again, with those that need them; without it all of them are."""

    what: tuple[Literal["config", "plugins", "tools"], ...] = ("config",)
    plugins: tuple[str, ...] = ()


class ReloadResult(Wire, frozen=True):
    changed: tuple[str, ...]
    errors: tuple[str, ...]
    warnings: tuple[str, ...] = ()


class SchemaParams(Wire, frozen=True):
    format: Literal["jsonschema", "openrpc"]
    experimental: bool = False


class SchemaResult(Wire, frozen=True):
    document: Any
    schema_hash: str


# --- sessions ---------------------------------------------------------------------------------------------------------


class SessionOptions(Wire, frozen=True):
    """Options of a session. `unattended` says what happens to questions nobody can see: wait, deny, or the name of a
    rule in the setting approvals.unattended, which allows the calls it names and denies the rest."""

    model: str | None = None
    mode: Literal["manual", "smart", "off"] | None = None
    unattended: str = "wait"
    toolsets: tuple[str, ...] | None = None
    thinking: str | None = None


class SessionParams(Wire, frozen=True):
    session_id: str


class CreateParams(Wire, frozen=True):
    cwd: str
    title: str = ""
    model: str | None = None
    options: SessionOptions = SessionOptions()
    env: dict[str, str] = {}
    parent: str | None = None
    key: str | None = None


class CreateResult(Wire, frozen=True):
    session: SessionSummary
    seq: int
    epoch: str
    duplicate: bool = False


class ListParams(Wire, frozen=True):
    cursor: str | None = None
    limit: int = 50
    cwd: str | None = None
    query: str | None = None
    archived: bool | None = None


class ListResult(Wire, frozen=True):
    sessions: tuple[SessionSummary, ...]
    next_cursor: str | None = None


class GetResult(Wire, frozen=True):
    session: SessionSummary
    options: SessionOptions
    state: SessionState
    epoch: str
    head: int


class Cursor(Wire, frozen=True):
    epoch: str
    seq: int


class SubscribeParams(Wire, frozen=True):
    session_id: str
    since: Cursor | None = None
    tail: int = 200
    detail: Detail | None = None


class InFlight(Wire, frozen=True):
    """An open item: everything said so far; deltas continue at `offset` (code points of `text`).

    `before` is the first of the snapshot's completed items that began after it; without, it stands behind them all.
    """

    item: AnyItem
    field: str
    text: str
    offset: int
    before: str | None = None


class OpenTurn(Wire, frozen=True):
    turn_id: str
    started_at: str
    input: tuple[InputBlock, ...]


class Snapshot(Wire, frozen=True):
    summary: SessionSummary
    options: SessionOptions
    rev: int
    state: SessionState
    items: tuple[AnyItem, ...]
    inflight: tuple[InFlight, ...]
    open_requests: tuple[RequestOpened, ...]
    queue: tuple[QueueEntry, ...]
    queue_rev: int
    paused: bool
    usage: Usage
    turn: OpenTurn | None = None
    older_cursor: str | None = None


class SubscribeResult(Wire, frozen=True):
    """The stream continues after `seq`; the first event's `prev` equals it."""

    mode: Literal["replay", "snapshot"]
    epoch: str
    seq: int
    head: int
    snapshot: Snapshot | None = None


class ItemsParams(Wire, frozen=True):
    session_id: str
    before: str | None = None
    after: str | None = None
    limit: int = 100
    order: Literal["asc", "desc"] = "asc"


class ItemsResult(Wire, frozen=True):
    items: tuple[AnyItem, ...]
    next_cursor: str | None = None


class EventsParams(Wire, frozen=True):
    """Events after the number `after`, at most `limit` of them."""

    session_id: str
    epoch: str
    after: int
    limit: int = 500


class EventsResult(Wire, frozen=True):
    """`events` as hermes/event carries them; each `prev` is the number before it in this stream, the first one's is
    `after`. `truncated`: there are more, ask again after the last."""

    events: tuple[Event, ...]
    head: int
    truncated: bool = False


class ForkParams(Wire, frozen=True):
    """`atItemId` is the last item the new session has; without, all completed ones."""

    session_id: str
    at_item_id: str | None = None
    title: str | None = None
    key: str | None = None


class RewindParams(Wire, frozen=True):
    """Everything behind the item `toItemId` goes; a user message named here goes too, to be asked again."""

    session_id: str
    to_item_id: str
    expect_rev: int
    key: str | None = None


class RewindResult(Wire, frozen=True):
    """`removed` counts items; `input` is what the user message said that was taken back."""

    rev: int
    removed: int
    seq: int
    input: tuple[InputBlock, ...] = ()


class ArchiveParams(Wire, frozen=True):
    session_id: str
    archived: bool = True
    key: str | None = None


class ClientTool(Wire, frozen=True):
    """A tool that this connection runs for the session. `parameters` is a JSON Schema of type object."""

    name: str
    description: str
    parameters: dict[str, Any] = {}
    read_only: bool = False
    timeout_ms: int = 60_000


MiddlewarePoint: TypeAlias = Literal["llm_request", "tool_request", "pre_tool_call", "tool_result", "output"]


class ClientMiddleware(Wire, frozen=True):
    """A middleware that this connection runs for the session: a request of kind clientMiddleware at `point`, answered
    within `timeoutMs` with the result null (no change), a replacement of the same shape as the payload, or a directive
    at pre_tool_call. `failClosed`: without an answer the call is stopped instead of going on unchanged."""

    point: MiddlewarePoint
    timeout_ms: int = 10_000
    fail_closed: bool = False


class RegisterParams(Wire, frozen=True):
    """What this connection offers the session, in place of what it offered before; gone with the connection."""

    session_id: str
    tools: tuple[ClientTool, ...] = ()
    middleware: tuple[ClientMiddleware, ...] = ()


class RegisterResult(Wire, frozen=True):
    tools: tuple[str, ...]
    middleware: tuple[str, ...] = ()


class WaitParams(Wire, frozen=True):
    session_id: str
    until: Literal["idle", "turn", "seq"]
    turn_id: str | None = None
    seq: int | None = None
    timeout_ms: int = 60_000


class WaitResult(Wire, frozen=True, omit_defaults=False):
    """`reached` is false when the time was up first."""

    state: SessionState
    seq: int
    reached: bool = True


class SetOptionParams(Wire, frozen=True):
    session_id: str
    id: str
    value: Any
    expect_rev: int | None = None
    key: str | None = None


class SetOptionResult(Wire, frozen=True):
    options: SessionOptions
    rev: int
    seq: int


class RenameParams(Wire, frozen=True):
    session_id: str
    title: str
    expect_rev: int | None = None
    key: str | None = None


class DeleteParams(Wire, frozen=True):
    session_id: str
    key: str | None = None


class SearchParams(Wire, frozen=True):
    query: str
    limit: int = 20
    cwd: str | None = None


class SearchHit(Wire, frozen=True):
    session_id: str
    item_id: str
    title: str
    role: str
    snippet: str
    at: str


class SearchResult(Wire, frozen=True):
    hits: tuple[SearchHit, ...]


# --- turns ------------------------------------------------------------------------------------------------------------


class SubmitParams(Wire, frozen=True):
    """Input for a turn. `depth` counts the agents between a person and this input, 0 for a person's own: a program
    that a tool call started passes on what HERMES_AGENT_DEPTH says; more than 3 is refused (permission_denied)."""

    session_id: str
    input: tuple[InputBlock, ...]
    key: str
    when_busy: Literal["queue", "steer", "interrupt", "reject"] = "queue"
    expect_rev: int | None = None
    position: int | None = None
    options: TurnOptions = TurnOptions()
    depth: int = 0


class SubmitResult(Wire, frozen=True):
    disposition: Literal["started", "queued", "steered"]
    turn_id: str
    seq: int
    item_id: str | None = None
    queue_id: str | None = None
    duplicate: bool = False


class SteerParams(Wire, frozen=True):
    """Input for the turn `turnId`, taken at its next model call; turn_mismatch when it is not the running one. `depth`
    as in submit."""

    session_id: str
    turn_id: str
    input: tuple[InputBlock, ...]
    key: str
    depth: int = 0


class SteerResult(Wire, frozen=True):
    status: Literal["accepted"]
    queue_id: str
    seq: int
    duplicate: bool = False


class InterruptParams(Wire, frozen=True):
    session_id: str
    turn_id: str | None = None
    queue: Literal["keep", "pause", "clear"] = "keep"
    reason: str = ""
    key: str | None = None


class InterruptResult(Wire, frozen=True):
    status: Literal["interrupting", "alreadyEnding", "notActive"]
    seq: int
    turn_id: str | None = None


class QueueParams(Wire, frozen=True):
    session_id: str
    key: str | None = None


class QueueRemoveParams(Wire, frozen=True):
    session_id: str
    queue_id: str
    expect_queue_rev: int | None = None
    key: str | None = None


class QueueUpdateParams(Wire, frozen=True):
    session_id: str
    queue_id: str
    input: tuple[InputBlock, ...]
    expect_queue_rev: int | None = None
    key: str | None = None


class QueueReorderParams(Wire, frozen=True):
    """`order`: queue ids, first to run first; entries that it does not name keep their order behind them."""

    session_id: str
    order: tuple[str, ...]
    expect_queue_rev: int | None = None
    key: str | None = None


class QueueResult(Wire, frozen=True):
    queue: tuple[QueueEntry, ...]
    queue_rev: int
    paused: bool


# --- questions --------------------------------------------------------------------------------------------------------


class RequestListParams(Wire, frozen=True):
    session_id: str | None = None


class RequestListResult(Wire, frozen=True):
    requests: tuple[RequestOpened, ...]


class Answer(Wire, frozen=True):
    """Shapes by kind: permission {optionId, feedback?}; clarify {answers}; secret {value}; form {values};
    clientTool and clientMiddleware {result}|{error}; any {decline: true}."""

    option_id: str | None = None
    feedback: str | None = None
    answers: dict[str, ClarifyAnswer] | None = None
    value: str | None = None
    values: dict[str, Any] | None = None
    result: Any = msgspec.UNSET
    error: str | None = None
    decline: bool = False


class AnswerParams(Wire, frozen=True):
    request_id: str
    answer: Answer
    key: str | None = None


class AnswerResult(Wire, frozen=True):
    """`outcome` is how the request ended; "open" when questions of it still wait, "declined" when others may still
    answer. `late` names the questions of this answer that somebody else had answered before."""

    status: Literal["accepted"]
    seq: int
    outcome: str = ""
    late: tuple[str, ...] = ()


class SeenParams(Wire, frozen=True):
    request_id: str


# --- tools, models, config, blobs -------------------------------------------------------------------------------------


class ToolRow(Wire, frozen=True):
    name: str
    toolset: str
    description: str
    source: str
    state: str
    read_only: bool = False
    parameters: dict[str, Any] = {}
    last_error: str | None = None


class ToolListParams(Wire, frozen=True):
    session_id: str | None = None


class PluginSetting(Wire, frozen=True):
    """A setting of a plugin, from its manifest. `given` is true where config.yaml has it; else `value` is the default,
    null for none. A secret's value is `(set)` or null."""

    key: str
    type: str
    description: str = ""
    value: Any = None
    given: bool = False
    choices: tuple[Any, ...] = ()


class PluginRow(Wire, frozen=True):
    """One plugin. `state`: loaded; enabled, but not loaded; disabled; failed and retired with `detail`."""

    id: str
    name: str
    version: str
    source: str
    state: str
    description: str = ""
    detail: str = ""
    tools: tuple[str, ...] = ()
    points: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    settings: tuple[PluginSetting, ...] = ()


class PluginListResult(Wire, frozen=True):
    plugins: tuple[PluginRow, ...]


class DoctorRow(Wire, frozen=True):
    """A finding about the plugins. `check`: links, settings, load, seams, stale_import; `plugin` is its id, or "host";
    `severity`: ok, warn, fail."""

    check: str
    plugin: str
    severity: Literal["ok", "warn", "fail"]
    detail: str = ""


class PluginDoctorResult(Wire, frozen=True):
    """`by` is "plugins-doctor" when that plugin made all checks, "host" when it is not loaded: then seams and
    stale_import were not looked at."""

    rows: tuple[DoctorRow, ...]
    by: Literal["plugins-doctor", "host"] = "host"


class HookRow(Wire, frozen=True):
    """A shell hook. `allowed` is false until the user has consented to this very command."""

    event: str
    command: str
    matcher: str = ""
    timeout_s: float = 60.0
    allowed: bool = False


class HookListResult(Wire, frozen=True):
    hooks: tuple[HookRow, ...]
    problems: tuple[str, ...] = ()


class HookAllowParams(Wire, frozen=True):
    """Consent to a command at an event, or take it back."""

    event: str
    command: str
    allowed: bool = True


class CommandRow(Wire, frozen=True):
    """A command that a plugin brings: `kind` slash for clients' prompts, cli for the shell."""

    name: str
    kind: Literal["slash", "cli"]
    description: str = ""
    args_hint: str = ""
    plugin: str = ""


class CommandListResult(Wire, frozen=True):
    commands: tuple[CommandRow, ...]


class CommandRunParams(Wire, frozen=True):
    name: str
    arguments: str = ""
    kind: Literal["slash", "cli"] = "slash"
    session_id: str | None = None


class CommandRunResult(Wire, frozen=True):
    """`text` for people, `data` for programs, `exit_code` for the shell."""

    text: str
    exit_code: int = 0
    data: Any = None


class ToolListResult(Wire, frozen=True):
    tools: tuple[ToolRow, ...]


class MiddlewareRow(Wire, frozen=True):
    point: str
    style: str
    owner: str
    order: int


class MiddlewareListResult(Wire, frozen=True):
    middleware: tuple[MiddlewareRow, ...]


class ModelRow(Wire, frozen=True):
    """One model: `id` is what `--model` takes (provider/name); `state` ready, missing or unreachable with a reason.

    `vision`, `reasoning`, `cache`, the prices (US dollars for a million tokens) and `efforts` (the reasoning efforts it
    takes) are left out where they are not known. `price_from` says who told the prices: settings, endpoint, or bundled
    and the day they were noted.
    """

    id: str
    provider: str
    context_length: int | None = None
    max_output: int | None = None
    tools: bool = True
    default: bool = False
    state: str = "ready"
    note: str = ""
    vision: bool | None = None
    reasoning: bool | None = None
    efforts: tuple[str, ...] | None = None
    input_price: float | None = None
    output_price: float | None = None
    price_from: str = ""
    cache: bool | None = None


class ModelsParams(Wire, frozen=True):
    probe: bool = False


class ModelsResult(Wire, frozen=True):
    models: tuple[ModelRow, ...]
    default: str


class BlobReadParams(Wire, frozen=True):
    blob_id: str
    offset: int = 0
    limit: int = 65_536
    encoding: Literal["utf8", "base64"] = "utf8"


class BlobReadResult(Wire, frozen=True):
    data: str
    eof: bool
    total: int
    next_offset: int


class BlobCreateParams(Wire, frozen=True):
    """Bring a big input, in pieces: the first without `blobId` and at offset 0, the others behind what is there.
    `data` is text, or base64 where `encoding` says so; `final` closes the blob."""

    session_id: str
    data: str
    blob_id: str | None = None
    mime: str = "text/plain; charset=utf-8"
    encoding: Literal["utf8", "base64"] = "utf8"
    offset: int = 0
    final: bool = True
    key: str | None = None


class BlobCreateResult(Wire, frozen=True):
    """`bytes` is what is there now: the offset of the next piece."""

    blob_id: str
    bytes: int


class AuthRow(Wire, frozen=True):
    """Where a key of a provider is looked for. `kind` is variable, keyring, file or none; `state` is set, missing, not
    read (only a call or a test reads it) or not needed. The key itself is in no answer."""

    provider: str
    source: str
    kind: str
    state: str
    note: str = ""


class AuthListResult(Wire, frozen=True):
    keys: tuple[AuthRow, ...]


class AuthTestParams(Wire, frozen=True):
    """Without `provider`: every one that is configured or has a key."""

    provider: str | None = None


class AuthTested(Wire, frozen=True):
    """`kind` is ok, missing, or what went wrong in the words of turn errors (auth, network, rate, …)."""

    provider: str
    source: str
    ok: bool
    kind: str
    message: str
    models: int = 0


class AuthTestResult(Wire, frozen=True):
    tests: tuple[AuthTested, ...]


class AuthSetParams(Wire, frozen=True):
    """`value` is kept in `store` and never told again; null takes the key out of it. `env` is .env of the daemon's
    home, mode 0600."""

    provider: str
    value: str | None
    store: Literal["env", "keyring"] = "env"


class AuthSetResult(Wire, frozen=True):
    keys: tuple[AuthRow, ...]
    where: str
    warnings: tuple[str, ...] = ()


class ConfigGetParams(Wire, frozen=True):
    path: str = ""


class ConfigGetResult(Wire, frozen=True):
    value: Any
    source: str


class ConfigSetParams(Wire, frozen=True):
    """`value` null takes the setting out of the file, back to its default."""

    path: str
    value: Any
    key: str | None = None


class ConfigSetResult(Wire, frozen=True):
    """`changed`: dotted keys that have another value now. `file` is where it was written."""

    value: Any
    changed: tuple[str, ...]
    file: str
    warnings: tuple[str, ...] = ()


class UsageParams(Wire, frozen=True):
    session_id: str | None = None


class SpentRow(Wire, frozen=True):
    """What `calls` model calls used together. `name` is a model's id, or a task: main, compression, title, judge."""

    name: str
    calls: int
    usage: Usage


class UsageResult(Wire, frozen=True):
    """The sum, and the same by model and by task, the most tokens first."""

    usage: Usage
    turns: int
    by_model: tuple[SpentRow, ...] = ()
    by_task: tuple[SpentRow, ...] = ()


class CancelParams(Wire, frozen=True):
    id: str | int


class Method(Wire, frozen=True):
    """One row of METHODS. `mutates` methods accept `key`. `experimental` names the feature a client must have asked for
    in capabilities.experimental; `deprecated` says what to use instead of a method that will go."""

    params: type
    result: type
    order: Order = "free"
    mutates: bool = False
    experimental: str = ""
    deprecated: str = ""


METHODS: dict[str, Method] = {
    "hermes/daemon/status": Method(Empty, StatusResult, "reader"),
    "hermes/daemon/ping": Method(PingParams, PingResult, "reader"),
    "hermes/daemon/shutdown": Method(ShutdownParams, ShutdownResult, "reader"),
    "hermes/daemon/logs": Method(LogsParams, LogsResult),
    "hermes/daemon/metrics": Method(Empty, MetricsResult),
    "hermes/daemon/reload": Method(ReloadParams, ReloadResult),
    "hermes/schema/get": Method(SchemaParams, SchemaResult),
    "hermes/session/create": Method(CreateParams, CreateResult, "free", True),
    "hermes/session/list": Method(ListParams, ListResult),
    "hermes/session/get": Method(SessionParams, GetResult),
    "hermes/session/subscribe": Method(SubscribeParams, SubscribeResult, "session"),
    "hermes/session/unsubscribe": Method(SessionParams, Empty, "session"),
    "hermes/session/items": Method(ItemsParams, ItemsResult),
    "hermes/session/wait": Method(WaitParams, WaitResult),
    "hermes/session/setOption": Method(SetOptionParams, SetOptionResult, "session", True),
    "hermes/session/rename": Method(RenameParams, GetResult, "session", True),
    "hermes/session/archive": Method(ArchiveParams, GetResult, "session", True),
    "hermes/session/events": Method(EventsParams, EventsResult),
    "hermes/session/fork": Method(ForkParams, CreateResult, "session", True),
    "hermes/session/rewind": Method(RewindParams, RewindResult, "session", True),
    "hermes/session/delete": Method(DeleteParams, Empty, "session", True),
    "hermes/session/search": Method(SearchParams, SearchResult),
    "hermes/session/register": Method(RegisterParams, RegisterResult, "session"),
    "hermes/turn/submit": Method(SubmitParams, SubmitResult, "session", True),
    "hermes/turn/steer": Method(SteerParams, SteerResult, "session", True),
    "hermes/turn/interrupt": Method(InterruptParams, InterruptResult, "session", True),
    "hermes/queue/list": Method(QueueParams, QueueResult),
    "hermes/queue/update": Method(QueueUpdateParams, QueueResult, "session", True),
    "hermes/queue/reorder": Method(QueueReorderParams, QueueResult, "session", True),
    "hermes/queue/remove": Method(QueueRemoveParams, QueueResult, "session", True),
    "hermes/queue/resume": Method(QueueParams, QueueResult, "session", True),
    "hermes/request/list": Method(RequestListParams, RequestListResult),
    "hermes/request/answer": Method(AnswerParams, AnswerResult, "session", True),
    "hermes/tool/list": Method(ToolListParams, ToolListResult),
    "hermes/plugin/list": Method(Empty, PluginListResult),
    "hermes/plugin/doctor": Method(Empty, PluginDoctorResult),
    "hermes/hook/list": Method(Empty, HookListResult),
    "hermes/hook/allow": Method(HookAllowParams, HookListResult),
    "hermes/command/list": Method(Empty, CommandListResult),
    "hermes/command/run": Method(CommandRunParams, CommandRunResult),
    "hermes/middleware/list": Method(ToolListParams, MiddlewareListResult),
    "hermes/blob/create": Method(BlobCreateParams, BlobCreateResult, "session", True),
    "hermes/blob/read": Method(BlobReadParams, BlobReadResult),
    "hermes/models/list": Method(ModelsParams, ModelsResult),
    "hermes/auth/list": Method(Empty, AuthListResult),
    "hermes/auth/test": Method(AuthTestParams, AuthTestResult),
    "hermes/auth/set": Method(AuthSetParams, AuthSetResult),
    "hermes/usage/get": Method(UsageParams, UsageResult),
    "hermes/config/get": Method(ConfigGetParams, ConfigGetResult),
    "hermes/config/set": Method(ConfigSetParams, ConfigSetResult, "free", True),
}

NOTIFICATIONS: dict[str, type] = {
    "initialized": Empty,
    "exit": Empty,
    "$/cancelRequest": CancelParams,
    "$/setTrace": Empty,
    "hermes/request/seen": SeenParams,
}


class DesyncParams(Wire, frozen=True):
    session_id: str
    last_seq: int
    reason: Literal["lag", "journal"]


class LagParams(Wire, frozen=True):
    session_id: str
    detail: Literal["final", "full"]


class SessionChangedParams(Wire, frozen=True):
    """A row of a session list as it is now. `deleted`: as it was last, it is to be taken out."""

    session_id: str
    summary: SessionSummary
    deleted: bool = False


class DaemonStateParams(Wire, frozen=True):
    state: Literal["ready", "draining", "stopping"]
    reason: str = ""
    restart: bool = False
    deadline_s: float | None = None


class TelemetryParams(Wire, frozen=True):
    """One fact about work done. `attrs` are flat: numbers, strings, truth values."""

    name: str
    attrs: dict[str, Any]
    session_id: str | None = None
    turn_id: str | None = None


class LogMessageParams(Wire, frozen=True):
    type: int
    message: str


DAEMON_NOTIFICATIONS: dict[str, type] = {
    "hermes/desync": DesyncParams,
    "hermes/lag": LagParams,
    "hermes/session/changed": SessionChangedParams,
    "hermes/daemon/state": DaemonStateParams,
    "telemetry/event": TelemetryParams,
    "window/logMessage": LogMessageParams,
}
