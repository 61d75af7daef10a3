"""llmock (package index): a server that fails on order and judges how its client took it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support.foreign_server import call, foreign_server, free_port


class Llmock:
    """A running server. Faults are queued with `order`; `findings` is what it holds against the client so far."""

    def __init__(self, url: str) -> None:
        self.url = url

    @property
    def base_url(self) -> str:
        return f"{self.url}/v1"

    def reset(self) -> None:
        call(f"{self.url}/_llmock/reset", "POST")

    def order(self, *behaviours: dict[str, Any]) -> None:
        call(f"{self.url}/_llmock/scenario", "POST", {"behaviors": list(behaviours)})

    def requests(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = call(f"{self.url}/_llmock/requests")["requests"]
        return rows

    def findings(self) -> list[dict[str, Any]]:
        verdict = call(f"{self.url}/_llmock/verdict")
        rows: list[dict[str, Any]] = verdict["findings"]
        return rows


@contextmanager
def llmock(*options: str) -> Iterator[Llmock]:
    """Start it; skips the test, with the reason, where it is not installed."""
    pytest.importorskip("llmock", reason="llmock is not installed (pip install llmock)")
    port = free_port()
    code = "from llmock.cli import app; app()"
    command = [sys.executable, "-c", code, "serve", "-h", "127.0.0.1", "-p", str(port), "--log-level", "warning"]
    with foreign_server([*command, *options], port) as url:
        yield Llmock(url)
