"""What the core and the engine need from the outside, as Protocols with contract sentences, and the values they pass.

Implemented by providers, tools, store, server and config; joined in `assemble`. Nothing here does IO.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

import msgspec

from hermes_daemon.core.records import (
    BlobRow,
    EventRow,
    ItemRow,
    Op,
    ProcessRow,
    QueueRow,
    ReceiptRow,
    RequestRow,
    SessionRow,
    TurnRow,
)
from hermes_daemon.core.settings import Settings
from hermes_daemon.core.telemetry import Level, Measured, Series, Told
from hermes_protocol.content import By, Message, Usage
from hermes_protocol.events import FileChange, Outcome, Question, QuestionStatus
from hermes_protocol.methods import AuthRow, AuthTested, ModelRow, SearchHit, SpentRow

T = TypeVar("T")

# --- errors every room may raise --------------------------------------------------------------------------------------


class Refused(Exception):
    """Understood, and will not be done. `hint` says what would help; `kind` is a word from the error table."""

    def __init__(self, reason: str, hint: str = "", kind: str = "failed") -> None:
        super().__init__(f"{reason} {hint}".strip())
        self.reason, self.hint, self.kind = reason, hint, kind


class Rejected(Exception):
    """The request does not fit. `path` is the JSON path of the value that is wrong, such as `$.path`."""

    def __init__(self, message: str, path: str = "$") -> None:
        super().__init__(f"{path}: {message}")
        self.message, self.path = message, path


class Unavailable(Exception):
    """Something outside is down: who, what happened, and when to try again (seconds)."""

    def __init__(self, who: str, message: str, retry_after: float | None = None) -> None:
        super().__init__(f"{who}: {message}")
        self.who, self.message, self.retry_after = who, message, retry_after


class StorageError(Exception):
    """The journal cannot be written now (disk full, read-only, locked too long). Nothing of the write was kept.

    `retryable` is False for an error that the same request meets again whatever becomes of the disk.
    """

    retryable = True


# --- time -------------------------------------------------------------------------------------------------------------


class Clock(Protocol):
    """Time, so that tests can own it."""

    def now(self) -> str:
        """RFC 3339 with milliseconds in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never goes back."""
        ...

    async def sleep(self, seconds: float) -> None: ...


# --- configuration ----------------------------------------------------------------------------------------------------


class Reload(msgspec.Struct, frozen=True):
    """What a reading of the configuration changed: dotted keys with another value. With errors nothing changed."""

    changed: tuple[str, ...] = ()
    errors: tuple[Exception, ...] = ()
    warnings: tuple[str, ...] = ()


class Configuration(Protocol):
    """Settings that can be read again while the daemon runs. `current` is always whole."""

    @property
    def current(self) -> Settings: ...
    @property
    def errors(self) -> tuple[Exception, ...]:
        """The faults of the last reading; `current` is then older than the file."""
        ...

    @property
    def warnings(self) -> tuple[str, ...]: ...

    @property
    def fault(self) -> str:
        """Why no turn may start by these settings, "" when one may."""
        ...

    def reload(self) -> Reload:
        """Read everything again; a broken file changes nothing."""
        ...

    def freshen(self) -> Reload | None:
        """`reload` when a file was changed since the last reading, else None."""
        ...

    @property
    def path(self) -> str:
        """Where config.yaml is, or would be."""
        ...

    def set(self, path: str, value: Any) -> Reload:
        """Write one value, None to take it out, and read everything again. Refused with nothing written when the
        result would be no valid configuration."""
        ...

    def put_secret(self, name: str, value: str | None) -> Reload:
        """Write a credential into home/.env, None to take it out, and read everything again. Refused with nothing
        written where no line of it can hold the value."""
        ...

    def stored(self, name: str) -> bool:
        """Whether the credential in use comes from home/.env."""
        ...

    @property
    def secrets_path(self) -> str:
        """Where home/.env is, or would be."""
        ...

    def get(self, path: str = "") -> tuple[Any, str]:
        """(value, source) of a dotted key, the whole tree for "". Refused for an unknown key."""
        ...


# --- telemetry --------------------------------------------------------------------------------------------------------


class Telemetry(Protocol):
    """Takes what the daemon measures of its own work. Never blocks and never raises. Called on the event loop."""

    @property
    def wanted(self) -> bool:
        """False while nobody takes anything: whoever measures saves itself the making of a fact."""
        ...

    def emit(self, fact: Measured, session_id: str | None = None, turn_id: str | None = None) -> None: ...

    def hear(self, level: Level, take: Callable[[Told], None] | None) -> None:
        """Hand every fact to `take` from now on; `level` is the most that anybody behind it wants."""
        ...

    def series(self) -> tuple[Series, ...]:
        """The metrics counted since the start."""
        ...


# --- models -----------------------------------------------------------------------------------------------------------


class ToolSpec(msgspec.Struct, frozen=True):
    """What a model is told of a tool. `parameters` is a JSON Schema of type object."""

    name: str
    description: str
    parameters: dict[str, Any]


class Request(msgspec.Struct, frozen=True):
    """One provider call. `messages` obey the laws of core.history; `system` is apart.

    `extra_body` and `extra_headers` are what middleware adds: a provider merges them into what it sends.
    """

    model: str
    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    max_output: int | None = None
    temperature: float | None = None
    thinking: str | None = None
    session_id: str = ""
    extra_body: dict[str, Any] = {}
    extra_headers: dict[str, str] = {}


class TextDelta(msgspec.Struct, frozen=True):
    text: str


class ReasoningDelta(msgspec.Struct, frozen=True):
    text: str


class CallDelta(msgspec.Struct, frozen=True):
    """A call is being written: its name and how many characters of arguments are there. For progress only."""

    index: int
    name: str
    chars: int


Stop: TypeAlias = Literal["stop", "tool_calls", "length", "refusal"]


class Reply(msgspec.Struct, frozen=True):
    """The last chunk of every stream that succeeds: the whole assistant message, why it stopped, and the usage.

    Every call has a unique, non-empty call_id. `stop` "length" means the output was cut: the last call may be cut too.
    """

    message: Message
    stop: Stop
    usage: Usage | None = None


Chunk: TypeAlias = TextDelta | ReasoningDelta | CallDelta | Reply


FailureKind: TypeAlias = Literal[
    "auth", "quota", "rate", "overload", "context_overflow", "bad_request", "content_filter", "network", "stall",
    "malformed", "incomplete", "model_missing", "local",
]  # fmt: skip


class ProviderFailure(Exception):
    """A provider call failed: the kind, one sentence with URL and what to do, HTTP status, seconds to wait if told.

    `context_limit` is the model's window in tokens where a context_overflow named it.
    """

    def __init__(
        self,
        kind: FailureKind,
        message: str,
        *,
        provider: str,
        status: int | None = None,
        retryable: bool = False,
        retry_after: float | None = None,
        context_limit: int | None = None,
    ) -> None:
        super().__init__(message)
        self.kind, self.message, self.provider = kind, message, provider
        self.status, self.retryable, self.retry_after = status, retryable, retry_after
        self.context_limit = context_limit


class ModelInfo(msgspec.Struct, frozen=True):
    """A model as the daemon knows it: `id` is provider/name, `name` is what the endpoint is told. `efforts` are the
    words of Request.thinking it takes; None = unknown."""

    id: str
    name: str
    provider: str
    context_length: int = 128_000
    max_output: int | None = None
    tools: bool = True
    vision: bool = False
    note: str = ""
    efforts: tuple[str, ...] | None = None


class Provider(Protocol):
    """A wire format. One object serves all sessions."""

    @property
    def name(self) -> str: ...

    def stream(self, request: Request) -> AsyncIterator[Chunk]:
        """Chunks as they come, the Reply last. Raises ProviderFailure. Closing the iterator closes the connection."""
        ...

    async def close(self) -> None:
        """Give up connections and children. Safe to call twice."""
        ...


class Models(Protocol):
    """The catalog: which models there are and who speaks for them."""

    def default(self) -> str:
        """The id used when nobody says otherwise. Never raises; with nothing configured it is the local model."""
        ...

    def resolve(self, model: str | None) -> tuple[Provider, ModelInfo]:
        """The provider for a model id. Refused (kind `invalid_params`) names the nearest known ids."""
        ...

    async def rows(self, probe: bool) -> tuple[ModelRow, ...]:
        """What `hermes models` lists; `probe` may ask endpoints, bounded in time."""
        ...

    def auth_rows(self) -> tuple[AuthRow, ...]:
        """Where the keys of endpoints are looked for; only variables are read."""
        ...

    async def test_keys(self, provider: str) -> tuple[AuthTested, ...]:
        """Each key of an endpoint, tried, bounded in time. Refused for a provider that is not known."""
        ...

    def key_source(self, provider: str, store: Literal["env", "keyring"]) -> str:
        """Where a key of this endpoint is to be kept: a variable's name, or `keyring:SERVICE/USER`. Refused for a
        provider that is not known."""
        ...

    async def keep_key(self, source: str, value: str | None) -> None:
        """Put a key into the system's key store, None takes it out. Refused when there is none."""
        ...

    async def close(self) -> None: ...


