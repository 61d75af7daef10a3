"""Typed settings, one Struct a section of config.yaml. `config.py` loads and saves them; nobody else reads files.

Field names are the keys of config.yaml. Times are seconds, sizes bytes or characters as named.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec

Positive: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]
Natural: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
Seconds: TypeAlias = Annotated[float, msgspec.Meta(ge=0)]
Share: TypeAlias = Annotated[float, msgspec.Meta(gt=0, le=1)]

Effort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra"]

Preset: TypeAlias = Literal[
    "", "openai", "anthropic", "gemini", "azure", "openrouter", "groq", "deepseek", "mistral", "together", "xai",
    "cerebras", "ollama", "lmstudio", "vllm", "sglang", "llamacpp",
]  # fmt: skip


class Section(msgspec.Struct, frozen=True, omit_defaults=True):
    """Base of the sections."""


class ModelEntry(Section, frozen=True):
    """What is known of one model of a provider; everything else is probed or assumed."""

    name: str
    context_length: int | None = None
    max_output: int | None = None
    tools: bool | None = None
    vision: bool | None = None
    input_price: float | None = None
    output_price: float | None = None
    cache_read_price: float | None = None
    cache_write_price: float | None = None
    reasoning: bool | None = None
    efforts: tuple[Effort, ...] | None = None
    adaptive_thinking: bool | None = None
    cache: bool | None = None


class ProviderSettings(Section, frozen=True):
    """An endpoint. `api_key_env` names the variable (environment or home/.env) that holds the key, or several of them;
    an entry may also be `keyring:SERVICE/USER` or `file:PATH`."""

    base_url: str = ""
    format: Literal["openai_chat", "openai_responses", "anthropic_messages", "ollama"] = "openai_chat"
    preset: Preset = ""
    api_key_env: str | tuple[str, ...] = ""
    key_header: Literal["", "authorization", "x-api-key", "api-key"] = ""
    headers: dict[str, str] = {}
    query: dict[str, str] = {}
    body: dict[str, Any] = {}
    images: Literal["placeholder", "refuse"] = "placeholder"
    prompt_caching: bool = True
    models: tuple[ModelEntry | str, ...] = ()
    connect_timeout: Seconds = 10.0
    stall_timeout: Seconds = 120.0
    verify_tls: bool = True

    @property
    def key_sources(self) -> tuple[str, ...]:
        """Where its keys are, in the order they are used."""
        sources = (self.api_key_env,) if isinstance(self.api_key_env, str) else self.api_key_env
        return tuple(source for source in sources if source)


class ModelSettings(Section, frozen=True):
    """`default` is a model id, provider/name. Empty: the first configured provider, else the local model. `fallbacks`
    are asked in their order, for the rest of a turn, when its model fails."""

    default: str = ""
    fallbacks: tuple[str, ...] = ()
    max_output: int | None = None
    temperature: float | None = None
    thinking: str | None = None


class AuxiliaryEntry(Section, frozen=True):
    """A model for one task beside the conversation. Empty `model`: the session's own. `timeout` in seconds holds for
    each model that is asked; with `fallback` the session's own is asked when this one fails."""

    model: str = ""
    timeout: Annotated[float, msgspec.Meta(gt=0)] = 30.0
    fallback: bool = True


class LocalSettings(Section, frozen=True):
    """The embedded model: name or path, idle time before its process is stopped, threads (0 = all cores but one)."""

    model: str = "smollm2"
    context_length: Positive = 4096
    idle_s: Seconds = 300.0
    threads: Natural = 0
    start_timeout: Seconds = 60.0


class AgentSettings(Section, frozen=True):
    max_rounds: Positive = 90
    api_max_retries: Natural = 3
    interrupt_grace_s: Seconds = 10.0
    system_prompt: str = ""
    max_verify_nudges: Natural = 3
    max_response_bytes: Natural = 0


class ApprovalSettings(Section, frozen=True):
    """`allow` and `deny` are glob patterns over `tool` or `tool:argument`; deny holds even with mode off. `unattended`
    holds further patterns by name, for sessions whose option `unattended` is that name."""

    mode: Literal["manual", "smart", "off"] = "manual"
    timeout: Seconds = 300.0
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    unattended: dict[str, tuple[str, ...]] = {}


class TerminalSettings(Section, frozen=True):
    timeout: Seconds = 180.0
    max_timeout: Seconds = 600.0
    grace_s: Seconds = 2.0
    shell: str = ""
    env_allow: tuple[str, ...] = ()


class ToolOutputSettings(Section, frozen=True):
    max_bytes: Positive = 50_000
    max_lines: Positive = 2000
    max_line_length: Positive = 2000


class ToolsSettings(Section, frozen=True):
    disabled: tuple[str, ...] = ()
    allow_outside: bool = False


class SecuritySettings(Section, frozen=True):
    redact_secrets: bool = True


