"""Ids and time as the engine makes them."""

from __future__ import annotations

import asyncio
import os
import time


def new_id(prefix: str) -> str:
    """A random id that is never given out again: 80 bits, with a prefix that tells people what it names."""
    return f"{prefix}_{os.urandom(10).hex()}"


class SystemClock:
    """ports.Clock over the system's clocks. The text of the running second is kept, events are many."""

    def __init__(self) -> None:
        self._second = -1
        self._prefix = ""

    def now(self) -> str:
        """RFC 3339 with milliseconds in UTC."""
        moment = time.time()
        second = int(moment)
        if second != self._second:
            self._second = second
            self._prefix = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        return f"{self._prefix}.{int((moment - second) * 1000):03d}Z"

    def monotonic(self) -> float:
        """Seconds from an arbitrary start."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Let others run for so long."""
        await asyncio.sleep(seconds)
