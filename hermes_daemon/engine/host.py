"""What plugins may ask of the engine: ports.Host over the sessions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from hermes_daemon.core.ports import Refused, ToolOutcome
from hermes_daemon.engine.identity import new_id
from hermes_daemon.engine.runner import Runner
from hermes_daemon.engine.session import Session
from hermes_daemon.engine.session_row import EFFORTS, refusal
from hermes_daemon.engine.tool_call import run_call
from hermes_protocol.content import By, TextBlock, ToolCall
from hermes_protocol.methods import SubmitParams


class EngineHost:
    """ports.Host. `find` gives a session by its id, or raises."""

    def __init__(self, find: Callable[[str], Session]) -> None:
        self._find = find

    async def dispatch_tool(self, session_id: str, name: str, args: dict[str, Any]) -> ToolOutcome:
        """Run a tool in the turn that runs, as its model would: shown, judged, asked for. Refused without a turn."""
        runner = self._running(session_id, "a tool is run in a turn, and none runs")
        call = ToolCall(new_id("call"), name, msgspec.json.encode(args).decode())
        returned = await run_call(runner, call, cut=False)
        runner.tool_items.pop(call.call_id, None)
        drafts, ops = runner.completed(list(runner.finished.pop(call.call_id, ())))
        await runner.session.feed.commit(drafts, lambda _: ops, patience=None)
        return ToolOutcome(returned.text, returned.is_error)

    async def inject_message(self, session_id: str, text: str, who: str) -> str:
        """See ports.Host."""
        params = SubmitParams(session_id, (TextBlock(text),), new_id("key"), "queue")
        by = By(f"plugin:{who}", who, "plugin", 1)
        return (await self._find(session_id).admission.submit(params, by)).turn_id

    def cancel_model_call(self, session_id: str, reason: str) -> bool:
        """See ports.Host. The turn ends as interrupted; its partial text and finished calls stay."""
        runner = self._find(session_id).runner
        return runner is not None and runner.interrupt(reason or "cancelled by a plugin")

    def set_turn_reasoning(self, session_id: str, effort: str, reason: str) -> str:
        """See ports.Host. It holds for the running turn only."""
        if effort not in EFFORTS:
            return f"{effort!r} is no reasoning effort: {', '.join(EFFORTS)}"
        runner = self._find(session_id).runner
        if runner is None:
            return "no turn runs"
        try:
            _, model = runner.session.parts.models.resolve(runner.model_id)
        except Refused:
            return f"{runner.model_id} is not there any more"
        if problem := refusal(model, effort):
            return problem
        runner.thinking = effort
        return ""

    def _running(self, session_id: str, otherwise: str) -> Runner:
        runner = self._find(session_id).runner
        if runner is None or runner.over:
            raise Refused(otherwise)
        return runner