class DaemonSettings(Section, frozen=True):
    """`idle_exit_s` 0 = never. `queue_after_restart` says what queued turns do after a crash."""

    idle_exit_s: Seconds = 1800.0
    drain_deadline_s: Seconds = 30.0
    queue_after_restart: Literal["pause", "resume"] = "pause"
    max_frame_bytes: Positive = 8_388_608
    outbox_soft_bytes: Positive = 1_048_576
    outbox_hard_bytes: Positive = 8_388_608


class ListenSettings(Section, frozen=True):
    """Network listeners beside the unix socket; addresses are HOST:PORT, port 0 takes a free one. Read at the start.

    `loopback_without_token` asks nobody on this machine for the token; `ping_s` is the period of WebSocket pings.
    """

    tcp: tuple[str, ...] = ()
    tls: tuple[str, ...] = ()
    tls_cert: str = ""
    tls_key: str = ""
    allow_remote: bool = False
    token_file: str = ""
    loopback_without_token: bool = False
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    ping_s: Seconds = 20.0


class DatabaseSettings(Section, frozen=True):
    journal_mode: Literal["wal", "delete"] = "wal"
    retain_events: Positive = 10_000
    retain_days: Positive = 7
    receipt_hours: Positive = 24
    session_blob_bytes: Positive = 1_073_741_824


class LoggingSettings(Section, frozen=True):
    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    max_bytes: Positive = 5_242_880
    backups: Natural = 3


class DisplaySettings(Section, frozen=True):
    markdown: bool = True
    tool_output_lines: Positive = 12
    reasoning: bool = False


class PluginEntry(Section, frozen=True):
    """One plugin: its own settings, what the user granted it, the MCP servers it may call."""

    settings: dict[str, Any] = {}
    granted_capabilities: tuple[str, ...] = ()
    mcp_allowlist: tuple[str, ...] = ()


class PluginsSettings(Section, frozen=True):
    """Plugins are off until enabled; `disabled` wins. `project` lets a project's .hermes/plugins be found;
    `safe_mode` loads none and runs no shell hook."""

    enabled: tuple[str, ...] = ()
    disabled: tuple[str, ...] = ()
    entries: dict[str, PluginEntry] = {}
    project: bool = False
    safe_mode: bool = False
    load_timeout_seconds: Seconds = 10.0
    hook_callback_timeout: Seconds = 30.0
    stream_reasoning_deltas: bool = False


class HookCommand(Section, frozen=True):
    """A shell hook. `matcher` is a regular expression over the tool's whole name; seconds in `timeout`."""

    command: str = ""
    matcher: str = ""
    timeout: Annotated[float, msgspec.Meta(ge=1, le=300)] = 60.0
    fail_closed: bool = False


class CompressionSettings(Section, frozen=True):
    """When and how conversations are compacted. Sizes are tokens of the model."""

    threshold: Share = 0.8
    threshold_tokens: Positive | None = None
    tail_tokens: Natural = 0
    protect_first_n: Natural = 0
    protect_last_n: Natural = 20
    proactive_prune_tokens: Natural = 0
    proactive_prune_min_result_chars: Annotated[int, msgspec.Meta(ge=200)] = 8000
    proactive_prune_min_reclaim_tokens: Natural = 4096
    micro_compact: bool = False
    micro_compact_every_n_turns: Positive = 1
    micro_compact_min_reclaim_tokens: Natural | Literal["auto"] = "auto"
    micro_compact_defrag_threshold_tokens: Positive = 2000
    micro_compact_compat: Literal["", "seed"] = ""


class OtelSettings(Section, frozen=True):
    """Export by OTLP. The paths /v1/traces and /v1/metrics are added to `endpoint`; `queue` counts spans."""

    enabled: bool = False
    endpoint: str = "http://localhost:4318"
    protocol: Literal["http", "http/protobuf"] = "http"
    headers: dict[str, str] = {}
    service_name: str = "hermes-daemon"
    attributes: dict[str, str] = {}
    timeout: Annotated[float, msgspec.Meta(gt=0)] = 10.0
    interval: Annotated[float, msgspec.Meta(ge=0.1)] = 5.0
    queue: Positive = 2048


class TelemetrySettings(Section, frozen=True):
    metrics: bool = True
    otel: OtelSettings = OtelSettings()


class Settings(Section, frozen=True):
    model: ModelSettings = ModelSettings()
    providers: dict[str, ProviderSettings] = {}
    auxiliary: dict[str, AuxiliaryEntry] = {}
    local: LocalSettings = LocalSettings()
    agent: AgentSettings = AgentSettings()
    approvals: ApprovalSettings = ApprovalSettings()
    terminal: TerminalSettings = TerminalSettings()
    tool_output: ToolOutputSettings = ToolOutputSettings()
    tools: ToolsSettings = ToolsSettings()
    security: SecuritySettings = SecuritySettings()
    daemon: DaemonSettings = DaemonSettings()
    listen: ListenSettings = ListenSettings()
    database: DatabaseSettings = DatabaseSettings()
    logging: LoggingSettings = LoggingSettings()
    display: DisplaySettings = DisplaySettings()
    compression: CompressionSettings = CompressionSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    plugins: PluginsSettings = PluginsSettings()
    hooks: dict[str, tuple[HookCommand, ...]] = {}
    hooks_auto_accept: bool = False
