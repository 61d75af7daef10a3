"""@copilotkit/aimock (npm): a scripted server of the OpenAI format, with errors on order.

Found through HERMES_TEST_NODE_MODULES, the `node_modules` folder it is installed in.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.foreign_server import call, foreign_server, free_port


class Aimock:
    """A running server."""

    def __init__(self, url: str) -> None:
        self.url = url

    @property
    def base_url(self) -> str:
        return f"{self.url}/v1"

    def journal(self) -> list[dict[str, Any]]:
        """The requests it has seen, oldest first."""
        rows: list[dict[str, Any]] = call(f"{self.url}/__aimock/journal")
        return rows

    def chaos(self, **rates: float) -> None:
        """Set the rates of random faults (dropRate, malformedRate, disconnectRate, rateLimitRate); none: clear them."""
        call(f"{self.url}/__aimock/chaos", "POST" if rates else "DELETE", rates or None)


@contextmanager
def aimock(fixtures: list[dict[str, Any]], folder: Path, *options: str) -> Iterator[Aimock]:
    """Start it with these fixtures, written into `folder`; skips the test, with the reason, where it is absent."""
    modules = os.environ.get("HERMES_TEST_NODE_MODULES", "")
    program = Path(modules) / "@copilotkit" / "aimock" / "dist" / "cli.js"
    node = shutil.which("node")
    if not modules or not program.is_file() or node is None:
        pytest.skip("aimock is not here (npm i @copilotkit/aimock; HERMES_TEST_NODE_MODULES names its node_modules)")
    path = folder / "aimock-fixtures.json"
    path.write_text(json.dumps({"fixtures": fixtures}))
    port = free_port()
    command = [node, str(program), "-p", str(port), "-f", str(path), "--log-level", "warn"]
    with foreign_server([*command, *options], port) as url:
        yield Aimock(url)
