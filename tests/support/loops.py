"""Event loops a daemon may run on: asyncio's own, and uvloop where it is installed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

try:
    import uvloop
except ImportError:
    FACTORIES: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop}
else:
    FACTORIES = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}

on_every_loop = pytest.mark.parametrize("loop", sorted(FACTORIES))


def run(story: Coroutine[Any, Any, None], loop: str = "asyncio") -> None:
    """Run a test's story on the loop of that name."""
    with asyncio.Runner(loop_factory=FACTORIES[loop]) as runner:
        runner.run(story)


class SkippingLoop(asyncio.SelectorEventLoop):
    """A loop whose time a test can put forward: what was to happen meanwhile is due at once."""

    _skipped = 0.0

    def time(self) -> float:
        return super().time() + self._skipped

    def skip(self, seconds: float) -> None:
        """Let so much time be over."""
        self._skipped += seconds