# --- tools ------------------------------------------------------------------------------------------------------------


class ToolCard(msgspec.Struct, frozen=True):
    """What is known of a tool before it runs. `paths` names the arguments that are file paths."""

    name: str
    toolset: str
    description: str
    parameters: dict[str, Any]
    read_only: bool = False
    kind: Literal["read", "edit", "search", "execute", "fetch", "think", "other"] = "other"
    paths: tuple[str, ...] = ()

    def spec(self) -> ToolSpec:
        """The part of the card a model is told."""
        return ToolSpec(self.name, self.description, self.parameters)


class ToolOutcome(msgspec.Struct, frozen=True):
    """What a run gives back. `text` goes to the model (and to clients unless `shown` differs); errors are values."""

    text: str
    is_error: bool = False
    shown: str | None = None
    exit_code: int | None = None
    changes: tuple[FileChange, ...] = ()


class Processes(Protocol):
    """Children that must not outlive the daemon. A row is durable before the child may do harm."""

    async def started(self, pid: int, marker: str, command: str) -> None: ...

    async def ended(self, pid: int) -> None: ...


class Ask(msgspec.Struct, frozen=True):
    """What a tool asks people. clarify: `questions`, each with an id of its own; secret: `prompt` and the `name` of
    what is wanted; form: `prompt` and a flat JSON `schema` (an object whose properties are strings, numbers, booleans,
    or lists of words). `timeout_s` None: the setting approvals.timeout."""

    kind: Literal["clarify", "secret", "form"]
    questions: tuple[Question, ...] = ()
    prompt: str = ""
    name: str = ""
    schema: dict[str, Any] = {}
    timeout_s: float | None = None


