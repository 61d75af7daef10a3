"""Every configuration of the how-to page is loaded, and a whole round of tools is held with what it configures."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import pytest

from hermes_daemon.config import load
from hermes_daemon.core.settings import ProviderSettings, Settings
from hermes_daemon.providers.catalog import Catalog
from hermes_daemon.providers.presets import with_preset
from tests.support.formats_talk import TOOLS, conversation, recorded
from tests.support.model_streams import answer, asking
from tests.support.raw_http import HttpConnection, HttpRequest, RawHttp
from tests.support.shared_data import REPOSITORY

PAGE = (REPOSITORY / "docs" / "howto" / "providers.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
PATHS = {"openai_chat": "chat/completions", "openai_responses": "responses", "anthropic_messages": "v1/messages",
         "ollama": "api/chat"}  # fmt: skip


def test_the_page_has_all_families() -> None:
    names = {name for block in BLOCKS for name in re.findall(r"^  (\w+):$", block, re.MULTILINE)}
    families = {
        "openai",
        "anthropic",
        "gemini",
        "azure",
        "openrouter",
        "groq",
        "deepseek",
        "mistral",
        "vllm",
        "llamacpp",
    }
    assert families | {"lmstudio", "ollama"} <= names
    assert "preset: sglang" in PAGE


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.split()[1].rstrip(":"))
def test_a_block_is_valid_and_its_providers_hold_a_round_of_tools(block: str, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(block)
    loaded = load(str(tmp_path), {})
    assert (loaded.errors, loaded.warnings) == ((), ())
    for name, told in loaded.settings.providers.items():
        asyncio.run(hold_a_round(name, told, tmp_path))


async def hold_a_round(name: str, told: ProviderSettings, folder: Path) -> None:
    """Ask a loopback server what the provider's own would be asked: same path, same format, same key."""
    joined = with_preset(name, told)

    async def handler(request: HttpRequest, connection: HttpConnection) -> None:
        await connection.begin_stream("application/x-ndjson" if joined.format == "ollama" else "text/event-stream")
        for piece in recorded(joined.format):
            await connection.piece(piece)
        await connection.end_stream()

    async with RawHttp(handler) as server:
        # The family stays: it is named, because the address is not the family's own any more.
        preset = told.preset or (name if joined is not told else "")
        moved = msgspec.structs.replace(joined, base_url=server.url + urlsplit(joined.base_url).path, preset=preset)
        catalog = Catalog(Settings(providers={name: moved}), lambda source: f"key-of-{source}", str(folder / name))
        model = next((m if isinstance(m, str) else m.name for m in told.models), "any-model")
        provider, info = catalog.resolve(f"{name}/{model}")
        first = await answer(provider, asking("What is in a.txt?", info.name, tools=TOOLS))
        assert [call.name for call in first.message.calls] == ["read_file", "todo"]
        await answer(provider, msgspec.structs.replace(conversation(answered=first.message), model=info.name))
        await catalog.close()
    sent = server.requests[0]
    assert sent.path.partition("?")[0].endswith(PATHS[joined.format])
    for key, value in joined.query.items():
        assert f"{key}={value}" in sent.path
    for key, value in joined.body.items():
        assert sent.json()[key] == value
    keys = [f"key-of-{source}" for source in joined.key_sources[:1]]
    assert all(any(key in text for text in sent.headers.values()) for key in keys)
    assert "result 0" in json.dumps(server.requests[1].json())
