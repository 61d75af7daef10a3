"""Endpoints known by name, so that a key in the environment is all it takes.

A preset is active when it is configured under `providers:` (what is set there wins) or when its key is set; its models
can be asked for by name at any time.
"""

from __future__ import annotations

import msgspec

from hermes_daemon.core.settings import ProviderSettings


class Preset(msgspec.Struct, frozen=True):
    """Where an endpoint is and which variable holds its key ("" = it needs none)."""

    base_url: str
    api_key_env: str = ""


PRESETS: dict[str, Preset] = {
    "openai": Preset("https://api.openai.com/v1", "OPENAI_API_KEY"),
    "openrouter": Preset("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "groq": Preset("https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    "deepseek": Preset("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    "mistral": Preset("https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    "together": Preset("https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    "xai": Preset("https://api.x.ai/v1", "XAI_API_KEY"),
    "cerebras": Preset("https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
    "ollama": Preset("http://127.0.0.1:11434/v1"),
    "lmstudio": Preset("http://127.0.0.1:1234/v1"),
    "vllm": Preset("http://127.0.0.1:8000/v1"),
    "llamacpp": Preset("http://127.0.0.1:8080/v1"),
}


def with_preset(name: str, settings: ProviderSettings) -> ProviderSettings:
    """The settings with what they leave out taken from the preset of that name, if there is one.

    The key's variable is taken over only with the preset's own address: a key is not sent where it was not meant to.
    """
    preset = PRESETS.get(name)
    if preset is None or settings.base_url:
        return settings
    return msgspec.structs.replace(
        settings, base_url=preset.base_url, api_key_env=settings.api_key_env or preset.api_key_env
    )