class Answered(msgspec.Struct, frozen=True):
    """How it ended. `answers` has a row for each question of a clarify, also after a time-out; `value` is the secret,
    `values` the form, both only with the outcome "answered"."""

    outcome: Outcome
    answers: tuple[QuestionStatus, ...] = ()
    value: str | None = None
    values: dict[str, Any] | None = None
    by: By | None = None


class ToolContext(Protocol):
    """What a running tool may know and do. Cancellation arrives as asyncio.CancelledError: clean up, then re-raise."""

    @property
    def session_id(self) -> str: ...
    @property
    def turn_id(self) -> str: ...
    @property
    def call_id(self) -> str: ...
    @property
    def cwd(self) -> str: ...
    @property
    def env(self) -> Mapping[str, str]:
        """The session's environment, complete; never the daemon's own."""
        ...

    @property
    def settings(self) -> Settings: ...
    @property
    def processes(self) -> Processes: ...

    def progress(self, text: str) -> None:
        """More output, as it comes. Never blocks; clients see it at once."""
        ...

    @property
    def transforms_output(self) -> bool:
        """True when somebody may change the output of commands: then it is worth keeping all of it."""
        ...

    async def transform_output(self, command: str, output: str, code: int | None) -> str:
        """The output of a command, its limits not yet applied, as middleware leaves it. `code` is its exit code."""
        ...

    async def ask(self, request: Ask) -> Answered:
        """Ask the people who follow the session, and wait. Silence, a refusal and nobody being there are outcomes.
        Rejected when the request itself does not fit."""
        ...


