"""Where facts come together: counted, handed to the connections that asked, and to the exporter."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from hermes_daemon.core.telemetry import FACTS, JournalCommitted, Level, Measured, Series, Told, attributes
from hermes_daemon.telemetry.registry import Registry

log = logging.getLogger(__name__)
LONGEST_TEXT = 200
_TEXTS = {
    fact: tuple((row.field, row.unit == "name") for row in attributes(fact) if row.is_text) for fact in FACTS
}  # fmt: skip


class Exporting(Protocol):
    """Takes facts on the event loop and carries them away on a thread of its own."""

    def take(self, told: Told) -> None: ...

    def stop(self) -> None: ...


class Hub:
    """core.ports.Telemetry. `redact` takes secrets out of names; `registry` counts for as long as `counting`."""

    def __init__(self, redact: Callable[[str], str] = str, *, counting: bool = True) -> None:
        self.registry = Registry()
        self.wanted = counting
        self._redact = redact
        self._counting = counting
        self._level: Level = "off"
        self._listener: Callable[[Told], None] | None = None
        self._exporter: Exporting | None = None
        self._soon: Callable[[Callable[[], None]], Any] | None = None
        self._commits: deque[Told] = deque()
        self._waking = False
        self._failed: set[str] = set()

    def emit(self, fact: Measured, session_id: str | None = None, turn_id: str | None = None) -> None:
        """Take a fact, its names cleaned. Never raises: a consumer that fails is said in the log once."""
        if not self.wanted:
            return
        try:
            told = Told(self._cleaned(fact), session_id, turn_id, time.time())
        except Exception as error:  # a redactor is code of others: measuring must not end what is measured
            self._say_failed("redactor", error)
            return
        if self._counting or self._exporter is not None:
            self._hand("registry", lambda told: self.registry.take(told.fact), told)
        if self._listener is not None and self._level != "off":
            self._hand("connections", self._listener, told)
        if self._exporter is not None:
            self._hand("exporter", self._exporter.take, told)

    def hear(self, level: Level, take: Callable[[Told], None] | None) -> None:
        """Hand every fact to `take`; `level` is the most that anybody behind it wants."""
        self._level, self._listener = level, take
        self._reconsider()

    def series(self) -> tuple[Series, ...]:
        """What was counted."""
        return self.registry.series()

    def count(self, counting: bool) -> None:
        """Whether facts are counted; what was counted stays."""
        self._counting = counting
        self._reconsider()

    def export(self, exporter: Exporting | None) -> None:
        """Hand facts to this exporter instead of the one before, which stops. An exporter needs the counts."""
        before, self._exporter = self._exporter, exporter
        if before is not None:
            before.stop()
        self._reconsider()

    # --- from the store's thread ---

    def hear_commits(self, soon: Callable[[Callable[[], None]], Any]) -> None:
        """`soon` runs something on the event loop, soon; it may be called on any thread. What is committed until then
        is handed on together: waking the loop for every commit would be felt."""
        self._soon = soon

    def committed(self, seconds: float, writes: int, durable: bool) -> None:
        """A transaction was committed. Called on the store's thread; the event loop is bothered only when somebody
        wants every detail."""
        if not self.wanted:
            return
        fact = JournalCommitted(round(seconds * 1000, 3), writes, durable)
        self.registry.take(fact)
        soon = self._soon
        if self._level == "all" and self._listener is not None and soon is not None:
            self._commits.append(Told(fact, None, None, time.time()))
            if not self._waking:
                self._waking = True
                try:
                    soon(self._hand_commits)
                except RuntimeError:  # the loop is closed: nobody is there to be told
                    self._commits.clear()

    def _hand_commits(self) -> None:
        """On the event loop."""
        self._waking = False
        while self._commits:
            told = self._commits.popleft()
            if self._listener is not None and self._level == "all":
                self._hand("connections", self._listener, told)

    # --- inside ---

    def _reconsider(self) -> None:
        heard = self._level != "off" and self._listener is not None
        self.wanted = self._counting or heard or self._exporter is not None

    def _cleaned(self, fact: Measured) -> Measured:
        changed: dict[str, str] = {}
        for field, is_name in _TEXTS[type(fact)]:
            text: str = getattr(fact, field)
            clean = (self._redact(text) if is_name else text)[:LONGEST_TEXT]
            if clean != text:
                changed[field] = clean
        return msgspec.structs.replace(fact, **changed) if changed else fact

    def _hand(self, who: str, take: Callable[[Told], None], told: Told) -> None:
        try:
            take(told)
        except Exception as error:  # measuring must not end what is measured
            self._say_failed(who, error)

    def _say_failed(self, who: str, error: Exception) -> None:
        if who not in self._failed:
            self._failed.add(who)
            log.error("telemetry: the %s failed: %s", who, error, exc_info=error)
