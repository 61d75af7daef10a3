"""Papercuts that nobody writes: tool calls that the host says have failed, and gates that stood in the way."""

from __future__ import annotations

import json
import logging
import re
from typing import Any, Final

from hermes_daemon.api import FrictionOutcome, GateFriction, ToolDone

from .cut import Report, signature_of
from .filing import Filing, QuotaSpent, Tally

OWN_TOOL: Final = "papercuts"
VARIES: Final = re.compile(r"0x[0-9a-f]+|[0-9a-f]{8,}|\d+", re.IGNORECASE)
MUCH: Final = 16_000
"""Characters that are looked at for secrets; what is kept of them is less, so that no secret is kept by half."""


class Capture:
    """Files failed calls and delivered blocks. With `enabled` off it files nothing and counts nothing."""

    def __init__(self, filing: Filing, tally: Tally, log: logging.Logger, *, enabled: bool) -> None:
        self.enabled = enabled
        self._filing, self._tally, self._log = filing, tally, log

    def wants(self, done: object) -> bool:
        """A call that failed by the host's own judgement. What its text says is no sign of anything."""
        return isinstance(done, ToolDone) and done.status == "error" and done.tool_name != OWN_TOOL

    async def tool_failed(self, done: ToolDone, context: object = None) -> None:
        """Observer of post_tool_call."""
        message = (done.error_message or done.result)[:MUCH]
        report = Report(
            "tool", "low", f"{done.tool_name} does what it was asked", message or "it failed and said nothing",
            invocation=f"{done.tool_name} {_json(done.args)}",
        )  # fmt: skip
        parts = ("capture", done.tool_name, done.error_type)
        await self._file("post_tool_call", report, parts)

    async def block_delivered(self, tool_name: str = "", message: str = "", **_: Any) -> None:
        """Subscriber of loop_guard.block_delivered."""
        if not self.enabled:
            return
        said = str(message)[:MUCH] or "it was blocked"
        report = Report("workflow", "medium", f"{tool_name or 'a call'} may run", said)
        await self._file("loop_guard.block_delivered", report, ("block", tool_name))

    async def _file(self, source: str, report: Report, parts: tuple[str, ...]) -> None:
        def signature(clean: Report) -> str:
            return signature_of(*parts, VARIES.sub("#", clean.observed))

        self._tally.count(source, await filed(self._filing, report, "capture", signature, self._log))


class Sink:
    """The service `papercuts.friction` (api.FrictionSink). It is there whenever the plugin is loaded: switched off it
    counts what it is told as `no_sink`; without auto_capture, as `disabled`."""

    def __init__(self, filing: Filing, tally: Tally, log: logging.Logger, *, on: bool, auto_capture: bool) -> None:
        self._filing, self._tally, self._log = filing, tally, log
        self._on, self._auto_capture = on, auto_capture

    async def report(self, friction: GateFriction) -> FrictionOutcome:
        """See api.FrictionSink."""
        outcome = await self._outcome(friction)
        self._tally.count(friction.source, outcome)
        return outcome

    async def _outcome(self, friction: GateFriction) -> FrictionOutcome:
        if not self._on:
            return "no_sink"
        if not self._auto_capture:
            return "disabled"
        report = Report(
            "workflow", "medium", f"{friction.source} lets the work go on", friction.detail or friction.kind,
            invocation=f"{friction.source} {friction.kind}",
        )  # fmt: skip

        def signature(_: Report) -> str:
            return signature_of("friction", friction.source, friction.kind, friction.identity)

        return await filed(self._filing, report, "friction", signature, self._log)


async def filed(filing: Filing, report: Report, origin: Any, signature: Any, log: logging.Logger) -> FrictionOutcome:
    """File it by itself and say how that went."""
    try:
        await filing.by_itself(report, origin, signature)
    except QuotaSpent:
        return "quota"
    except Exception as error:  # the work that failed already must not fail once more for its report
        log.warning("a papercut could not be filed: %s: %s", type(error).__name__, error)
        return "failed"
    return "filed"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)[:MUCH]
