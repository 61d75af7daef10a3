"""What a running tool may know and do: ports.ToolContext for one call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from hermes_daemon.core.settings import Settings
from hermes_daemon.engine.growing import Growing
from hermes_daemon.engine.processes import SessionProcesses
from hermes_daemon.engine.shown import LineRedactor

if TYPE_CHECKING:
    from hermes_daemon.engine.runner import Runner

MAX_INLINE: Final = 65_536


class CallContext:
    """ports.ToolContext for one call."""

    def __init__(self, runner: Runner, call_id: str, growing: Growing, settings: Settings) -> None:
        session = runner.session
        self.session_id = session.session_id
        self.turn_id = runner.turn_id
        self.call_id = call_id
        self.cwd = session.row.cwd
        self.env: Mapping[str, str] = {**session.parts.environment, **session.row.env}
        self.settings = settings
        self.processes = SessionProcesses(session.parts.store, session.session_id, session.parts.redact)
        self._runner = runner
        self._growing = growing
        self._lines = LineRedactor(session.parts.redact)
        self._bytes = self._told = 0

    def progress(self, text: str) -> None:
        """Show more output. Past the inline limit nothing more is streamed, only how many bytes there are, each time
        these are a quarter more: the result holds head, tail and a blob."""
        self._bytes += len(text.encode("utf-8", "replace"))
        if self._listened and (shown := self._lines.feed(text)):
            self._growing.say(shown[: MAX_INLINE - self._growing.length])
        past = self._growing.length >= MAX_INLINE and not self._runner.over
        if past and self._bytes > self._told + self._told // 4:
            self._told = self._bytes
            self._growing.count(self._bytes)

    def finish(self) -> None:
        """Show what was held back because its line was not finished."""
        if self._listened and (rest := self._lines.rest()):
            self._growing.say(rest)

    @property
    def _listened(self) -> bool:
        # A tool that outlives its interrupt says nothing more: no event of a turn follows turn.ended.
        return self._growing.length < MAX_INLINE and not self._runner.over
