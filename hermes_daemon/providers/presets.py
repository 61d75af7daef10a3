"""Endpoints known by name, so that a key in the environment is all it takes; and the quirks of their families, as data.

A preset is active when it is configured under `providers:` (what is set there wins) or when its key is set; its models
can be asked for by name at any time. `providers.NAME.preset` gives the quirks of a family to a server elsewhere.
"""

from __future__ import annotations

from typing import Any

import msgspec

from hermes_daemon.core.settings import ProviderSettings
from hermes_daemon.providers.wire import FormatName, Quirks


class Preset(msgspec.Struct, frozen=True):
    """Where an endpoint is ("" = everybody has an own), which variable holds its key ("" = it needs none), what it
    speaks and what is peculiar to it."""

    base_url: str
    api_key_env: str = ""
    format: FormatName = "openai_chat"
    quirks: Quirks = Quirks()
    query: dict[str, str] = {}
    body: dict[str, Any] = {}


_LEVELS = Quirks(efforts="levels")
_TEMPLATE = Quirks(efforts="template")

PRESETS: dict[str, Preset] = {
    "openai": Preset(
        "https://api.openai.com/v1",
        "OPENAI_API_KEY",
        quirks=Quirks(efforts="openai", output_limit="max_completion_tokens", cache_key=True),
    ),
    "anthropic": Preset("https://api.anthropic.com/v1", "ANTHROPIC_API_KEY", "anthropic_messages"),
    "gemini": Preset(
        "https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY", quirks=Quirks(efforts="gemini")
    ),
    # The address is https://RESOURCE.openai.azure.com/openai; below its newer /v1 the model is named in the body.
    "azure": Preset(
        "",
        "AZURE_OPENAI_API_KEY",
        quirks=Quirks(
            key_header="api-key",
            path="deployments/{model}/chat/completions",
            efforts="openai",
            output_limit="max_completion_tokens",
        ),
        query={"api-version": "2024-10-21"},
    ),
    "openrouter": Preset("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", quirks=Quirks(efforts="openrouter")),
    "groq": Preset("https://api.groq.com/openai/v1", "GROQ_API_KEY", quirks=_LEVELS),
    "deepseek": Preset("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY", quirks=Quirks(efforts="deepseek")),
    # It counts usage unasked, refuses what it does not know, and wants ids of nine characters.
    "mistral": Preset(
        "https://api.mistral.ai/v1",
        "MISTRAL_API_KEY",
        quirks=Quirks(efforts="mistral", include_usage=False, nine_character_ids=True),
    ),
    "together": Preset("https://api.together.xyz/v1", "TOGETHER_API_KEY", quirks=_LEVELS),
    "xai": Preset("https://api.x.ai/v1", "XAI_API_KEY", quirks=_LEVELS),
    "cerebras": Preset("https://api.cerebras.ai/v1", "CEREBRAS_API_KEY", quirks=_LEVELS),
    "ollama": Preset("http://127.0.0.1:11434/v1", quirks=_LEVELS),
    "lmstudio": Preset("http://127.0.0.1:1234/v1", quirks=_LEVELS),
    "vllm": Preset("http://127.0.0.1:8000/v1", quirks=_TEMPLATE),
    "sglang": Preset("http://127.0.0.1:30000/v1", quirks=_TEMPLATE),
    "llamacpp": Preset("http://127.0.0.1:8080/v1", quirks=_TEMPLATE),
}


def with_preset(name: str, settings: ProviderSettings) -> ProviderSettings:
    """The settings with what they leave out taken from the preset they name, else from the one of that name.

    Address, format and the key's variable are taken over only together: a key is not sent where it was not meant to,
    and an own address is believed to speak what the settings say.
    """
    preset = PRESETS.get(settings.preset or name)
    if preset is None:
        return settings
    if settings.base_url and preset.base_url and not settings.preset:
        return settings
    changes: dict[str, Any] = {"query": {**preset.query, **settings.query}, "body": {**preset.body, **settings.body}}
    if settings.format == ProviderSettings().format:
        changes["format"] = preset.format
    if not settings.base_url:
        changes["base_url"] = preset.base_url
    if not settings.key_sources and (not settings.base_url or not preset.base_url):
        changes["api_key_env"] = preset.api_key_env
    return msgspec.structs.replace(settings, **changes)


def is_family(name: str, settings: ProviderSettings) -> bool:
    """Whether a provider belongs to the preset it names or is named like: by its own word, at the preset's address, or
    because servers of that family stand anywhere and need no key."""
    preset = PRESETS.get(settings.preset or name)
    if preset is None:
        return False
    return (
        bool(settings.preset)
        or settings.base_url in ("", preset.base_url)
        or ""
        in (
            preset.api_key_env,
            preset.base_url,
        )
    )


def quirks_of(name: str, settings: ProviderSettings) -> Quirks:
    """The quirks of a provider's family; none where it speaks another format than the family's."""
    preset = PRESETS.get(settings.preset or name)
    if preset is None or settings.format != preset.format or not is_family(name, settings):
        return Quirks()
    return preset.quirks
