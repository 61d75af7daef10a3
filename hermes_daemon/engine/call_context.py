"""What a running tool may know and do: ports.ToolContext for one call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from hermes_daemon.core.ports import Answered, Ask, Rejected
from hermes_daemon.core.settings import Settings
from hermes_daemon.engine.answers import Resolution, flat_schema
from hermes_daemon.engine.growing import Growing
from hermes_daemon.engine.passage import Passage
from hermes_daemon.engine.processes import SessionProcesses
from hermes_daemon.engine.shown import LineRedactor
from hermes_daemon.middleware.payloads import TerminalOutput
from hermes_protocol.events import Question, RequestKind

if TYPE_CHECKING:
    from hermes_daemon.engine.runner import Runner

MAX_INLINE: Final = 65_536
DEPTH_VARIABLE: Final = "HERMES_AGENT_DEPTH"
"""Tells programs that a tool starts how many agents stand between a person and them (submit's `depth`)."""


class CallContext:
    """ports.ToolContext for one call. `waited` is how many seconds it waited for people."""

    def __init__(self, runner: Runner, call_id: str, growing: Growing, settings: Settings, points: Passage) -> None:
        session = runner.session
        self.session_id = session.session_id
        self.turn_id = runner.turn_id
        self.call_id = call_id
        self.cwd = session.row.cwd
        depth = {DEPTH_VARIABLE: str(runner.depth + 1)}
        self.env: Mapping[str, str] = {**session.parts.environment, **session.row.env, **depth}
        self.settings = settings
        self.processes = SessionProcesses(session.parts.store, session.session_id, self.redact)
        self.waited = 0.0
        self.secrets: list[str] = []
        self._runner = runner
        self._growing = growing
        self._points = points
        self._lines = LineRedactor(self.redact)
        self._bytes = self._told = 0

    def redact(self, text: str) -> str:
        """The text without credentials, and without the secrets that people gave to this call."""
        for secret in self.secrets:
            text = text.replace(secret, "[secret]")
        return self._runner.session.parts.redact(text)

    # --- people and clients ---

    async def ask(self, request: Ask) -> Answered:
        """See ports.ToolContext."""
        timeout_s = self.settings.approvals.timeout if request.timeout_s is None else request.timeout_s
        resolution = await self._ask(request.kind, timeout_s, **self._fields(request))
        if resolution.value:
            self.secrets.append(resolution.value)
        return Answered(resolution.outcome, resolution.answers, resolution.value, resolution.values, resolution.by)

    async def call_client(self, name: str, args: dict[str, Any], connection_id: str, timeout_s: float) -> Resolution:
        """Let a connection run one of its tools."""
        shown = self.redact(msgspec.json.encode(args).decode())
        call = {"call_id": self.call_id, "name": name, "args": shown, "connection_id": connection_id}
        return await self._ask("clientTool", timeout_s, **call)

    async def _ask(self, kind: RequestKind, timeout_s: float, **fields: Any) -> Resolution:
        session = self._runner.session
        began = session.parts.clock.monotonic()
        try:
            return await session.questions.ask(
                kind, turn_id=self.turn_id, item_id=self._growing.item.item_id, timeout_s=timeout_s, **fields
            )
        finally:
            if kind != "clientTool":
                self.waited += session.parts.clock.monotonic() - began

    def _fields(self, request: Ask) -> dict[str, Any]:
        """What request.opened says of it; Rejected when the tool asks for something that cannot be asked."""
        prompt = self.redact(request.prompt)
        match request.kind:
            case "clarify":
                ids = [question.id for question in request.questions]
                if not ids or len(set(ids)) != len(ids):
                    raise Rejected("expected questions, each with an id of its own", "$.questions")
                return {"questions": tuple(map(self._shown, request.questions))}
            case "secret":
                return {"prompt": prompt, "name": request.name}
        return {"prompt": prompt, "form_schema": flat_schema(request.schema)}

    def _shown(self, question: Question) -> Question:
        choices = tuple(map(self.redact, question.choices))
        return msgspec.structs.replace(question, text=self.redact(question.text), choices=choices)

    # --- output ---

    @property
    def transforms_output(self) -> bool:
        """See ports.ToolContext."""
        return self._points.has("transform_terminal_output")

    async def transform_output(self, command: str, output: str, code: int | None) -> str:
        """See ports.ToolContext."""
        given = TerminalOutput(command, self.redact(output), code, tool_call_id=self.call_id)
        return (await self._points.fold("transform_terminal_output", given, _only_output)).output

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


def _only_output(before: TerminalOutput, after: TerminalOutput) -> TerminalOutput:
    if not isinstance(after.output, str):
        raise TypeError(f"output: expected a text, got {type(after.output).__name__}")
    return msgspec.structs.replace(before, output=after.output)
