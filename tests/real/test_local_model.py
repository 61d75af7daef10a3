"""The embedded model itself: fetched once, loaded by the real engine in its own process, asked and killed."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from hermes_daemon.core.ports import ProviderFailure, TextDelta, Unavailable
from hermes_daemon.core.settings import LocalSettings, Settings
from hermes_daemon.providers.catalog import Catalog
from hermes_daemon.providers.local import Local
from hermes_daemon.providers.pull import pull
from tests.support.model_streams import answer, asking, collect

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder that holds the fetched model; HERMES_TEST_CACHE keeps it from run to run."""
    if importlib.util.find_spec("xllamacpp") is None:
        pytest.skip("the engine is not installed (pip install 'hermes-daemon[local]')")
    cache = os.environ.get("HERMES_TEST_CACHE")
    folder = Path(cache) if cache else tmp_path_factory.mktemp("cache")
    try:
        pull("smollm2", str(folder / "models"), lambda line: None)
    except Unavailable as error:
        pytest.skip(f"the model cannot be fetched here: {error}")
    return folder


def run(folder: Path, use: Callable[[Local, str], Awaitable[Any]], **settings: Any) -> None:
    async def main() -> None:
        catalog = Catalog(Settings(local=LocalSettings(**settings)), lambda name: None, str(folder))
        provider, info = catalog.resolve(None)
        assert isinstance(provider, Local)
        try:
            await use(provider, info.name)
        finally:
            await catalog.close()

    asyncio.run(main())


def test_a_real_answer_is_streamed(models: Path) -> None:
    async def use(local: Local, name: str) -> None:
        chunks, failure = await collect(local, asking("What is the capital of France?", name, max_output=40))
        assert failure is None
        assert sum(isinstance(chunk, TextDelta) for chunk in chunks) > 2
        reply = await answer(local, asking("What is the capital of France?", name, max_output=40))
        assert any(letter.isalpha() for letter in reply.message.text)  # what it says is its own affair
        assert reply.usage is not None
        assert 0 < reply.usage.output_tokens <= 40

    run(models, use)


def test_a_killed_engine_is_told_and_the_next_request_works(models: Path) -> None:
    async def use(local: Local, name: str) -> None:
        async def kill_when_it_speaks() -> ProviderFailure | None:
            try:
                async for _ in local.stream(asking("Count from one to two hundred.", name, max_output=500)):
                    if (pid := local.pid(name)) is not None:
                        os.kill(pid, signal.SIGKILL)
            except ProviderFailure as failure:
                return failure
            return None

        failure = await kill_when_it_speaks()
        assert failure is not None
        assert failure.retryable
        assert "killed by signal 9" in failure.message
        assert (await answer(local, asking("Say hello.", name, max_output=10))).message.text

    run(models, use)


def test_a_conversation_beyond_the_window_is_an_overflow(models: Path) -> None:
    async def use(local: Local, name: str) -> None:
        _, failure = await collect(local, asking("word " * 3000, name))
        assert failure is not None
        assert failure.kind == "context_overflow"
        assert "512 tokens" in failure.message

    run(models, use, context_length=512)


def test_a_file_that_is_no_model_gives_the_engines_words(tmp_path: Path) -> None:
    if importlib.util.find_spec("xllamacpp") is None:
        pytest.skip("the engine is not installed (pip install 'hermes-daemon[local]')")
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "smollm2.gguf").write_bytes(b"GGUF but nothing behind it")

    async def use(local: Local, name: str) -> None:
        _, failure = await collect(local, asking("hi", name))
        assert failure is not None
        assert "did not load" in failure.message
        assert "load" in failure.message.partition("did not load: ")[2]

    run(tmp_path, use)