class Tool(Protocol):
    """A tool. `run` gets arguments that fit the card's schema and were approved."""

    @property
    def card(self) -> ToolCard: ...

    def title(self, args: Mapping[str, Any]) -> str:
        """One line for people: what this call will do."""
        ...

    async def run(self, args: dict[str, Any], ctx: ToolContext) -> ToolOutcome:
        """Do it. A failure is an outcome with is_error; an exception is a bug."""
        ...


class Tools(Protocol):
    """The registry of tools."""

    def all(self) -> Sequence[Tool]: ...

    def get(self, name: str) -> Tool | None: ...


# --- what guests may ask ----------------------------------------------------------------------------------------------


class Host(Protocol):
    """What plugins and tools may ask of the engine."""

    async def dispatch_tool(self, session_id: str, name: str, args: dict[str, Any]) -> ToolOutcome:
        """Run a tool as the session's model would: with policy, approval, and the session's toolsets."""
        ...

    async def inject_message(self, session_id: str, text: str, who: str) -> str:
        """Submit text to a session in the name of a plugin; the turn it starts or joins."""
        ...

    def cancel_model_call(self, session_id: str, reason: str) -> bool:
        """Break off the model call that runs; False when none does. Completed work stays."""
        ...

    def set_turn_reasoning(self, session_id: str, effort: str, reason: str) -> str:
        """Set the reasoning effort of the running turn; "" when it is taken, else why not."""
        ...


class HttpReply(msgspec.Struct, frozen=True):
    """The answer of a server, whatever its status. Header names are lower case. `cut`: the body was longer."""

    status: int
    headers: dict[str, str]
    body: bytes
    cut: bool = False


class Http(Protocol):
    """HTTP for guests: one exchange, no cookies, no redirects followed."""

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        timeout_s: float = 30.0,
        connect_timeout_s: float | None = None,
        max_bytes: int = 8_388_608,
    ) -> HttpReply:
        """The answer. `timeout_s` is for the whole exchange; of the body at most `max_bytes` are read.

        Raises Unavailable when there is no whole answer, Rejected for an address or header that cannot be sent; neither
        says more of the address than its host. May be awaited in any event loop of the process.
        """
        ...


FrictionOutcome: TypeAlias = Literal["filed", "quota", "disabled", "no_sink", "failed"]


class GateFriction(msgspec.Struct, frozen=True):
    """A gate of a plugin stood in the way of work. `source` is the plugin, `kind` what happened (repeated_hold,
    budget_exhausted …), `identity` tells the same obstacle again from another one, `detail` is for people."""

    source: str
    kind: str
    identity: str
    detail: str = ""


class FrictionSink(Protocol):
    """The service `papercuts.friction`; with the plugin off there is none, and the producer counts that itself."""

    async def report(self, friction: GateFriction) -> FrictionOutcome:
        """File it as a papercut, within the day's quota, and say what became of it. Never raises."""
        ...


class LoadedPlugin(msgspec.Struct, frozen=True):
    """A plugin as this process runs it. `path` is its folder, or the module's file of one from a package; `digest` is
    of its source when it was loaded."""

    id: str
    path: str
    digest: str


# --- storage ----------------------------------------------------------------------------------------------------------


class Page(msgspec.Struct, frozen=True):
    """Rows and the cursor of the next page, or None."""

    rows: tuple[Any, ...]
    next_cursor: str | None = None


