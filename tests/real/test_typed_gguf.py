"""classifier-core against typed-gguf's System One server.

Its server, its checks of requests and its projection of answers are its own. Without a model it answers as it does on
a new machine; for answers its engine is replaced by one that weighs options, as its llama.cpp build is fetched from
outside the package index.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_daemon.bundled.classifier_core.answers import Answer, Choice, Noul, Score
from hermes_daemon.bundled.classifier_core.client import ClassifierClient, Settings
from hermes_daemon.providers.web import Web

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(importlib.util.find_spec("typed_gguf") is None, reason="typed-gguf is not installed"),
]
QUESTIONS = {
    "team": {"type": "choice", "instructions": "Who?", "criteria": {"billing": "money", "technical": None}},
    "urgency": {"type": "score", "instructions": "How urgent?", "criteria": ["can wait", "today", "now"]},
    "safe": {"type": "noul", "instructions": "Is it safe?", "criteria": {"true": "harmless", "false": "harmful"}},
    "bare": {"type": "noul", "instructions": "", "criteria": None},
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home of typed-gguf whose registry names one model; its file is never opened by the tests."""
    return tmp_path / "typed-gguf"


@pytest.fixture
def command_url(home: Path) -> Iterator[str]:
    """`typed-gguf serve` as a process, without a model."""
    environment = {**os.environ, "TYPED_GGUF_HOME": str(home), "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, text=True
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


SERVE = """
from typed_gguf import cli
from typed_gguf.api import http
server = http.make_server(cli.serve_app(keep_alive=0.0), port=0)
print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
server.serve_forever()
"""


def asked(url: str, work: Callable[[ClassifierClient], Any], model: str = "") -> Any:
    async def run() -> Any:
        web = Web()
        settings = Settings(url, model, timeout=20, connect_timeout=5)
        client = ClassifierClient(settings, lambda: web, {}.get, lambda: 0.0, logging.getLogger("desk"))
        try:
            return await work(client)
        finally:
            await web.close()

    return asyncio.run(run())


def test_a_server_without_a_model_is_reachable_has_no_model_and_refuses_without_harm(command_url: str) -> None:
    async def work(client: ClassifierClient) -> None:
        health = await client.probe()
        assert (health.reachable, health.model) == (True, None)
        for _ in range(4):
            assert await client.ask("one", "some text", QUESTIONS) is None
        assert client.tally.snapshot()["declined"] == {"service_error": 4}
        assert "status 422" in client.tally.snapshot()["callers"]["one"]["last_decline"]
        assert client.breaker.state == "closed"

    asked(command_url, work)


def test_every_kind_of_question_passes_its_checks_and_its_answers_ours(home: Path) -> None:
    from typed_gguf import schema
    from typed_gguf.api import http
    from typed_gguf.registry import store

    seen: list[Any] = []

    def decide(payload: dict[str, Any]) -> dict[str, Any]:
        request = schema.parse_request(payload)
        seen.append(request.state)
        return {"model": "tiny", "answers": {each.id: weighed(each) for each in request.questions},
                "usage": {"input_tokens": 1, "output_tokens": 0}}  # fmt: skip

    # An alias that its registry knows; the file is not opened, as the engine is not its own.
    entry = store.Entry("tiny", str(home / "tiny.gguf"), arch="llama", size=1)
    store.save_registry(store.Registry(aliases={"tiny": entry}), store.registry_path(home))
    lines: list[str] = []
    server = http.make_server(http.App(decide=decide, home=home, log=lines.append), port=0)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        found: dict[str, Answer] = asked(
            f"http://127.0.0.1:{server.server_address[1]}",
            lambda client: client.ask("one", {"rows": ["some", "state"]}, QUESTIONS),
            "tiny",
        )
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert seen == [{"rows": ["some", "state"]}], lines
    assert isinstance(found["team"], Choice)
    assert found["team"].choice == "technical"
    assert isinstance(found["urgency"], Score)
    assert found["urgency"].score == pytest.approx((1 * 2 + 2 * 3) / 6, abs=1e-4)
    assert found["urgency"].legend == {"0": "can wait", "1": "today", "2": "now"}
    assert found["safe"] == found["bare"] == Noul(pytest.approx(1 / 3, abs=1e-4))  # type: ignore[arg-type]
    assert json.dumps(QUESTIONS["team"]["instructions"]) not in "".join(lines)


def weighed(question: Any) -> dict[str, Any]:
    """An answer in its native shape: each option weighs one more than the one before it."""
    total = sum(range(1, len(question.options) + 1))
    shares = {option: number / total for number, option in enumerate(question.options, 1)}
    answer: dict[str, Any] = {"type": question.type, "probabilities": shares, "coverage": 1.0, "reliability": "ok"}
    if question.type == "noul":
        return answer | {"noul": shares["yes"]}
    if question.type == "choice":
        return answer | {"choice": question.options[-1], "confidence": 0.5}
    mean = sum(int(option) * share for option, share in shares.items())
    legend = dict(zip(question.options, question.descriptions, strict=True))
    return answer | {"score": mean, "confidence": 0.5, "legend": legend}
