"""classifier-core against llama.cpp's own server with a real model: its chat endpoint answers by schema with
logprobs, and its System One endpoint says that a chat model is no decision model."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_daemon.bundled.classifier_core.answers import Choice, Noul, Score
from hermes_daemon.bundled.classifier_core.client import ClassifierClient, Settings
from hermes_daemon.core.ports import Unavailable
from hermes_daemon.providers import local_child
from hermes_daemon.providers.pull import pull
from hermes_daemon.providers.web import Web

pytestmark = pytest.mark.real
KEY = "the-key-of-the-test"
QUESTIONS = {
    "team": {"type": "choice", "instructions": "Which team?", "criteria": {"billing": "invoices", "bugs": "crashes"}},
    "urgency": {"type": "score", "instructions": "How urgent?", "criteria": ["can wait", "today", "now"]},
    "safe": {"type": "noul", "instructions": "Is it polite?", "criteria": None},
}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """llama.cpp's server over the small model. HERMES_TEST_CACHE keeps the model from run to run."""
    if importlib.util.find_spec("xllamacpp") is None:
        pytest.skip("the engine is not installed (pip install 'hermes-daemon[local]')")
    cache = os.environ.get("HERMES_TEST_CACHE")
    folder = (Path(cache) if cache else tmp_path_factory.mktemp("cache")) / "models"
    try:
        pull("smollm2", str(folder), lambda line: None)
    except Unavailable as error:
        pytest.skip(f"the model cannot be fetched here: {error}")
    config = {"model": str(folder / "smollm2.gguf"), "context_length": 2048, "threads": 2, "api_key": KEY}
    process = subprocess.Popen(
        [sys.executable, local_child.__file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(config) + "\n")
        process.stdin.flush()
        yield json.loads(process.stdout.readline())["url"]
    finally:
        process.kill()
        process.communicate()


def asked(work: Callable[[ClassifierClient], Any], settings: Settings) -> Any:
    async def run() -> Any:
        web = Web()
        client = ClassifierClient(settings, lambda: web, {"KEY": KEY}.get, lambda: 0.0, logging.getLogger("desk"))
        try:
            return await work(client)
        finally:
            await web.close()

    return asyncio.run(run())


def test_a_chat_model_answers_every_kind_of_question_with_probabilities_of_its_own(url: str) -> None:
    async def work(client: ClassifierClient) -> None:
        found = await client.ask("one", "My invoice is wrong, I was charged twice.", QUESTIONS)
        assert found is not None, client.tally.snapshot()
        team, urgency, safe = found["team"], found["urgency"], found["safe"]
        assert isinstance(team, Choice)
        assert isinstance(urgency, Score)
        assert isinstance(safe, Noul)
        assert all(answer.calibrated for answer in found.values())
        assert sum(team.probabilities.values()) == pytest.approx(1)
        assert min(team.probabilities.values()) > 0
        assert 0 < urgency.score < 2
        assert 0 < safe.noul < 1
        labels = await client.classify("one", "The app crashes.", {"team": {"labels": ["billing", "bugs"]}})
        assert labels is not None
        assert labels["team"] in ("billing", "bugs")

    settings = Settings(f"{url}/v1", "smollm2", "KEY", "openai_chat", timeout=100, connect_timeout=20)
    asked(work, settings)


def test_its_system_one_endpoint_is_reached_and_what_it_lacks_is_a_decline(url: str) -> None:
    async def work(client: ClassifierClient) -> None:
        health = await client.probe()
        assert (health.reachable, health.model) == (True, None)
        assert await client.ask("one", "My invoice is wrong.", QUESTIONS) is None
        assert client.tally.snapshot()["declined"] == {"service_error": 1}
        assert "status 501" in client.tally.snapshot()["callers"]["one"]["last_decline"]

    asked(work, Settings(url, api_key_env="KEY", timeout=100, connect_timeout=20))