class Store(Protocol):
    """Everything durable. One writer, first in first out; reads see every write that was awaited.

    `write` applies its ops in one transaction. With `durable` it returns after the commit reached the disk
    (synchronous=FULL); without, after a commit that survives a killed process. Writes are numbered in call order also
    when not awaited at once. Raises StorageError with nothing kept. `patience` is how long a write may wait for a
    locked, full or read-only database before it fails; None waits until it works.
    """

    def write(self, *ops: Op, durable: bool = True, patience: float | None = 0.0) -> Awaitable[None]: ...

    def session(self, session_id: str) -> SessionRow | None:
        """The row, also of a deleted session (a tombstone has `deleted_at`)."""
        ...

    def sessions(self, *, limit: int, cursor: str | None = None, cwd: str | None = None, query: str | None = None,
                 archived: bool | None = None) -> Page: ...  # fmt: skip

    def messages(self, session_id: str) -> tuple[Message, ...]:
        """The live history, in order."""
        ...

    def item(self, session_id: str, item_id: str) -> ItemRow | None: ...

    def items(
        self,
        session_id: str,
        *,
        limit: int,
        before: str | None = None,
        after: str | None = None,
        order: Literal["asc", "desc"] = "asc",
    ) -> Page:
        """Completed items by position. `before`/`after` are item ids; KeyError when such an item is unknown."""
        ...  # fmt: skip

    def open_items(self, session_id: str) -> tuple[ItemRow, ...]:
        """Items begun and not completed (only after a crash), with the text their journaled deltas hold."""
        ...

    def events(self, session_id: str, after: int, limit: int) -> tuple[EventRow, ...]: ...

    def event_bytes(self, session_id: str, after: int) -> int:
        """Bytes of the data of the events behind this number."""
        ...

    def event_range(self, session_id: str) -> tuple[int, int]:
        """(oldest retained seq, newest seq), (0, 0) when there is none."""
        ...

    def receipt(self, scope: str, method: str, key: str) -> ReceiptRow | None: ...

    def open_turns(self) -> tuple[TurnRow, ...]: ...

    def queue(self, session_id: str) -> QueueRow | None: ...

    def queued_sessions(self) -> tuple[str, ...]:
        """Ids of the sessions whose queue holds something."""
        ...

    def open_requests(self) -> tuple[RequestRow, ...]: ...

    def processes(self) -> tuple[ProcessRow, ...]: ...

    def grants(self) -> tuple[str, ...]: ...

    def search(self, query: str, *, limit: int, cwd: str | None = None) -> tuple[SearchHit, ...]: ...

    def blob(self, blob_id: str, offset: int, limit: int) -> tuple[bytes, int] | None:
        """(bytes from offset, total size), or None for an unknown blob."""
        ...

    def blob_row(self, blob_id: str) -> BlobRow | None: ...

    def blob_held(self, session_id: str, blob_id: str) -> bool:
        """Whether the session made the blob or has an item that speaks of it."""
        ...

    def blob_bytes(self, session_id: str) -> int:
        """Bytes of all blobs that the session made."""
        ...

    def items_behind(self, session_id: str, item_id: str | None) -> int:
        """How many items, open ones too, stand behind this one; all for None. KeyError when it is unknown."""
        ...

    def counts(self) -> dict[str, int]:
        """sessions, turns, messages, bytes."""
        ...

    def usage(self, session_id: str | None) -> tuple[Usage, int]:
        """Tokens and the number of turns, of a session or of all."""
        ...

    def spent(self, session_id: str | None, by: Literal["model", "task"]) -> tuple[SpentRow, ...]:
        """The same for each model or task, the most tokens first."""
        ...

    @property
    def health(self) -> str:
        """ "ok", or a sentence about what is wrong (set by the last failed write, cleared by the next good one)."""
        ...

    async def health_other_than(self, seen: str) -> str:
        """Wait until `health` is another than `seen`, or the store is closed, and return it. StorageError when it was
        closed before."""
        ...

    @property
    def warnings(self) -> tuple[str, ...]:
        """What opening found and did, such as a corrupt database set aside."""
        ...

    async def close(self) -> None: ...


class Rows(Protocol):
    """The tables of a plugin within one transaction. Errors are StorageError."""

    def execute(self, sql: str, params: Sequence[Any] = ()) -> int:
        """Run one statement; how many rows it changed."""
        ...

    def query(self, sql: str, params: Sequence[Any] = ()) -> tuple[dict[str, Any], ...]:
        """The rows a statement gives, each by column name."""
        ...


class Database(Protocol):
    """A database file of one plugin. Nothing is made or opened before the first use; use it from any thread.

    StorageError where it cannot be opened, stays locked by another process for 20 s, or a statement does not fit.
    """

    async def run(self, work: Callable[[Rows], T]) -> T:
        """`work` in a thread, in one transaction that has the write lock from its beginning: all of it or, when it
        raises, nothing. A cancelled wait does not take it back."""
        ...

    async def execute(self, sql: str, params: Sequence[Any] = ()) -> int:
        """One statement as a transaction."""
        ...

    async def query(self, sql: str, params: Sequence[Any] = ()) -> tuple[dict[str, Any], ...]:
        """Rows, without waiting for writers."""
        ...

    def close(self) -> None:
        """Close the file; a later use opens it again."""
        ...
